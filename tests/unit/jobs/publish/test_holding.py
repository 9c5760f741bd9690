"""Which work a version says it holds, and that no work comes twice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import ConflictError
from lancewood.jobs.compose.next_version import BRANCH_PROPERTY, BRANCH_VERSION_PROPERTY
from lancewood.jobs.publish.branch_work import (
    HELD_PROPERTY,
    HeldWork,
    encode_held,
    held_in,
    in_common,
)
from lancewood.model.ids import Version
from lancewood.model.transaction import ReserveFragments, Transaction

pytestmark = pytest.mark.usefixtures("pages_decoded_here")

ROWS = pa.table({"id": [1, 2, 3]})


def held(branch: str, since: int, until: int, line: str = "") -> HeldWork:
    return HeldWork(branch, Version(since), Version(until), line)


def said(properties: dict[str, str]) -> tuple[HeldWork, ...]:
    return held_in(Transaction(Version(1), "u", (ReserveFragments(1),), properties))


def test_what_is_written_down_is_read_again() -> None:
    work = (held("exp", 5, 7, "0b1c"), held("a/b.c", 9, 12), held("exp", 5, 7, "0b1c"))
    assert encode_held(work) == "exp:5-7@0b1c a/b.c:9-12"
    assert said({HELD_PROPERTY: encode_held(work)}) == work[:2]


def test_a_version_of_before_says_its_branch_only() -> None:
    told = {BRANCH_PROPERTY: "exp", BRANCH_VERSION_PROPERTY: "7"}
    assert said(told) == (held("exp", 0, 7),)
    assert said({}) == said({BRANCH_PROPERTY: "exp"}) == ()
    assert said({**told, BRANCH_VERSION_PROPERTY: "seven"}) == ()


def test_what_cannot_be_understood_is_left_out() -> None:
    assert said({HELD_PROPERTY: "exp exp:1 exp:a-b exp:1-2 :1-2"}) == (held("exp", 1, 2),)


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        (held("exp", 5, 7), held("exp", 6, 7), True),
        (held("exp", 5, 7), held("exp", 0, 6), True),
        (held("exp", 5, 7), held("exp", 7, 9), False),
        (held("exp", 5, 7), held("exp", 0, 5), False),
        (held("exp", 5, 7), held("dev", 5, 7), False),
        (held("exp", 5, 7, "one"), held("exp", 5, 7, "other"), False),
        (held("exp", 5, 7, "one"), held("renamed", 6, 8, "one"), True),
        (held("exp", 5, 7, "one"), held("exp", 6, 8), True),
    ],
)
def test_versions_meet_after_the_first_and_up_to_the_last(
    one: HeldWork, other: HeldWork, meets: bool
) -> None:
    assert one.meets(other) is meets
    assert other.meets(one) is meets
    assert (in_common([one], [other]) == one) is meets


def test_a_restored_version_takes_back_what_came_after_it_for_publishing(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    table.branches.create("exp").append(ROWS)
    table.overwrite(ROWS.slice(0, 1)).restore(1)
    done = table.branches.publish("exp")
    assert done.count_rows() == 6
    assert done.verify(deep=True).ok


def test_a_restored_version_from_before_the_fork_is_still_refused(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    table.append(ROWS).branches.create("exp").append(ROWS)
    table.latest().restore(1)
    with pytest.raises(ConflictError, match="Restore"):
        table.branches.publish("exp")


def test_a_branch_whose_name_was_used_before_is_another_one(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    table.tags.create("old")
    table = table.append(ROWS).append(ROWS)
    table.branches.create("fix").append(ROWS)
    table = table.append(ROWS).branches.publish("fix")
    table.branches.delete("fix")
    table.branches.create("fix", at="old").append(ROWS)
    assert table.branches.publish("fix").count_rows() == table.count_rows() + 3
