"""Publishing a branch: afterwards the target is what it would be had the work been done there.

The work is done on a branch and published, and again on a plain table, one change after the other;
both must hold the same. pylance reads, validates, appends, indexes, compacts and cleans the target
when the branch is gone. What does not go together is refused, and nothing has changed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import lance
import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.pylance import MARKS, judged

import lancewood as lw
from lancewood.jobs.counts import Published
from lancewood.model.table_config import PUBLISHED_KEY

pytestmark = pytest.mark.sliced(9)

Change: TypeAlias = Callable[[lw.Table], lw.Table]


def rows(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "a": pa.array([k % 5 for k in numbers], pa.int64()),
            "s": [f"s{k}" for k in numbers],
        }
    )


def dataset(table: lw.Table) -> Any:
    return lance.dataset(table.uri)


def index(column: str, kind: str) -> Change:
    def build(table: lw.Table) -> lw.Table:
        dataset(table).create_scalar_index(column, kind)
        return table.latest()

    return build


def optimise(table: lw.Table) -> lw.Table:
    dataset(table).optimize.optimize_indices()
    return table.latest()


def update(where: str, rewrite: str) -> Change:
    return lambda table: table.update({"a": "a + 100"}, where, rewrite=rewrite)  # type: ignore[arg-type]


def update_by_pylance(table: lw.Table) -> lw.Table:
    dataset(table).update({"a": "9"}, "k = 27")
    return table.latest()


def append(first: int, stop: int) -> Change:
    return lambda table: table.append(rows(first, stop))


def delete(where: str) -> Change:
    return lambda table: table.delete(where)


def add(table: lw.Table) -> lw.Table:
    return table.add_columns({"d": "k * 2"})


def compact(target: int) -> Change:
    return lambda table: table.compact(target_rows=target)


UPSERT = pa.table(
    {"k": pa.array([6, 150], pa.int64()), "a": pa.array([7, 8], pa.int64()), "s": ["m", "n"]}
)
WIDE = pa.table({"k": [100, 101], "a": [1, 2], "s": ["x", "y"], "d": [5, 6]})
NULLS = pa.schema({"z": pa.int64()})

WORK: dict[str, Sequence[Change]] = {
    "append": [append(100, 110)],
    "delete": [delete("k IN (3, 14)")],
    "delete a fragment": [delete("k < 10")],
    "update rows": [update("k IN (4, 5, 15)", "rows")],
    "update columns": [update("k IN (4, 5, 15)", "columns")],
    "merge": [lambda table: table.merge(UPSERT, on="k")],
    "add a column": [add],
    "add nulls": [lambda table: table.add_columns(NULLS)],
    "drop": [lambda table: table.drop_columns(["s"])],
    "drop what is updated": [lambda table: table.drop_columns(["a"])],
    "rename": [lambda table: table.rename_column("a", "b")],
    "cast": [lambda table: table.cast_column("a", pa.int32())],
    "compact": [delete("k IN (3, 4)"), compact(10)],
    "index": [index("k", "BTREE")],
    "config": [lambda table: table.set_config({"x": "1"})],
    "metadata": [lambda table: table.set_metadata({"y": "1"})],
    "field metadata": [lambda table: table.set_field_metadata({"a": {"u": "v"}})],
    "many": [
        append(100, 110),
        update("k IN (5, 103)", "rows"),
        delete("k IN (7, 8, 104)"),
        append(110, 115),
        compact(10),
        lambda table: table.set_config({"x": "1"}),
    ],
    "append, delete there": [append(100, 110), delete("k IN (3, 105)")],
    "append, index": [append(100, 110), index("a", "BITMAP"), delete("k = 101")],
    "index, update columns": [index("a", "BTREE"), update("k IN (5, 6)", "columns")],
    "index, update rows": [index("a", "BITMAP"), update("k IN (5, 6)", "rows")],
    "add, update rows": [add, update("k IN (5, 6)", "rows")],
    "add, update columns": [add, update("k IN (5, 6)", "columns")],
    "add, compact": [delete("k IN (3, 4)"), add, compact(10)],
    "add, drop it": [add, lambda table: table.drop_columns(["d"]), delete("k = 1")],
    "add, append, delete": [
        add,
        lambda table: table.append(WIDE),
        delete("k IN (3, 100)"),
    ],
    "rename, append": [
        lambda table: table.rename_column("a", "b"),
        lambda table: table.append(pa.table({"k": [100], "b": [1], "s": ["x"]})),
    ],
    "overwrite": [lambda table: table.overwrite(rows(500, 510))],
    "overwrite with another schema": [
        lambda table: table.overwrite(pa.table({"k": pa.array([1, 2], pa.int64())})),
        lambda table: table.append(pa.table({"k": pa.array([3], pa.int64())})),
    ],
    "restore": [
        append(100, 110),
        lambda table: table.restore(table.version - 1),
        delete("k = 3"),
    ],
}

MOVES: dict[str, Sequence[Change]] = {
    "append": [append(200, 207)],
    "append, delete there": [append(200, 207), delete("k = 203")],
    "delete elsewhere": [delete("k IN (25, 26)")],
    "delete in the same fragment": [delete("k IN (1, 11)")],
    "update rows elsewhere": [update("k IN (27, 28)", "rows")],
    "update columns elsewhere": [update("k IN (27, 28)", "columns")],
    "upsert": [lambda table: table.merge(UPSERT, on="k")],
    "update by pylance": [update_by_pylance],
    "config": [lambda table: table.set_config({"w": "2"})],
    "compact elsewhere": [delete("k IN (31, 32)"), compact(10)],
    "rename": [lambda table: table.rename_column("s", "t")],
    "drop": [lambda table: table.drop_columns(["s"])],
    "index": [index("a", "BITMAP")],
}

ROWS_ONLY = (
    "append",
    "append, delete there",
    "delete elsewhere",
    "update rows elsewhere",
    "config",
    "compact elsewhere",
)
TOGETHER = [
    *(("append", each) for each in MOVES),
    *(("delete", each) for each in MOVES),
    *(("update rows", each) for each in MOVES if each not in ("drop", "rename")),
    *(("update columns", each) for each in ROWS_ONLY),
    *(("many", each) for each in ROWS_ONLY),
    *(("compact", each) for each in ROWS_ONLY),
    *(("append, delete there", each) for each in ROWS_ONLY),
    *(("append, index", each) for each in ("append", "update rows elsewhere")),
    *(("index", each) for each in ("append", "update columns elsewhere", "rename")),
    ("index, update columns", "append"),
    ("index, update rows", "update rows elsewhere"),
    ("merge", "config"),
    ("add a column", "config"),
    ("add, update rows", "config"),
    ("rename", "append"),
    ("rename, append", "append, delete there"),
    ("drop", "append"),
    ("drop", "delete elsewhere"),
    ("drop", "update rows elsewhere"),
    ("drop", "update columns elsewhere"),
    ("drop", "update by pylance"),
    ("drop what is updated", "append"),
    ("field metadata", "append"),
    ("config", "config"),
]
"""Work and what happened on the target, which go together."""

APART = [
    ("add a column", "append"),
    ("cast", "delete elsewhere"),
    ("compact", "delete in the same fragment"),
    ("delete a fragment", "delete in the same fragment"),
    ("merge", "append"),
    ("rename", "rename"),
    ("drop what is updated", "update rows elsewhere"),
    ("drop what is updated", "update columns elsewhere"),
    ("drop what is updated", "update by pylance"),
    ("drop what is updated", "upsert"),
    ("overwrite", "append"),
    ("overwrite", "config"),
    ("restore", "config"),
    ("index", "compact elsewhere"),
]


def run(table: lw.Table, changes: Sequence[Change]) -> lw.Table:
    for each in changes:
        table = each(table)
    return table


def content(uri: str) -> list[str]:
    """The rows, whatever their order and that of the columns."""
    found = lance.dataset(uri).to_table().to_pylist()
    return sorted(repr(sorted(row.items())) for row in found)


def by_row_id(table: lw.Table) -> dict[int, dict[str, Any]]:
    found = table.scan([*table.schema.names, "_rowid"]).to_arrow().to_pylist()
    return {row["_rowid"]: row for row in found}


def check_changes(before: lw.Table, after: lw.Table) -> None:
    """What ``changes`` tells is what a look at every value tells."""
    old, new = by_row_id(before), by_row_id(after)
    common = set(before.schema.names) & set(after.schema.names)
    updated = {
        each
        for each in old.keys() & new.keys()
        if any(old[each][name] != new[each][name] for name in common)
    }
    told = after.changes(since=before.version)
    ids = [
        set(each.to_arrow()["_rowid"].to_pylist())
        for each in (told.inserted, told.updated, told.deleted)
    ]
    assert ids == [new.keys() - old.keys(), updated, old.keys() - new.keys()]


def check_indices(uri: str) -> None:
    """Filters give the same with indices and without."""
    found = lance.dataset(uri)
    for column in ("k", "a"):
        if column not in found.schema.names:
            continue
        for condition in ("= 1", "> 99", "IN (2, 3, 105, 203)", "< 20", "!= 3"):
            asked = f"{column} {condition}"
            fast = found.to_table(filter=asked, columns=["k"])
            slow = found.scanner(filter=asked, columns=["k"], use_scalar_index=False).to_table()
            assert sorted(fast["k"].to_pylist()) == sorted(slow["k"].to_pylist()), asked
            assert found.count_rows(filter=asked) == len(slow)


def check_rows(table: lw.Table) -> None:
    found = dataset(table)
    found.validate()
    facts = found.to_table(columns=["_rowid", *MARKS])
    ids = facts["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)
    if table.has_stable_row_ids and ids:
        assert max(ids) < table._snapshot.manifest.next_row_id
        for name in MARKS:
            assert max(facts[name].to_pylist()) <= table.version
    assert table.verify().problems == ()


def check_life_goes_on(uri: str) -> None:
    """pylance appends, indexes, deletes, compacts and cleans, and everything is still there."""
    before = content(uri)
    found: Any = lance.dataset(uri)
    found.insert(found.to_table(limit=1))
    found = lance.dataset(uri)
    found.optimize.optimize_indices()
    check_indices(uri)
    found = lance.dataset(uri)
    found.delete("k = 39")
    found.optimize.compact_files(target_rows_per_fragment=1000)
    found = lance.dataset(uri)
    found.cleanup_old_versions(
        older_than=timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    lance.dataset(uri).validate()
    gone = sum("('k', 39)" in row for row in before)
    assert len(content(uri)) == len(before) + 1 - gone
    check_indices(uri)


def fresh(directory: Path, *, stable: bool = True) -> lw.Table:
    uri = str(directory / "t.lance")
    return lw.create(
        uri, rows(0, 40), layout=lw.Layout(max_rows_per_file=10, stable_row_ids=stable)
    )


def branch_of(table: lw.Table, *, by_pylance: bool = False) -> lw.Table:
    if not by_pylance:
        return table.branches.create("exp")
    dataset(table).create_branch("exp")
    return lw.open(f"{table.uri}@exp")


def expected(directory: Path, *orders: Sequence[Change], stable: bool) -> list[str]:
    """The rows of a table where everything happened in one of the orders that are possible."""
    directory.mkdir()
    for changes in orders:
        table = fresh(directory, stable=stable)
        try:
            return content(run(table, changes).uri)
        except lw.InvalidInputError:
            shutil.rmtree(table.uri)
    raise AssertionError("none of the orders is possible")


def check_published(
    tmp_path: Path, work: str, move: str | None, *, stable: bool = True, by_pylance: bool = False
) -> lw.Table:
    mine, theirs = WORK[work], MOVES[move] if move else []
    table = fresh(tmp_path, stable=stable)
    run(branch_of(table, by_pylance=by_pylance), mine)
    before = run(table, theirs)
    after = before.branches.publish("exp")
    assert after.version == before.version + 1
    assert PUBLISHED_KEY not in after.config
    orders = [*theirs, *mine], [*mine, *theirs]
    assert content(after.uri) == expected(tmp_path / "plain", *orders, stable=stable)
    check_rows(after)
    if stable:
        check_changes(before, after)
    check_indices(after.uri)
    files = [file for each in after.fragments for file in (*each.files, each.deletion_file) if file]
    assert all(file.base_id is None for file in files)
    assert all(each.base_id is None for each in after.indices)
    before.branches.delete("exp")
    check_life_goes_on(after.uri)
    return after


@pytest.mark.parametrize("work", WORK)
def test_work_on_a_branch_is_published_as_if_it_had_been_done_on_the_target(
    tmp_path: Path, work: str
) -> None:
    after = check_published(tmp_path, work, None)
    assert after.version == 2
    assert isinstance(after.counts, Published)
    assert after.counts.is_fast_forward


@pytest.mark.parametrize("work", ["many", "add, update rows", "append, index", "compact", "drop"])
def test_work_is_published_without_stable_row_ids(tmp_path: Path, work: str) -> None:
    check_published(tmp_path, work, None, stable=False)


@pytest.mark.parametrize(("work", "move"), TOGETHER)
def test_work_is_published_onto_a_target_that_moved(tmp_path: Path, work: str, move: str) -> None:
    check_published(tmp_path, work, move)


@pytest.mark.parametrize(
    ("work", "move"),
    [
        *(("many", each) for each in ROWS_ONLY),
        *(("append, delete there", each) for each in ROWS_ONLY),
        *(("delete", each) for each in ROWS_ONLY),
        ("append, index", "append, delete there"),
    ],
)
def test_work_is_published_onto_a_moved_target_without_stable_row_ids(
    tmp_path: Path, work: str, move: str
) -> None:
    check_published(tmp_path, work, move, stable=False)


@pytest.mark.parametrize("move", [None, "append, delete there"])
@pytest.mark.parametrize("work", ["many", "append, index", "update rows", "append, delete there"])
def test_a_branch_that_pylance_made_is_published(
    tmp_path: Path, work: str, move: str | None
) -> None:
    check_published(tmp_path, work, move, by_pylance=True)


@pytest.mark.parametrize(("work", "move"), APART)
def test_what_does_not_go_together_is_refused_and_nothing_has_changed(
    tmp_path: Path, work: str, move: str
) -> None:
    table = fresh(tmp_path)
    branch = run(table.branches.create("exp"), WORK[work])
    before = run(table, MOVES[move])
    files = sorted(Path(table.uri).rglob("*"))
    with pytest.raises(lw.ConflictError, match=r"in version \d+ .*version \d+ of the target") as e:
        before.branches.publish("exp")
    assert "fresh branch" in str(e.value)
    assert before.latest().version == before.version
    assert sorted(Path(table.uri).rglob("*")) == files
    assert branch.latest().version == branch.version
    branch.latest().set_config({"still": "open"})


def test_pylance_made_all_of_the_work_and_all_of_the_files(tmp_path: Path) -> None:
    """Its data files lie below the branch, and are taken over under other names."""
    table = fresh(tmp_path)
    dataset(table).create_branch("exp")
    root = f"{table.uri}/tree/exp"
    work: Any = lance.dataset(root)
    work.insert(rows(100, 110))
    work.delete("k IN (3, 101)")
    work.update({"a": "77"}, where="k IN (5, 105)")
    work.create_scalar_index("k", "BTREE")
    named = {each.name for each in Path(root, "data").iterdir()}
    assert named
    before = table.append(rows(200, 203))
    after = before.branches.publish("exp")
    check_rows(after)
    check_changes(before, after)
    check_indices(after.uri)
    assert counts_of(after, lw.Published).left_out_indices == ("k_idx",)
    assert not named & {file.path for each in after.fragments for file in each.files}
    assert after.count_rows() == 40 + 10 - 2 + 3
    before.branches.delete("exp")
    check_life_goes_on(after.uri)


def test_an_index_comes_along_where_its_rows_keep_their_ids(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    branch = run(table.branches.create("exp"), [append(100, 110), index("k", "BTREE")])
    after = run(table, MOVES["config"]).branches.publish("exp")
    (made,) = after.indices
    assert sorted(made.fragments) == [0, 1, 2, 3, 4]
    assert made.uuid != branch.latest().indices[0].uuid
    plan = dataset(after).scanner(filter="k = 105").explain_plan()
    assert "ScalarIndexQuery" in plan
    check_indices(after.uri)


def test_an_index_of_old_rows_comes_along_and_answers_for_no_others(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), [index("k", "BTREE"), append(100, 110)])
    after = table.append(rows(200, 207)).branches.publish("exp")
    (made,) = after.indices
    assert sorted(made.fragments) == [0, 1, 2, 3]
    check_indices(after.uri)
    dataset(after).optimize.optimize_indices(num_indices_to_merge=0)
    check_indices(after.uri)


def test_an_index_that_names_rows_by_ids_of_others_is_left_out(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), [append(100, 110), index("k", "BTREE")])
    after = table.append(rows(200, 207)).branches.publish("exp")
    assert after.indices == ()
    assert counts_of(after, lw.Published).left_out_indices == ("k_idx",)


def test_an_optimised_index_that_is_left_out_leaves_the_older_one(tmp_path: Path) -> None:
    table = index("k", "BTREE")(fresh(tmp_path))
    work = [append(100, 110), update("k IN (5, 6)", "columns"), optimise]
    run(table.branches.create("exp"), work)
    before = table.append(rows(200, 207))
    after = before.branches.publish("exp")
    assert [each.uuid for each in after.indices] == [each.uuid for each in before.indices]
    check_indices(after.uri)
    dataset(after).optimize.optimize_indices(num_indices_to_merge=0)
    check_indices(after.uri)


def test_a_new_index_of_the_target_does_not_answer_for_columns_that_the_branch_wrote(
    tmp_path: Path,
) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), [update("k IN (5, 15)", "columns")])
    after = index("a", "BTREE")(table).branches.publish("exp")
    (kept,) = after.indices
    assert sorted(kept.fragments) == [2, 3]
    check_indices(after.uri)


def test_by_reference_files_stay_below_the_branch_which_a_tag_keeps(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    dataset(table).create_branch("exp")
    work: Any = lance.dataset(f"{table.uri}/tree/exp")
    work.insert(rows(100, 110))
    work.delete("k IN (3, 101)")
    before = table.append(rows(200, 203))
    after = before.branches.publish("exp", adopt=False)
    check_rows(after)
    check_changes(before, after)
    assert after.count_rows() == 40 + 10 - 2 + 3
    (base,) = after.base_paths
    assert base.path == f"{table.uri}/tree/exp"
    assert after.fragments[-1].files[0].base_id == base.id
    assert after.fragments[0].deletion_file is not None
    assert after.fragments[0].deletion_file.base_id == base.id
    (tag,) = after.tags.list(pins=True)
    assert tag.startswith("lw.publish.")
    with pytest.raises(lw.LancewoodError, match=r"lw\.publish"):
        after.branches.delete("exp")
    with pytest.raises(Exception, match=r"(?i)tag|referenc"):
        dataset(after).branches.delete("exp")
    check_life_goes_on(after.uri)


def test_a_branch_of_a_branch_is_published_step_by_step(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    parent = table.branches.create("p").append(rows(100, 105))
    child = parent.branches.create("p/q")
    child.append(rows(110, 115)).delete("k IN (3, 101, 112)")
    with pytest.raises(lw.InvalidInputError, match=r"made from branch 'p'.*not onto main"):
        table.branches.publish("p/q", "main")
    parent = parent.append(rows(120, 123))
    onto = table.branches.publish("p/q", "p")
    assert onto.branch == "p"
    assert onto.count_rows() == 40 + 5 + 5 + 3 - 3
    lance.dataset(onto.uri).validate()
    roots = {each.id: each.path for each in onto.base_paths}
    assert {
        roots[file.base_id]
        for each in onto.fragments
        for file in each.files
        if file.base_id is not None
    } == {table.uri}
    table.branches.delete("p/q")
    after = table.branches.publish("p")
    check_rows(after)
    assert content(after.uri) == content(onto.uri)
    table.branches.delete("p")
    check_life_goes_on(after.uri)


def test_a_published_branch_is_closed_until_it_is_reset(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    branch = table.branches.create("exp").append(rows(100, 105))
    table.tags.create("then", "exp:2")
    after = table.branches.publish("exp")
    for handle in (branch, branch.latest()):
        with pytest.raises(lw.IncompatibleConflictError, match="it was published"):
            handle.append(rows(0, 1))
    again = table.branches.publish("exp")
    assert again.version == after.version
    assert not counts_of(again, lw.Published).is_new
    other = branch.latest().branches.create("other")
    assert other.append(rows(300, 301)).count_rows() == 46
    after = after.append(rows(200, 203))
    began = table.branches.reset("exp")
    assert began.version == 5
    assert content(began.uri) == content(after.uri)
    assert table.branches.get("exp").parent_version == after.version
    found = dataset(table).checkout_version(("exp", None))
    found.validate()
    assert found.version == 5
    assert lw.open(table.uri, tag="then").count_rows() == 45
    began = began.append(rows(400, 401)).delete("k = 200")
    last = table.branches.publish("exp")
    assert content(last.uri) == content(began.uri)
    assert counts_of(last, lw.Published).is_fast_forward
    check_rows(last)
    check_changes(after, last)


def stored(location: Path) -> dict[Path, bytes]:
    return {each: each.read_bytes() for each in location.rglob("*") if each.is_file()}


@pytest.mark.parametrize("adopt", [True, False])
@pytest.mark.parametrize(("work", "moves"), [("many", "append"), ("append, index", "config")])
def test_a_dry_run_tells_what_publishing_would_do(
    tmp_path: Path, work: str, moves: str, adopt: bool
) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), WORK[work])
    target = run(table, MOVES[moves])
    before = stored(tmp_path)
    would = table.branches.publish("exp", adopt=adopt, dry_run=True)
    assert stored(tmp_path) == before
    assert would.version == target.version
    done = table.branches.publish("exp", adopt=adopt)
    assert would.counts == replace(counts_of(done, lw.Published), is_dry_run=True)
    again = counts_of(table.branches.publish("exp", dry_run=True), lw.Published)
    assert (again.is_new, again.is_dry_run) == (False, True)


@pytest.mark.parametrize(("work", "moves"), APART)
def test_a_dry_run_is_refused_as_publishing_is(tmp_path: Path, work: str, moves: str) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), WORK[work])
    run(table, MOVES[moves])
    before = stored(tmp_path)
    with pytest.raises(lw.ConflictError) as would:
        table.branches.publish("exp", dry_run=True)
    assert stored(tmp_path) == before
    with pytest.raises(type(would.value)) as refused:
        table.branches.publish("exp")
    assert str(would.value) == str(refused.value)


@pytest.mark.parametrize("is_in_the_way", [False, True])
def test_a_dry_run_leaves_a_publishing_that_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_the_way: bool
) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), [delete("k < 10")])

    def cut_off(*args: object) -> None:
        raise lw.StorageError("the store is down")

    with monkeypatch.context() as patch:
        patch.setattr("lancewood.jobs.publish.publication.Publication.compose", cut_off)
        with pytest.raises(lw.StorageError):
            table.branches.publish("exp")
    if is_in_the_way:
        table.delete("k = 1")
    before = stored(tmp_path)
    if is_in_the_way:
        with pytest.raises(lw.ConflictError):
            table.branches.publish("exp", dry_run=True)
    else:
        assert counts_of(table.branches.publish("exp", dry_run=True), lw.Published).is_new
    assert stored(tmp_path) == before


def test_a_closed_branch_is_refused_before_a_file_is_written(tmp_path: Path) -> None:
    table = fresh(tmp_path).add_base(tmp_path / "cold", name="cold")
    table.branches.create("exp").append(rows(100, 105))
    table.branches.publish("exp")
    branch = lw.open(table.uri, branch="exp")
    before = sorted(tmp_path.rglob("*"))
    changes: list[Callable[[], object]] = [
        lambda: branch.append(rows(0, 1)),
        lambda: branch.overwrite(rows(0, 1)),
        lambda: branch.delete("k = 1"),
        lambda: branch.compact(),
        lambda: branch.add_columns({"more": "k"}),
        lambda: branch.move_fragments(base="cold"),
        lambda: branch.add_base(tmp_path / "ice"),
        lambda: branch.detach(),
    ]
    for change in changes:
        with pytest.raises(lw.IncompatibleConflictError, match="it was published"):
            change()
    assert sorted(tmp_path.rglob("*")) == before
    table.branches.reset("exp")
    assert counts_of(branch.latest().move_fragments([0], base="cold"), lw.MoveCounts).fragments == 1


def test_a_branch_that_was_begun_anew_stays_open_if_its_published_version_is_restored(
    tmp_path: Path,
) -> None:
    table = lw.create(tmp_path / "t", rows(0, 10), access=lw.Access(fsync=False))
    branch = table.branches.create("exp").append(rows(10, 20))
    table = table.branches.publish("exp")
    closed = branch.latest().version
    began = table.branches.reset("exp")
    restored = began.restore(closed).append(rows(20, 21))
    assert restored.count_rows() == 21
    assert dataset(restored).count_rows() == 21


def test_a_branch_with_work_is_not_reset_unless_that_is_given_up(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    branch = table.branches.create("exp").append(rows(100, 105))
    with pytest.raises(lw.IncompatibleConflictError, match=r"not published.*force=True"):
        table.branches.reset("exp")
    began = table.append(rows(200, 201)).branches.reset("exp", at=1, force=True)
    assert began.version == branch.version + 1
    assert began.count_rows() == 40
    table.branches.publish("exp")
    assert table.latest().version == 2
    began.append(rows(300, 302))
    table.branches.publish("exp")
    assert table.latest().count_rows() == 43


def test_what_pylance_writes_to_a_closed_branch_is_not_lost_by_a_reset(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    branch = table.branches.create("exp").append(rows(100, 105))
    table.branches.publish("exp")
    late: Any = lance.dataset(branch.uri)
    late.insert(rows(300, 301))
    with pytest.raises(lw.IncompatibleConflictError, match="from after it was published"):
        table.branches.reset("exp")
    with pytest.raises(lw.IncompatibleConflictError, match="wrote to it afterwards"):
        table.branches.publish("exp")
    table.branches.reset("exp", force=True)
    assert lw.open(f"{table.uri}@exp").count_rows() == 45


def test_nothing_to_publish_is_no_version_and_the_branch_stays_open(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    branch = table.branches.create("exp")
    same = table.branches.publish("exp")
    assert same.version == table.version
    assert not counts_of(same, lw.Published).is_new
    branch.append(rows(100, 101))
    assert table.branches.publish("exp").version == 2


@pytest.mark.parametrize("late", ["ours", "pylance's"])
def test_an_append_while_a_branch_is_published_survives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """It lands between the last look at the target and the commit."""
    from lancewood.jobs.publish import publication as composing

    table = fresh(tmp_path)
    run(table.branches.create("exp"), WORK["append, delete there"])
    plan = composing.Publication.plan
    left = [append(300, 302), append(310, 312), append(320, 322)]

    def meddle(self: composing.Publication, newest: Any) -> Any:
        made = plan(self, newest)
        if left and PUBLISHED_KEY in lw.open(f"{table.uri}@exp").config:
            if late == "ours":
                left.pop()(table.latest())
            else:
                dataset(table).insert(rows(300 + len(left) * 10, 302 + len(left) * 10))
                left.pop()
        return made

    monkeypatch.setattr(composing.Publication, "plan", meddle)
    after = table.branches.publish("exp")
    assert after.version == 5
    assert after.count_rows() == 40 + 10 - 2 + 6
    check_rows(after)
    check_changes(after.checkout(version=4), after)
    table.branches.delete("exp")
    check_life_goes_on(after.uri)


def test_a_conflict_that_lands_at_the_last_moment_opens_the_branch_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancewood.jobs.publish import publication as composing

    table = fresh(tmp_path)
    branch = run(table.branches.create("exp"), WORK["append, delete there"])
    compose = composing.Publication.compose
    files = sorted(Path(table.uri, "_deletions").rglob("*"))

    def meddle(self: composing.Publication, newest: Any) -> Any:
        made = compose(self, newest)
        if table.latest().version == 1:
            table.delete("k = 3")
        return made

    monkeypatch.setattr(composing.Publication, "compose", meddle)
    with pytest.raises(lw.ConflictError, match="both change the row with _rowid 3"):
        table.branches.publish("exp")
    assert len(sorted(Path(table.uri, "_deletions").rglob("*"))) == len(files) + 1
    assert table.latest().version == 2
    assert PUBLISHED_KEY not in branch.latest().config
    branch.latest().append(rows(300, 301))


def test_a_version_tells_people_which_work_it_is(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    table.branches.create("exp").append(rows(100, 105))
    after = table.branches.publish(
        "exp", message="day 3", commit=lw.CommitOptions(properties={"run": "7"})
    )
    (newest, *_) = after.versions()
    assert newest.message == "day 3"
    told = dict(newest.properties)
    assert told.pop("lancewood.holds").startswith("exp:1-2@")
    assert told == {"lancewood.branch": "exp", "lancewood.branch_version": "2", "run": "7"}
    assert newest.operation == "Append"


@pytest.mark.parametrize(
    ("work", "operation"),
    [
        ("append", "Append"),
        ("delete", "Delete"),
        ("delete a fragment", "Delete"),
        ("update rows", "Update"),
        ("update columns", "Update"),
        ("compact", "Update"),
        ("many", "Update"),
        ("add a column", "Merge"),
        ("add, append, delete", "Merge"),
        ("rename", "Project"),
        ("index", "CreateIndex"),
        ("config", "UpdateConfig"),
        ("field metadata", "UpdateConfig"),
        ("overwrite", "Overwrite"),
    ],
)
def test_pylance_reads_what_the_work_is_recorded_as(
    tmp_path: Path, work: str, operation: str
) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), WORK[work])
    after = table.branches.publish("exp")
    found = dataset(after).read_transaction(after.version).operation
    assert type(found).__name__ in (operation, "BaseOperation")
    assert next(iter(after.versions())).operation == operation


def test_bytes_of_blobs_come_along(uri: str) -> None:
    """They lie in a directory beside the data file, which has the file's name."""
    pylance: Any = lance

    def blobs(*values: bytes) -> pa.Table:
        schema = pa.schema([("k", pa.int64()), pylance.blob_field("b")])
        return pa.table([range(len(values)), lance.blob_array([*values])], schema=schema)

    lance.write_dataset(
        blobs(b"small"), uri, data_storage_version="2.2", enable_stable_row_ids=True
    )
    lance.dataset(uri).create_branch("exp")
    work: Any = lance.dataset(f"{uri}/tree/exp")
    work.insert(blobs(b"y" * 100_000, b"z" * 5_000_000))
    assert list(Path(uri, "tree/exp/data").glob("*/*.blob"))
    after = lw.open(uri).branches.publish("exp")
    after.branches.delete("exp")
    found = lw.open(uri).take_blobs("b", [0, 1, 2])
    assert [None if each is None else each.read() for each in found] == [
        b"small",
        b"y" * 100_000,
        b"z" * 5_000_000,
    ]
    lance.dataset(uri).validate()


