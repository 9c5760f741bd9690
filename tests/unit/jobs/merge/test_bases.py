"""Several bases, and what is below them."""

from __future__ import annotations

from itertools import count

from lancewood.jobs.merge.merge_bases import Bases

BELOW = {("b", "c"): ["d", "e"], ("d", "e"): ["f"], ("b", "x"): []}


def found(*bases: str, most: int = 100) -> Bases[str]:
    return Bases.of(
        bases, lambda one, other: BELOW[one, other], lambda one: f"no{one}", lambda one: one, most
    )


def crosswise(branches: int, rounds: int, most: int = 100) -> tuple[Bases[str], int]:
    """Bases in a history where in each round every branch merged every other one, and how often it
    was asked what two of them come from."""
    asked = count()

    def states(number: int) -> list[str]:
        return [f"{name}{number}" for name in "abcdefgh"[:branches]]

    def below(one: str, other: str) -> list[str]:
        next(asked)
        earlier = int(one[1:]) - 1
        if earlier < 0:
            return ["root"]
        return states(earlier) if one < other else states(earlier)[::-1]

    made = Bases.of(states(rounds), below, lambda one: f"no{one}", lambda one: one, most)
    return made, next(asked)


def test_one_base_has_nothing_below() -> None:
    assert [*found("a")] == ["a"]
    assert found("a").joined(lambda *_: "joined") == "a"


def test_all_comes_before_what_is_below_and_numbers_are_positions() -> None:
    bases = found("b", "c", "x")
    assert [*bases] == ["b", "c", "x", "d", "e", "nob", "f"]
    assert (bases.all, bases.below) == (("b", "c", "x"), ("d", "e", "nob", "f"))
    assert [*bases.numbered()] == [*range(7)]
    assert bases.numbered().each([*bases].__getitem__).joined("({}{}{})".format) == bases.joined(
        "({}{}{})".format
    )


def test_two_are_joined_over_what_they_come_from() -> None:
    assert found("b", "c").joined("({}{}{})".format) == "((fde)bc)"


def test_after_many_states_the_first_counts_and_it_can_be_told() -> None:
    assert [*found("b", "c", most=3)] == ["b", "c", "d"]
    assert found("b", "c", most=3).joined("({}{}{})".format) == "(dbc)"
    assert found("b", "c", most=3).joined("({}{}{})".format, cut="{}?".format) == "(d?bc)"
    assert found("b", "c").joined("({}{}{})".format, cut="{}?".format) == "((fde)bc)"


def test_what_is_below_several_pairs_is_there_once_however_many_ways_lead_to_it() -> None:
    bases, asked = crosswise(4, rounds=7)
    assert len([*bases]) == 4 * 8 + 1
    assert asked == 3 * 8
    joins = count()
    bases.joined(lambda *three: f"{next(joins)}")
    assert next(joins) == 3 * 8


def test_states_below_bases_are_bounded_and_those_near_the_top_come_first() -> None:
    bases, _ = crosswise(4, rounds=500, most=40)
    assert len([*bases]) == 36 + 1
    assert [*bases][:8] == ["a500", "b500", "c500", "d500", "a499", "b499", "c499", "d499"]


def test_states_that_claim_to_come_from_each_other_end() -> None:
    bases = Bases.of(["a", "b"], lambda *_: ["b", "a"], str.upper, lambda one: one)
    assert bases.joined("({}{}{})".format, cut="{}?".format) == "(a?ab)"
