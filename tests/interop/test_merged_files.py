"""Data files that two fragments name, and that two branches do, after merges by rows: they survive
whatever both implementations do to the table, and pylance reads every row.

Indices of ours answer as a scan does.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.interop import test_indices as indexed
from tests.pylance import judged, lance

import lancewood as lw

pytestmark = [pytest.mark.sliced(6), pytest.mark.usefixtures("no_commit_under_way")]

NOW = timedelta(0)
Rows: TypeAlias = list[dict[str, Any]]


def rows(first: int, stop: int) -> pa.Table:
    numbers = pa.array(range(first, stop), pa.int64())
    return pa.table({"k": numbers, "a": numbers, "b": numbers})


def read(uri: str) -> Rows:
    """Rows with their ids, as both implementations find them."""
    names = ["k", "a", "b", "_rowid"]
    found: Rows = judged(uri).to_table(columns=names).to_pylist()
    ours = lw.open(uri).scan(names).to_arrow().to_pylist()
    assert sorted(ours, key=repr) == sorted(found, key=repr)
    assert len({row["_rowid"] for row in found}) == len(found)
    return sorted(found, key=lambda row: row["k"])


def values(found: Rows) -> Rows:
    return [{name: row[name] for name in ("k", "a", "b")} for row in found]


def root(uri: str, branch: str) -> str:
    return uri if branch == "main" else f"{uri}/tree/{branch}"


def by_us(uri: str) -> None:
    lw.open(uri).cleanup(older_than=NOW, in_flight=NOW)


def by_pylance(uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(
        NOW, delete_unverified=True, error_if_tagged_old_versions=False
    )


def diverged(uri: str) -> lw.Table:
    """Both sides change a column of other rows of one fragment in place, delete and append; and
    pylance appends to the branch, in its own root."""
    table = lw.create(uri, rows(0, 40), layout=lw.Layout(max_rows_per_file=10))
    exp = table.branches.create("exp").update({"a": 77}, "k IN (2, 3)", rewrite="columns")
    exp = exp.delete("k = 14").append(rows(100, 106)).update({"a": 78}, "k IN (20, 103)")
    lance.dataset(exp.uri).insert(rows(110, 113))
    table = table.update({"a": 55}, "k IN (5, 6)", rewrite="columns").delete("k = 35")
    return table.append(rows(200, 203))


def expected() -> Rows:
    found = {row["k"]: row for row in rows(0, 40).to_pylist() if row["k"] not in (14, 35)}
    for first, stop in ((100, 106), (110, 113), (200, 203)):
        found |= {row["k"]: row for row in rows(first, stop).to_pylist()}
    for column, value, keys in (("a", 77, (2, 3)), ("a", 78, (20, 103)), ("a", 55, (5, 6))):
        for key in keys:
            found[key][column] = value
    return [found[key] for key in sorted(found)]


WAYS = [("exp", "main"), ("main", "exp"), ("exp", "other")]


@pytest.fixture(params=WAYS, ids=lambda way: " into ".join(way))
def merged(request: pytest.FixtureRequest, uri: str) -> tuple[lw.Table, str]:
    """A table after a merge, and the name of what was merged."""
    source, target = request.param
    table = diverged(uri)
    if target == "other":
        table.branches.create("other")
    found = table.branches.merge(source, target)
    assert values(read(root(uri, target))) == expected()
    named = Counter((f.path, f.base_id) for each in found.fragments for f in each.files)
    assert max(named.values()) == 2, "no file is named by two fragments"
    return found, source


def clean(uri: str, cleaners: Sequence[Callable[[str], None]] = (by_us, by_pylance)) -> None:
    """Clean up main and all branches, by both."""
    for each in ("main", *lw.open(uri).branches):
        for cleaner in cleaners:
            cleaner(root(uri, each))


def main_of(table: lw.Table) -> str:
    return table.uri.partition("/tree/")[0]


@pytest.mark.parametrize("cleaner", [by_us, by_pylance])
def test_they_survive_cleanups_when_the_other_side_goes_on(
    merged: tuple[lw.Table, str], cleaner: Callable[[str], None]
) -> None:
    """Theirs compacts, so that it does not name the files any more."""
    table, source = merged
    uri = main_of(table)
    before = read(table.uri)
    theirs = lw.open(root(uri, source)).compact(target_rows=1000)
    there = read(theirs.uri)
    clean(uri, [cleaner])
    assert read(table.uri) == before
    assert read(theirs.uri) == there


def compact_by_us(uri: str) -> None:
    lw.open(uri).compact(target_rows=1000)


def compact_by_pylance(uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)


@pytest.mark.parametrize("cleaner", [by_us, by_pylance])
@pytest.mark.parametrize("compact", [compact_by_us, compact_by_pylance])
def test_compaction_keeps_every_row_and_what_others_need(
    merged: tuple[lw.Table, str], compact: Callable[[str], None], cleaner: Callable[[str], None]
) -> None:
    table, source = merged
    uri = main_of(table)
    before, there = read(table.uri), read(root(uri, source))
    compact(table.uri)
    assert len(lw.open(table.uri).fragments) == 1
    clean(uri, [cleaner])
    assert read(table.uri) == before
    assert read(root(uri, source)) == there


def test_a_change_of_one_fragment_leaves_the_other(merged: tuple[lw.Table, str]) -> None:
    table, _ = merged
    lance.dataset(table.uri).delete("k = 2")
    lance.dataset(table.uri).update({"b": "9"}, where="k = 4")
    clean(main_of(table))
    found = values(read(table.uri))
    wanted = [row | ({"b": 9} if row["k"] == 4 else {}) for row in expected() if row["k"] != 2]
    assert found == wanted


@pytest.mark.parametrize("which", ["one", "all"])
def test_fragments_can_be_moved_and_brought_back(
    merged: tuple[lw.Table, str], which: str, tmp_path: Path
) -> None:
    table, _ = merged
    before = read(table.uri)
    cold = tmp_path / "cold"
    cold.mkdir()
    table = table.add_base(str(cold), name="cold")
    last = max(each.id for each in table.fragments if len(each.files) > 1)
    table = table.move_fragments([last] if which == "one" else None, base="cold")
    clean(main_of(table))
    assert read(table.uri) == before
    table.move_fragments(base=None)
    clean(main_of(table))
    assert read(table.uri) == before


def clone_deep(table: lw.Table, target: str) -> None:
    table.clone(target, deep=True)


def clone_and_detach(table: lw.Table, target: str) -> None:
    table.clone(target).detach()


def clone_by_pylance(table: lw.Table, target: str) -> None:
    lance.dataset(table.uri).deep_clone(target, table.version)


@pytest.mark.parametrize("clone", [clone_deep, clone_and_detach, clone_by_pylance])
def test_clones_have_all_files(
    merged: tuple[lw.Table, str], clone: Callable[[lw.Table, str], None], tmp_path: Path
) -> None:
    table, _ = merged
    before, target = read(table.uri), str(tmp_path / "clone.lance")
    clone(table, target)
    shutil.rmtree(main_of(table))
    assert read(target) == before
    by_us(target)
    by_pylance(target)
    assert read(target) == before


def test_a_shallow_clone_keeps_them(merged: tuple[lw.Table, str], tmp_path: Path) -> None:
    table, _ = merged
    before, target = read(table.uri), str(tmp_path / "clone.lance")
    table.clone(target)
    lw.open(table.uri).compact(target_rows=1000)
    clean(main_of(table), [by_us])
    assert read(target) == before


def test_a_branch_that_was_merged_can_go(merged: tuple[lw.Table, str]) -> None:
    table, source = merged
    if source == "main":
        table = table.detach()
    else:
        lw.open(main_of(table)).branches.delete(source)
        clean(main_of(table))
    assert values(read(table.uri)) == expected()


def test_a_branch_that_was_renamed_is_merged_again(merged: tuple[lw.Table, str]) -> None:
    table, source = merged
    uri = main_of(table)
    target = table.branch or "main"
    if "exp" in (source, target):
        renamed = lw.open(uri).branches.rename("exp", "trial")
        source, target = ("trial" if each == "exp" else each for each in (source, target))
        assert read(renamed.uri)
    lw.open(root(uri, source)).append(rows(300, 301))
    again = lw.open(uri).branches.merge(source, target)
    clean(uri)
    assert values(read(again.uri)) == [*expected(), {"k": 300, "a": 300, "b": 300}]


# Indices


def with_indices(uri: str) -> lw.Table:
    dataset: Any = lance.write_dataset(
        indexed.rows(0, indexed.ROWS),
        uri,
        enable_stable_row_ids=True,
        max_rows_per_file=indexed.PER_FILE,
    )
    for column, kind in indexed.SCALAR.items():
        dataset.create_scalar_index(column, kind, name=column)
    dataset.create_index("near", "IVF_FLAT", num_partitions=1, name="near")
    dataset.create_index("coded", "IVF_PQ", num_partitions=1, num_sub_vectors=2, name="coded")
    return lw.open(uri)


CHANGES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "rows": lambda t: t.update(indexed.NEW_VALUES, indexed.SOME, rewrite="rows"),
    "another column": lambda t: t.update({"other": 5}, indexed.SOME, rewrite="rows"),
    "columns in place": lambda t: t.update(indexed.NEW_VALUES, "k IN (3, 150)", rewrite="columns"),
    "a whole fragment in place": lambda t: t.update(
        indexed.NEW_VALUES, "k < 100", rewrite="columns"
    ),
    "deleted and inserted": lambda t: t.delete(indexed.SOME).append(indexed.rows(400, 450)),
    "compacted": lambda t: t.delete("k < 200 AND k % 2 = 0").compact(target_rows=100),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("moved", [False, True])
def test_indices_answer_as_a_scan_does_after_a_merge(uri: str, name: str, moved: bool) -> None:
    """Where ours moved as well, it changed other cells of some of the same rows."""
    table = with_indices(uri)
    CHANGES[name](table.branches.create("exp"))
    if moved:
        table = table.update({"other": 9}, "k IN (3, 4, 150, 151)").append(indexed.rows(500, 510))
    if name == "another column" and moved:
        table = table.update({"other": 0}, "k IN (3, 150)")
    table.branches.merge("exp", resolve="ours")
    indexed.check(uri)
    lance.dataset(uri).optimize.optimize_indices()
    indexed.check(uri)
    lance.dataset(uri).delete("k % 50 = 7")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)
    indexed.check(uri)


def test_an_upsert_of_pylance_that_began_before_a_merge_is_tried_again(uri: str) -> None:
    table = diverged(uri)
    early: Any = lance.dataset(uri)
    table.branches.merge("exp")
    source = pa.table({name: pa.array([2, 400], pa.int64()) for name in ("k", "a", "b")})
    upsert = early.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(source)
    kept = [row for row in expected() if row["k"] != 2]
    wanted = [*kept, *(dict.fromkeys(("k", "a", "b"), k) for k in (2, 400))]
    assert values(read(uri)) == sorted(wanted, key=lambda row: row["k"])