@pytest.mark.parametrize("is_old_location_gone", [True, False])
def test_a_branch_is_published_after_the_table_was_moved(
    tmp_path: Path, is_old_location_gone: bool
) -> None:
    table = fresh(tmp_path)
    table.branches.create("exp").append(rows(100, 105)).delete("k IN (3, 101)")
    there = str(tmp_path / "there.lance")
    shutil.copytree(table.uri, there)
    if is_old_location_gone:
        shutil.rmtree(table.uri)
    moved = lw.open(there)
    lw.open(f"{there}@exp").append(rows(110, 112))
    after = moved.append(rows(200, 201)).branches.publish("exp")
    assert after.base_paths == ()
    check_rows(after)
    assert after.count_rows() == 40 + 5 - 2 + 2 + 1
    after.branches.delete("exp")
    check_life_goes_on(there)


def test_files_in_other_homes_stay_there(tmp_path: Path) -> None:
    """The ids of base paths on the branch and on the target have nothing to do with each other."""
    table = lw.create(
        tmp_path / "t.lance",
        rows(0, 20),
        layout=lw.Layout(max_rows_per_file=10, bases=[lw.BasePath(tmp_path / "cold", name="cold")]),
    )
    branch = table.branches.create("exp").add_base(tmp_path / "colder", name="colder")
    branch = branch.append(rows(100, 105), layout=lw.Layout(into=["cold"]))
    branch.append(rows(110, 115), layout=lw.Layout(into=["colder"])).delete("k = 3")
    before = table.add_base(tmp_path / "elsewhere", name="elsewhere")
    after = before.branches.publish("exp")
    file_roots = {each.id: each.name for each in after.base_paths}
    assert sorted(filter(None, file_roots.values())) == ["cold", "colder", "elsewhere"]
    names = [file_roots.get(each.files[0].base_id or 0) for each in after.fragments]
    assert names == [None, None, "cold", "colder"]
    check_rows(after)
    check_changes(before, after)
    after.branches.delete("exp")
    check_life_goes_on(after.uri)


