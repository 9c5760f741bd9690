"""Several bases, and what is below them."""

from __future__ import annotations

from lancewood.jobs.uniting.bases import Bases

BELOW = {("b", "c"): ["d", "e"], ("d", "e"): ["f"], ("b", "x"): []}


def found(*bases: str, depth: int = 8) -> Bases[str]:
    return Bases.of(bases, lambda one, other: BELOW[one, other], lambda one: f"no{one}", depth)


def test_one_base_has_nothing_below() -> None:
    assert [*found("a")] == ["a"]
    assert found("a").joined(lambda *_: "joined") == "a"


def test_all_comes_before_what_is_below_and_numbers_are_positions() -> None:
    bases = found("b", "c", "x")
    assert [*bases] == ["b", "c", "x", "d", "e", "f", "nob"]
    assert (bases.all, bases.below) == (("b", "c", "x"), ("d", "e", "f", "nob"))
    assert [*bases.numbered()] == [*range(7)]
    assert bases.numbered().each([*bases].__getitem__).joined("({}{}{})".format) == bases.joined(
        "({}{}{})".format
    )


def test_two_are_joined_over_what_they_come_from() -> None:
    assert found("b", "c").joined("({}{}{})".format) == "((fde)bc)"


def test_at_some_depth_the_first_counts() -> None:
    assert [*found("b", "c", depth=1)] == ["b", "c", "d"]
