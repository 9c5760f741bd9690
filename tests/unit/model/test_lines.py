"""Lines, what a state holds of them, and spaces of row ids: plain values, checked at the edge."""

from __future__ import annotations

from random import Random

import pytest

from lancewood.errors import UnsupportedError
from lancewood.model.ids import DETACHED_BIT, Version
from lancewood.model.lines import (
    LINE_KEY,
    MERGED_KEY,
    MOST_SPACES,
    SPACE_BITS,
    Line,
    Reached,
    decode_vector,
    encode_vector,
    first_id,
    has_own_ids,
    held_by,
    joined,
    line_config,
    line_of,
    merged_into,
    next_space,
    space_of,
)
from lancewood.model.manifest import ManifestHead
from lancewood.proto import table_pb2

ONE, TWO = "0" * 31 + "1", "0" * 31 + "2"
LINE = Line(ONE, Version(3), "exp")


def head(branch: str | None, version: int = 7, **config: str) -> ManifestHead:
    message = table_pb2.Manifest(version=version)
    if branch is not None:
        message.branch = branch
    message.config.update({f"lancewood.{key}": value for key, value in config.items()})
    return ManifestHead(message)


def test_main_is_a_line_whatever_its_configuration_says() -> None:
    assert line_of(head(None, line=LINE.encode())) == Line("main", Version(0), None)
    assert has_own_ids(head(None))
    assert held_by(head(None)) == {"main": Reached(Version(7), None)}


def test_a_line_is_known_by_the_key_that_names_its_branch() -> None:
    assert line_of(head("exp", line=LINE.encode())) == LINE
    assert has_own_ids(head("exp", line=LINE.encode()))


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", f"{ONE}:3:other", f"{ONE}:3", f"{ONE[1:]}:3:exp", f"{ONE}:-3:exp"),
        *(f"{ONE}:٣:exp", f"{ONE}:{1 << 64}:exp", f"{ONE}:3:exp ", "main:3:exp"),
        f"{ONE}:3:exp:exp",
    ],
)
def test_a_key_that_is_copied_or_damaged_makes_no_line_with_ids_of_its_own(text: str) -> None:
    found = line_of(head("exp", line=text))
    assert (found.uuid, found.branch, found.id) == ("", "exp", "/exp")
    assert not has_own_ids(head("exp", line=text))
    assert held_by(head("exp", line=text)) == {"/exp": Reached(Version(7), "exp")}


def test_a_version_holds_its_own_line_and_what_is_recorded() -> None:
    found = held_by(head("exp", line=LINE.encode(), merged=f"main:3:main {TWO}:9:dev"))
    assert found == {
        ONE: Reached(Version(7), "exp"),
        TWO: Reached(Version(9), "dev"),
        "main": Reached(Version(3), None),
    }
    assert decode_vector(encode_vector(found)) == found


def test_a_detached_version_is_on_no_line() -> None:
    assert not held_by(head(None, version=DETACHED_BIT | 5))


def test_parts_of_a_vector_that_cannot_be_read_are_ignored() -> None:
    text = f"main:3:main  {ONE}:x:exp {ONE}:{1 << 64}:exp {TWO}:1 /old:4:old \x00 main:2:main"
    assert decode_vector(text) == {
        "main": Reached(Version(3), None),
        "/old": Reached(Version(4), "old"),
    }


def test_two_vectors_are_joined_by_the_later_version_of_each_line() -> None:
    one = {"main": Reached(Version(3), None), ONE: Reached(Version(8), "new")}
    other = {"main": Reached(Version(5), None), ONE: Reached(Version(7), "old")}
    assert joined(one, other) == joined(other, one)
    assert joined(one, other) == {
        "main": Reached(Version(5), None),
        ONE: Reached(Version(8), "new"),
    }


def test_what_is_merged_is_recorded_without_the_own_line() -> None:
    before = head("exp", line=LINE.encode(), merged="main:3:main")
    held = {"main": Reached(Version(2), None), TWO: Reached(Version(9), "dev")}
    assert merged_into(before, {**held, ONE: Reached(Version(5), "exp")}) == (
        f"{TWO}:9:dev main:3:main"
    )
    detached = head(None, version=DETACHED_BIT | 5)
    assert merged_into(detached, {TWO: Reached(Version(9), "dev")}) == f"{TWO}:9:dev"


def test_the_configuration_of_another_line_keeps_the_rest() -> None:
    before = {"a": "b", LINE_KEY: f"{TWO}:1:dev", MERGED_KEY: "main:1:main"}
    held = {"main": Reached(Version(3), None)}
    assert line_config(before, LINE, held) == {
        "a": "b",
        LINE_KEY: f"{ONE}:3:exp",
        MERGED_KEY: "main:3:main",
    }
    assert line_config(before, None, held) == {"a": "b", MERGED_KEY: "main:3:main"}


def test_a_space_is_above_all_that_are_claimed_and_above_the_mark() -> None:
    rng = Random(1)
    for claimed, mark in ((0, 17), (5000, 17), (3, first_id(7000) + 5)):
        found = [next_space(claimed, mark, rng) for _ in range(200)]
        least = max(claimed, space_of(mark))
        assert all(least < each <= least + 1024 for each in found)
        assert len(set(found)) > 100


def test_all_row_ids_are_below_2_to_the_63() -> None:
    class Highest(Random):
        def randrange(self, *_: object) -> int:
            return 0

    last = next_space(MOST_SPACES - 2, 0, Highest())
    assert first_id(last) + (1 << SPACE_BITS) == 1 << 63
    with pytest.raises(UnsupportedError, match="copy its rows to a new table"):
        next_space(MOST_SPACES - 1, 0, Highest())