def manifest(root: str, version: int) -> Path:
    return Path(root, "_versions", f"{(1 << 64) - 1 - version:020d}.manifest")


def test_a_version_of_the_branch_that_is_gone_is_named(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    branch = run(table.branches.create("exp"), [append(100, 101), append(101, 102)])
    manifest(branch.uri, 2).unlink()
    with pytest.raises(lw.NotFoundError, match="version 2 has no transaction"):
        table.branches.publish("exp")
    assert table.latest().version == 1


def test_a_version_of_the_target_that_is_gone_is_named(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), [append(100, 101)])
    run(table, [append(200, 201), append(201, 202)])
    manifest(table.uri, 2).unlink()
    with pytest.raises(lw.IncompatibleConflictError, match="version 2 of the target: its transac"):
        table.branches.publish("exp")
    assert table.latest().version == 3


def test_a_target_whose_fork_is_gone_is_refused(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    run(table.branches.create("exp"), [append(100, 101)])
    table.append(rows(200, 201))
    manifest(table.uri, 1).unlink()
    with pytest.raises(lw.NotFoundError, match="began at version 1 of main, which is gone"):
        table.branches.publish("exp")


def test_after_a_reset_pylance_keeps_the_version_that_the_branch_begins_at(tmp_path: Path) -> None:
    table = fresh(tmp_path)
    table.branches.create("exp").append(rows(100, 105))
    after = table.branches.publish("exp").append(rows(200, 201))
    began = table.branches.reset("exp")
    after = after.append(rows(201, 202)).append(rows(202, 203))
    dataset(table).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert [each["version"] for each in dataset(table).versions()] == [3, after.version]
    assert len(began.scan().to_arrow()) == 46
    lance.dataset(began.uri).validate()


@pytest.mark.parametrize("name", ["main", "", "a..b"])
def test_what_is_no_branch_is_refused_early(tmp_path: Path, name: str) -> None:
    table = fresh(tmp_path)
    for verb in (table.branches.publish, table.branches.reset):
        with pytest.raises(lw.InvalidInputError):
            verb(name)
    with pytest.raises(lw.NotFoundError):
        table.branches.publish("other")


@pytest.mark.parametrize("move", [None, "append", "delete elsewhere"])
@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_indices_are_right_after_pylance_compacted_the_branch(
    tmp_path: Path, kind: str, move: str | None
) -> None:
    table = index("a", kind)(fresh(tmp_path))
    branch = run(table.branches.create("exp"), [append(100, 110), delete("k IN (3, 4, 13, 105)")])
    work: Any = lance.dataset(branch.uri)
    work.optimize.compact_files(target_rows_per_fragment=20)
    before = run(table, MOVES[move] if move else [])
    if move == "delete elsewhere":
        with pytest.raises(lw.ConflictError, match=r"Rewrite \(a compaction\) in version"):
            before.branches.publish("exp")
        return
    after = before.branches.publish("exp")
    check_rows(after)
    check_changes(before, after)
    check_indices(after.uri)
    after.branches.delete("exp")
    check_life_goes_on(after.uri)


def test_a_branch_in_a_bucket_is_published(s3_root: str, s3_options: dict[str, str]) -> None:
    uri = f"{s3_root}/t.lance"
    table = lw.create(
        uri,
        rows(0, 20),
        layout=lw.Layout(max_rows_per_file=10),
        access=lw.Access(storage_options=s3_options),
    )
    branch = table.branches.create("exp").append(rows(100, 105)).delete("k IN (3, 101)")
    before = table.append(rows(200, 203))
    after = before.branches.publish("exp")
    assert counts_of(after, lw.Published).adopted_files == 2
    check_changes(before, after)
    with pytest.raises(lw.IncompatibleConflictError, match="it was published"):
        branch.append(rows(0, 1))
    assert after.branches.reset("exp").count_rows() == 26
    after.branches.delete("exp")
    found = judged(uri, storage_options=s3_options)
    assert sorted(found.to_table()["k"].to_pylist()) == sorted(
        {*range(20), *range(100, 105), *range(200, 203)} - {3, 101}
    )
