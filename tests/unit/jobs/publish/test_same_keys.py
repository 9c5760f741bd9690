"""Branches that meet with new rows under one primary key."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.errors import ConflictError, IncompatibleConflictError
from lancewood.jobs.publish import publication
from lancewood.jobs.publish.closed_branch import close

Change = Callable[[lw.Table], lw.Table]
KEY = {"lance-schema:unenforced-primary-key": "true"}


def rows(*keys: int, v: int = 0, declared: bool = True) -> pa.Table:
    fields = [
        pa.field("id", pa.int64(), nullable=False, metadata=KEY if declared else None),
        pa.field("v", pa.int64()),
    ]
    return pa.table([pa.array(keys, pa.int64()), [v] * len(keys)], schema=pa.schema(fields))


def append(*keys: int) -> Change:
    return lambda table: table.append(rows(*keys, v=1))


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return lw.create(
        tmp_path / "t.lance",
        rows(*range(10)),
        layout=lw.Layout(max_rows_per_file=5),
        access=lw.Access(fsync=False),
    )


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sides of which keys are read."""
    seen: list[str] = []
    check = publication.check_keys

    def noted(mine: Any, theirs: Any, runner: Any) -> None:
        seen.append(f"{mine.row_count} {theirs.row_count}")
        check(mine, theirs, runner)

    monkeypatch.setattr("lancewood.jobs.publish.publication.check_keys", noted)
    return seen


def meet(table: lw.Table, on_branch: Sequence[Change], on_main: Sequence[Change]) -> lw.Table:
    branch = table.branches.create("b")
    for change in on_branch:
        branch = change(branch)
    for change in on_main:
        table = change(table)
    return table.branches.publish("b")


def test_two_branches_that_append_the_same_key_do_not_make_a_duplicate(table: lw.Table) -> None:
    with pytest.raises(IncompatibleConflictError, match=r"same primary key \(id = 11\)") as refused:
        meet(table, [append(10, 11)], [append(11, 12)])
    assert pickle.loads(pickle.dumps(refused.value)).facts["keys"] == [{"id": 11}]
    assert "fragment" not in str(refused.value)
    assert table.latest().version == 2
    table.branches.delete("b", force=True)
    assert meet(table.latest(), [append(13)], [append(14)]).count_rows() == 14


def test_a_few_of_many_keys_are_named(table: lw.Table) -> None:
    with pytest.raises(IncompatibleConflictError, match="id = 20; id = 21; id = 22 and 7 more"):
        meet(table, [append(*range(20, 30))], [append(*range(15, 40))])


def test_a_dry_run_is_refused_as_publishing_is(table: lw.Table) -> None:
    table.branches.create("b").append(rows(11))
    table.append(rows(11))
    with pytest.raises(IncompatibleConflictError, match="id = 11"):
        table.branches.publish("b", dry_run=True)


def test_without_a_declared_key_nothing_is_compared(tmp_path: Path, compared: list[str]) -> None:
    table = lw.create(tmp_path / "t", rows(1, declared=False), access=lw.Access(fsync=False))
    assert meet(table, [append(2)], [append(2)]).count_rows() == 3
    assert compared == []


def test_a_fast_forward_and_work_without_new_keys_read_nothing(
    table: lw.Table, compared: list[str]
) -> None:
    assert meet(table, [append(11)], []).count_rows() == 11
    table.branches.delete("b")
    table = table.latest()
    changes: list[Change] = [
        lambda each: each.update({"v": "5"}, "id = 1", rewrite="rows"),
        lambda each: each.delete("id = 7"),
    ]
    table = meet(table, changes, [append(12)])
    table.branches.delete("b")
    table = meet(table, [append(13)], [lambda each: each.compact(target_rows=1_000)])
    assert table.count_rows() == 12
    assert compared == []


def test_a_key_of_two_columns_is_the_same_if_both_are(tmp_path: Path) -> None:
    def data(*keys: tuple[int, str]) -> pa.Table:
        fields = [
            pa.field("day", pa.int64(), nullable=False, metadata=KEY),
            pa.field("shop", pa.string(), nullable=False, metadata=KEY),
        ]
        columns = [pa.array(each) for each in zip(*keys, strict=True)]
        return pa.table(columns, schema=pa.schema(fields))

    table = lw.create(tmp_path / "t", data((1, "a")), access=lw.Access(fsync=False))
    one, other = data((2, "a"), (2, "b")), data((3, "a"), (1, "b"))
    table = meet(table, [lambda t: t.append(one)], [lambda t: t.append(other)])
    assert table.count_rows() == 5
    table.branches.delete("b")
    twice = data((9, "z"))
    with pytest.raises(IncompatibleConflictError, match=r"\(day = 9, shop = 'z'\)"):
        meet(table, [lambda t: t.append(twice)], [lambda t: t.append(twice)])


