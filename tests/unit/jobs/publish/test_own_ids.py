"""Rows keep the ids that their branch gave them: publishing, restoring, renaming, cleaning up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import edit_manifest

import lancewood as lw
from lancewood.model.lines import (
    LINE_KEY,
    MERGED_KEY,
    first_id,
    has_own_ids,
    held_by,
    line_of,
    merged_into,
    space_of,
)
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import MapUpdate, Transaction, UpdateConfig

ROWS = pa.table({"id": [1, 2, 3]})


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "t.lance", ROWS)


def head(table: lw.Table) -> Manifest:
    return table._snapshot.manifest


def ids(table: lw.Table) -> dict[int, int]:
    """Row ids by the values of the rows, as pylance has them."""
    found = lance.dataset(table.uri, version=table.version)
    found.validate()
    read = found.to_table(with_row_id=True)
    return dict(zip(*(read[each].to_pylist() for each in ("id", "_rowid")), strict=True))


def test_rows_of_a_branch_keep_their_ids_beside_rows_of_the_target(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(10, 11))
    table.append(rows(20))
    main = table.branches.publish("exp")
    mark = head(exp).next_row_id
    assert ids(main) == {1: 0, 2: 1, 3: 2, 20: 3, 10: mark - 2, 11: mark - 1}
    assert head(main).next_row_id == mark, "the branch is closed, and hands out none any more"
    assert ids(main.append(rows(21)))[21] == mark
    assert held_by(head(main))[line_of(head(exp)).id].version == exp.version
    assert LINE_KEY not in head(main).config


def test_a_branch_that_begins_anew_does_not_go_on_in_ids_that_its_target_has(
    table: lw.Table,
) -> None:
    exp = table.branches.create("exp").append(rows(10))
    main = table.branches.publish("exp").append(rows(20))
    again = table.branches.reset("exp").append(rows(11))
    assert head(again).next_row_id > head(main).next_row_id > head(exp).next_row_id
    found = ids(table.branches.publish("exp"))
    assert len({*found.values()}) == len(found) == 6


def test_a_lower_mark_of_the_branch_does_not_lower_that_of_the_target(table: lw.Table) -> None:
    one = table.branches.create("one").append(rows(10))
    table.branches.create("other").append(rows(11))
    table.branches.publish("other")
    before = head(table.latest()).next_row_id
    main = table.branches.publish("one")
    assert head(main).next_row_id == before > head(one).next_row_id
    assert len({*ids(main).values()}) == 5


def merged(ours: lw.Table, theirs: lw.Table) -> lw.Table:
    """Ours after theirs was merged into it, as far as that is recorded."""
    held = merged_into(head(ours), held_by(head(theirs)))
    change = UpdateConfig(config=MapUpdate({MERGED_KEY: held}))
    return lw.Table(ours._snapshot.commit(Transaction.new(head(ours).version, change)))


def test_a_branch_into_which_the_target_was_merged_is_not_published(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(10))
    merged(exp, table.append(rows(20)))
    with pytest.raises(lw.IncompatibleConflictError, match="both hold work of main since"):
        table.branches.publish("exp")
    assert lw.open(table.uri, branch="exp").append(rows(11)).count_rows() == 5, "it stays open"


def test_a_branch_that_took_back_what_the_target_merged_of_it_is_not_published(
    table: lw.Table,
) -> None:
    """Since the fork it did nothing, as it stands; the target still has what it took back."""
    exp = table.branches.create("exp").append(rows(10))
    main = table.append(rows(20)).branches.merge("exp")
    exp.checkout(version=exp.version - 1).restore()
    with pytest.raises(lw.IncompatibleConflictError, match="both hold work of branch 'exp'"):
        main.branches.publish("exp")
    assert lw.open(table.uri).version == main.version


def test_branches_that_merged_the_same_are_published_once(table: lw.Table) -> None:
    third = table.branches.create("third").append(rows(10))
    for each in ("one", "other"):
        merged(table.branches.create(each).append(rows(11)), third)
    main = table.branches.publish("one")
    assert held_by(head(main))[line_of(head(third)).id].version == third.version
    with pytest.raises(lw.IncompatibleConflictError, match=r"both hold work of branch 'third'"):
        table.branches.publish("other")


def test_rows_of_a_branch_that_pylance_made_move_behind_those_of_the_target(
    table: lw.Table,
) -> None:
    lance.dataset(table.uri).create_branch("theirs")
    theirs = lw.open(table.uri, branch="theirs").append(rows(10))
    assert not has_own_ids(head(theirs))
    table.append(rows(20))
    main = table.branches.publish("theirs")
    assert ids(main) == {1: 0, 2: 1, 3: 2, 20: 3, 10: 4}
    assert MERGED_KEY not in head(main).config


def test_new_rows_do_not_get_ids_of_the_next_space(table: lw.Table) -> None:
    exp = table.branches.create("exp")
    end = first_id(space_of(head(exp).next_row_id) + 1)
    edit_manifest(f"{table.uri}/tree/exp", lambda message: setattr(message, "next_row_id", end - 3))
    exp = lw.open(table.uri, branch="exp").append(rows(10))
    for change in (rows(11, 12), rows(11, 12, 13)):
        with pytest.raises(
            lw.UnsupportedError, match=r"new rows need row ids, and 1 are left.*mak"
        ):
            exp.append(change)
    assert exp.append(rows(11)).branches.create("child").append(rows(12, 13)).count_rows() == 7


def test_the_first_space_has_no_end(table: lw.Table) -> None:
    end = first_id(1)
    edit_manifest(table.uri, lambda message: setattr(message, "next_row_id", end - 1))
    assert ids(lw.open(table.uri).append(rows(10, 11)))[11] == end


def test_a_restored_version_of_an_earlier_life_stays_on_the_line(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(10))
    table.append(rows(20))
    again = table.branches.reset("exp", force=True).append(rows(11))
    restored = again.restore(exp.version)
    assert line_of(head(restored)) == line_of(head(again))
    assert head(restored).next_row_id == head(again).next_row_id
    held = held_by(head(restored))
    assert held[line_of(head(exp)).id].version == exp.version
    assert held["main"].version == 1
    back = restored.restore(again.version)
    assert held_by(head(back)).keys() == held_by(head(again)).keys()


def test_settings_are_replaced_without_the_line(table: lw.Table) -> None:
    exp = table.branches.create("exp").set_config({"a": "b"}, replace=True)
    assert head(exp).config.keys() == {"a", LINE_KEY, MERGED_KEY}
    for key in (LINE_KEY, MERGED_KEY):
        with pytest.raises(lw.InvalidInputError, match="is set when branches are made and merged"):
            exp.set_config({key: None})


def test_a_clone_is_a_table_by_itself(table: lw.Table, tmp_path: Path) -> None:
    exp = table.branches.create("exp").append(rows(10))
    for each, deep in (("shallow", False), ("deep", True)):
        clone = exp.clone(tmp_path / each, deep=deep)
        assert head(clone).config.keys().isdisjoint({LINE_KEY, MERGED_KEY})
        assert ids(clone.append(rows(11)))[11] == head(exp).next_row_id
        assert head(clone.latest().branches.create("b")).next_row_id > head(exp).next_row_id + 1


def test_versions_that_others_have_merged_are_not_cleaned_up(table: lw.Table) -> None:
    table.branches.create("exp").append(rows(10))
    table.append(rows(20))
    table.branches.publish("exp")
    table.branches.reset("exp").append(rows(11))
    main = lw.open(table.uri).append(rows(21))
    now = timedelta(0)
    report = lw.open(table.uri, branch="exp").cleanup(older_than=now, in_flight=now)
    assert [each.version for each in report.kept] == [2]
    assert "main has merged it" in report.kept[0].why
    lw.open(table.uri, branch="exp").append(rows(12))
    report = main.cleanup(older_than=now, in_flight=now)
    assert 3 in {each.version for each in report.kept}, "the branch begins there"


def test_a_renamed_branch_keeps_its_line_and_its_ids(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(10))
    new = table.branches.rename("exp", "new")
    assert line_of(head(new)).uuid == line_of(head(exp)).uuid
    assert ids(table.branches.publish("new"))[10] == head(exp).next_row_id - 1