@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_a_key_that_a_row_of_before_got_counts_as_new(table: lw.Table, rewrite: Any) -> None:
    def rekey(new: int) -> Change:
        return lambda table: table.update({"id": str(new)}, "id = 3", rewrite=rewrite)

    with pytest.raises(IncompatibleConflictError, match="id = 77"):
        meet(table, [append(77)], [rekey(77)])
    table.latest().restore(1).branches.delete("b", force=True)
    with pytest.raises(IncompatibleConflictError, match="id = 78"):
        meet(table.latest(), [rekey(78)], [append(78)])


def test_a_row_that_the_target_deleted_again_is_no_duplicate(table: lw.Table) -> None:
    done = meet(table, [append(11)], [append(11), lambda t: t.delete("id = 11")])
    assert done.count_rows() == 11


def test_rows_of_before_are_found_among_rows_that_moved_with_new_ones(table: lw.Table) -> None:
    def upsert(*keys: int) -> Change:
        return lambda table: table.merge(rows(*keys, v=4), on="id")

    assert meet(table, [append(21)], [upsert(1, 20)]).count_rows() == 12
    table.branches.delete("b")
    with pytest.raises(IncompatibleConflictError, match="id = 30"):
        meet(table.latest(), [append(30)], [upsert(2, 30)])


def test_without_stable_row_ids_new_fragments_are_compared(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(rows(*range(10)), uri, enable_stable_row_ids=False)
    with pytest.raises(IncompatibleConflictError, match="id = 11"):
        meet(lw.open(uri, access=lw.Access(fsync=False)), [append(11)], [append(11)])
    table = lw.open(uri, access=lw.Access(fsync=False))
    table.branches.delete("b", force=True)
    assert meet(table, [append(12)], [append(13)]).count_rows() == 13


def test_more_keys_than_are_held_at_once_are_compared_in_portions(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "_MOST_KEYS", 3)
    monkeypatch.setattr(publication, "_KEYS_IN_A_TASK", 2)
    many = [append(each, each + 100) for each in range(20, 30)]
    with pytest.raises(IncompatibleConflictError, match="id = 129"):
        meet(table, many, [append(*range(200, 240)), append(129)])


def test_a_key_that_lands_at_the_last_moment_is_found(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch, compared: list[str]
) -> None:
    def late(*arguments: Any) -> Any:
        done = close(*arguments)
        table.latest().append(rows(11))
        return done

    table.branches.create("b").append(rows(11))
    table.append(rows(12))
    monkeypatch.setattr("lancewood.jobs.publish.publish.close", late)
    with pytest.raises(IncompatibleConflictError, match="id = 11"):
        table.branches.publish("b")
    assert compared == ["1 1", "1 1"], "what was looked at is not looked at again"
    monkeypatch.setattr("lancewood.jobs.publish.publish.close", close)
    table.latest().delete("id = 11")
    assert table.latest().branches.publish("b").count_rows() == 12


def test_a_branch_that_declares_the_key_is_held_to_it(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", rows(1, declared=False), access=lw.Access(fsync=False))
    with pytest.raises(IncompatibleConflictError, match="id = 2"):
        meet(table, [lambda t: t.set_field_metadata({"id": KEY}), append(2)], [append(2)])


def test_a_row_that_both_changed_is_named_by_its_key(table: lw.Table) -> None:
    def change(value: int) -> Change:
        return lambda table: table.update({"v": str(value)}, "id = 7", rewrite="rows")

    with pytest.raises(ConflictError, match="both change the row with the key id = 7;") as refused:
        meet(table, [change(1)], [change(2)])
    assert refused.value.facts["key"] == {"id": 7}


def test_without_a_key_it_is_named_by_its_row_id_and_how_to_see_it(tmp_path: Path) -> None:
    table = lw.create(
        tmp_path / "t", rows(*range(10), declared=False), access=lw.Access(fsync=False)
    )
    with pytest.raises(ConflictError, match=r"_rowid 7 \(version 1 shows it where _rowid = 7\)"):
        meet(table, [lambda t: t.delete("id = 7")], [lambda t: t.delete("id in (7, 8)")])
    assert table.scan(["id"], "_rowid = 7").to_arrow()["id"].to_pylist() == [7]


def test_the_operation_that_adds_columns_is_told_from_a_merge_of_rows(table: lw.Table) -> None:
    with pytest.raises(ConflictError, match=r"Merge \(columns added or cast\) in version 2"):
        meet(table, [lambda t: t.delete("id = 7")], [lambda t: t.add_columns({"w": "id"})])
