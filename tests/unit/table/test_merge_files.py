"""What a merge by rows writes: files come by reference, and only rows that were put together are
written; whose row ids they have; pylance is the judge."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.counted import counts_of

import lancewood as lw
from lancewood.engine.location import deletion_key
from lancewood.engine.write import claims
from lancewood.jobs.merge import merge_branch as unite
from lancewood.model.lines import line_of, space_of

pytestmark = pytest.mark.usefixtures("pages_decoded_here")

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
KEYED = pa.schema([pa.field("id", pa.int64(), nullable=False, metadata=KEY), ("a", pa.int64())])
BLOB = pa.field("image", pa.large_binary(), metadata={b"lance-encoding:blob": b"true"})


def rows(*ids: int, a: int = 0) -> pa.Table:
    return pa.table({"id": ids, "a": [a] * len(ids)})


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t.lance")


@pytest.fixture
def table(uri: str) -> lw.Table:
    return lw.create(uri, rows(*range(12)), layout=lw.Layout(max_rows_per_file=4))


def judged(table: lw.Table) -> list[dict[str, Any]]:
    """The rows as pylance has them, once it found nothing wrong."""
    name = table._snapshot.manifest.branch
    main = str(table.uri).partition("/tree/")[0]
    found = (
        lance.dataset(main) if name is None else lance.dataset(main).checkout_version((name, None))
    )
    found.validate()
    assert table.verify(deep=True).ok
    return sorted(found.to_table().to_pylist(), key=lambda each: each["id"])


def counted(table: lw.Table) -> lw.Merged:
    return counts_of(table, lw.Merged)


def data_files(uri: str) -> set[str]:
    return {each.name for each in Path(uri).rglob("*.lance") if each.parent.name == "data"}


def test_rows_that_one_side_changed_come_with_the_files_they_are_in(table: lw.Table) -> None:
    trial = table.branches.create("trial").append(rows(20, 21)).update({"a": "5"}, "id IN (1, 6)")
    table = table.delete("id = 3").append(rows(30))
    before = data_files(table.uri)
    merged = table.branches.merge("trial")
    assert data_files(table.uri) == before, "no row was written"
    assert counted(merged) == lw.Merged(
        "trial", trial.version, ("main:1",), inserted=2, updated=2, deleted=0, adopted_files=2
    )
    expected = {**{each: 0 for each in range(12) if each != 3}, 20: 0, 21: 0, 30: 0, 1: 5, 6: 5}
    assert {each["id"]: each["a"] for each in judged(merged)} == expected


def test_a_plan_that_another_writer_overtook_leaves_no_deletion_files(
    table: lw.Table, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = table.branches.create("trial").append(rows(*range(20, 24)))
    trial.update({"a": "5"}, "id IN (1, 6)").delete("id IN (9, 21)")
    commit: Any = vars(unite)["commit"]

    def beside(*args: Any) -> Any:
        monkeypatch.setattr(unite, "commit", commit)
        table.append(rows(30))
        return commit(*args)

    monkeypatch.setattr(unite, "commit", beside)
    table.branches.merge("trial")
    table = lw.open(uri)
    named = {
        deletion_key(fragment.id, fragment.deletion_file)
        for version in range(1, table.version + 1)
        for fragment in lw.open(uri, version=version)._snapshot.manifest.fragments
        if fragment.deletion_file is not None
    }
    assert {f"_deletions/{each.name}" for each in Path(uri, "_deletions").iterdir()} == named
    assert len(judged(table)) == 15


def test_only_rows_that_both_changed_are_written(table: lw.Table) -> None:
    table = lw.create(
        f"{table.uri}-2", pa.table({"id": [*range(50)], "a": [0] * 50, "b": [0] * 50})
    )
    table.branches.create("trial").update({"a": "1"}, "id < 10")
    merged = table.update({"b": "2"}, "id >= 8 AND id < 20").branches.merge("trial")
    assert (counted(merged).written_rows, counted(merged).joined) == (2, 2)
    assert [each["id"] for each in judged(merged) if each["a"] and each["b"]] == [8, 9]


def test_columns_that_both_added_come_as_the_files_they_are_in(table: lw.Table) -> None:
    trial = table.branches.create("trial").add_columns({"b": "id * 2"})
    table = table.add_columns({"c": "id * 3"}).delete("id = 5")
    before = data_files(table.uri)
    merged = table.branches.merge("trial")
    assert data_files(table.uri) == before
    assert counted(merged).written_rows == 0
    found = judged(merged)
    assert found == [
        {"id": each, "a": 0, "c": each * 3, "b": each * 2} for each in range(12) if each != 5
    ]
    back = merged.branches.merge("main", into="trial")
    assert [{**each, "c": each["id"] * 3} for each in found] == judged(back)
    assert counted(trial.branches.merge("main", into="trial")).is_new is False


def test_different_columns_that_both_wrote_anew_go_together(uri: str) -> None:
    first = pa.table({"id": [*range(9)], "a": [0] * 9, "b": [0] * 9})
    table = lw.create(uri, first, layout=lw.Layout(max_rows_per_file=3))
    table.branches.create("trial").update({"a": "id + 1"}, rewrite="columns")
    table = table.update({"b": "id + 2"}, rewrite="columns").delete("id = 4")
    merged = table.branches.merge("trial", resolve=lw.Resolve(deletes="win"))
    told = counted(merged)
    assert (told.updated, told.rewritten, told.written_rows) == (0, 8, 0)
    assert judged(merged) == [
        {"id": each, "a": each + 1, "b": each + 2} for each in range(9) if each != 4
    ]
    changed = merged.changes(table.version).updated.to_arrow()
    assert sorted(changed["id"].to_pylist()) == [0, 1, 2, 3, 5, 6, 7, 8]


def test_a_new_column_changes_no_row(table: lw.Table) -> None:
    table.branches.create("trial").add_columns({"b": "id"})
    table = table.update({"a": "1"}, "id = 2")
    merged = table.branches.merge("trial")
    assert (counted(merged).updated, counted(merged).written_rows) == (1, 1)
    assert [each["b"] for each in judged(merged)] == [*range(12)]


def test_blobs_of_both_sides_are_put_together(uri: str) -> None:
    schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), BLOB])

    def images(ids: list[int], texts: list[bytes | None]) -> pa.Table:
        return pa.table({"id": ids, "a": [0] * len(ids), "image": texts}, schema=schema)

    table = lw.create(
        uri, images([1, 2, 3], [b"one", b"two", None]), layout=lw.Layout(file_version="2.1")
    )
    trial = table.branches.create("trial")
    trial = trial.merge(images([1, 3], [b"ONE", b"THREE"]), on="id")
    table = table.update({"a": "7"}, "id IN (1, 3)")
    merged = table.branches.merge("trial")
    assert counted(merged).written_rows == 2
    assert blobs(merged) == {1: b"ONE", 2: b"two", 3: b"THREE"}
    ours = merged.merge(images([2], [b"ours"]), on="id")
    trial.merge(images([2], [b"theirs"]), on="id")
    with pytest.raises(lw.MergeConflictError) as refused:
        ours.branches.merge("trial")
    assert refused.value.facts["columns"] == {"image": 1}
    assert blobs(ours.branches.merge("trial", resolve={"image": "theirs"}))[2] == b"theirs"


def blobs(table: lw.Table) -> dict[int, bytes | None]:
    found = lance.dataset(table.uri)
    at = [*range(found.count_rows())]
    ids = found.take(at, columns=["id"])["id"].to_pylist()
    read = found.take_blobs("image", indices=at)
    return {number: each.readall() for number, each in zip(ids, read, strict=True)}


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_key_that_one_side_changed_to_one_that_the_other_inserted_is_a_conflict(
    uri: str, is_ours: bool
) -> None:
    table = lw.create(uri, rows(*range(5)).cast(KEYED))
    trial = table.branches.create("trial")
    changed, other = (table, trial) if is_ours else (trial, table)
    changed.update({"id": "50"}, "id = 1")
    other.append(rows(50).cast(KEYED))
    with pytest.raises(lw.MergeConflictError, match=r"the same primary key \(id = 50\)") as refused:
        table.latest().branches.merge("trial")
    assert refused.value.facts["kinds"] == {"key": 1}


def test_one_key_that_both_gave_one_row_is_none(uri: str) -> None:
    table = lw.create(uri, rows(*range(5)).cast(KEYED))
    table.branches.create("trial").update({"id": "50"}, "id = 1")
    merged = table.update({"id": "50"}, "id = 1").branches.merge("trial")
    assert [each["id"] for each in judged(merged)] == [0, 2, 3, 4, 50]


def test_a_branch_of_pylance_without_rows_of_its_own_is_merged_and_gets_ids(
    table: lw.Table,
) -> None:
    lance.dataset(table.uri).create_branch("theirs", None)
    theirs = lw.open(table.uri, branch="theirs").update({"a": "5"}, "id = 1").delete("id = 2")
    merged = table.append(rows(50)).branches.merge("theirs")
    assert [each["id"] for each in judged(merged) if each["a"]] == [1]
    back = merged.branches.merge("main", into="theirs")
    assert line_of(back._snapshot.manifest).uuid
    back = back.append(rows(60))
    assert space_of(back._snapshot.manifest.next_row_id) > 0
    again = back.branches.merge("theirs", into="main")
    assert [each["id"] for each in judged(again)][-2:] == [50, 60]
    assert theirs.latest().version == back.version


def test_a_branch_of_pylance_with_rows_of_its_own_is_refused_with_the_way_out(
    table: lw.Table,
) -> None:
    lance.dataset(table.uri).create_branch("theirs", None)
    lw.open(table.uri, branch="theirs").append(rows(60))
    with pytest.raises(lw.UnsupportedError, match="publish it, then reset it"):
        table.branches.merge("theirs")
    published = table.branches.publish("theirs")
    reset = published.branches.reset("theirs").append(rows(61))
    assert counted(reset.branches.merge("theirs", into="main")).inserted == 1


def test_two_copies_that_chose_the_same_row_ids_are_noticed_and_never_mixed(
    table: lw.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Same:
        def randrange(self, _: int) -> int:
            return 7

    monkeypatch.setattr(claims, "_RANDOM", Same())
    copy = tmp_path / "copy.lance"
    shutil.copytree(table.uri, copy)
    table.branches.create("one").append(rows(100))
    lw.open(copy).branches.create("two").append(rows(200))
    monkeypatch.undo()
    bring(copy, Path(table.uri), "two")
    merged = table.branches.merge("one")
    for into in ("main", "one"):
        with pytest.raises(lw.IncompatibleConflictError, match="copies of the table"):
            merged.branches.merge("two", into=into)
    published = merged.branches.publish("two")
    assert [each["id"] for each in judged(published)][-2:] == [100, 200]


def bring(source: Path, target: Path, branch: str) -> None:
    """A branch of a copy comes into the table that it is a copy of, as a pull would bring it."""
    shutil.copytree(source / "tree" / branch, target / "tree" / branch)
    record = Path("_refs", "branches", f"{branch}.json")
    shutil.copy(source / record, target / record)
    for file in (source / "data").iterdir():
        if not (target / "data" / file.name).exists():
            shutil.copy(file, target / "data" / file.name)


def test_a_merge_says_which_indices_do_not_cover_what_came(table: lw.Table) -> None:
    table = table.indices.create("id", "BTREE").indices.create("a", "BTREE")
    branch = table.branches.create("exp").append(rows(20))
    branch.indices.extend("id_idx")
    table.append(rows(30))
    merged = table.branches.merge("exp")
    assert counted(merged).uncovered_indices == ("a_idx", "id_idx")
    assert counted(merged).left_out_indices == ("id_idx",)
    found = {each.name: each.rows_uncovered for each in merged.indices.list()}
    assert found == {"id_idx": 2, "a_idx": 2}
    judged(merged)
    extended = merged.indices.extend()
    assert {each.rows_uncovered for each in extended.indices.list()} == {0}
    assert lance.dataset(str(table.uri)).count_rows(filter="id in (20, 30)") == 2


def test_a_merge_of_one_column_uncovers_the_index_on_it_alone(table: lw.Table) -> None:
    table = table.indices.create("id", "BTREE").indices.create("a", "BTREE")
    branch = table.branches.create("exp")
    branch.update({"a": "5"}, rewrite="columns")
    merged = table.branches.merge("exp")
    assert (counted(merged).uncovered_indices, counted(merged).left_out_indices) == (("a_idx",), ())
    assert {each["a"] for each in judged(merged)} == {5}


WIDE = 3_072


@pytest.fixture
def narrowly_changed(uri: str) -> tuple[lw.Table, Path]:
    """A table where main and ``exp`` each wrote the column ``label`` of one fragment anew, in which
    they changed rows of their own; and the data file with the wide column beside it."""
    data = pa.table({"id": range(60), "label": ["-"] * 60})
    table = lw.create(uri, data)
    before = data_files(uri)
    vectors = pa.array([[float(at)] * WIDE for at in range(60)], pa.list_(pa.float32(), WIDE))
    table = table.add_columns(pa.table({"v": vectors}))
    (wide,) = data_files(uri) - before
    exp = table.branches.create("exp").update(
        {"label": "'theirs'"}, "id % 20 = 7", rewrite="columns"
    )
    table = table.update({"label": "'ours'"}, "id % 20 = 11", rewrite="columns")
    assert all(len(each._snapshot.manifest.fragments) == 1 for each in (exp, table))
    return table, Path(uri) / "data" / wide


def test_columns_that_neither_side_changed_are_not_read_to_tell_conflicts_or_to_merge(
    narrowly_changed: tuple[lw.Table, Path],
) -> None:
    table, wide = narrowly_changed
    data = wide.read_bytes()
    wide.write_bytes(bytes(len(data)))
    assert table.branches.conflicts("exp").count() == 0
    merged = table.branches.merge("exp")
    wide.write_bytes(data)
    assert counted(merged).updated == 3
    labels = {7: "theirs", 11: "ours"}
    for each in judged(merged):
        assert (each["label"], each["v"][0]) == (labels.get(each["id"] % 20, "-"), each["id"])


def test_rows_in_conflict_and_rows_that_are_put_together_have_all_of_their_columns(
    narrowly_changed: tuple[lw.Table, Path],
) -> None:
    table, _ = narrowly_changed
    lw.open(table.uri, branch="exp").update({"label": "'other'"}, "id = 11", rewrite="columns")
    (conflict,) = table.branches.conflicts("exp").to_arrow().to_pylist()
    assert (conflict["_columns"], conflict["ours"]["v"][0]) == (["label"], 11.0)
    merged = table.branches.merge("exp", resolve={"label": "ours.label || theirs.label"})
    assert (counted(merged).updated, counted(merged).resolved) == (4, 1)
    labels = {7: "theirs", 27: "theirs", 47: "theirs", 31: "ours", 51: "ours", 11: "oursother"}
    for each in judged(merged):
        assert (each["label"], each["v"][0]) == (labels.get(each["id"], "-"), each["id"])


def test_rows_with_columns_written_in_place_are_counted_apart_from_updated_ones(
    table: lw.Table,
) -> None:
    trial = table.branches.create("trial").update({"a": "7"}, "id < 4", rewrite="columns")
    trial.update({"a": "5"}, "id IN (6, 9)", rewrite="rows").append(rows(20))
    table = table.append(rows(30))
    merged = table.branches.merge("trial")
    told = counted(merged)
    assert (told.inserted, told.updated, told.rewritten, told.written_rows) == (1, 2, 4, 0)
    assert [each["id"] for each in judged(merged) if each["a"]] == [0, 1, 2, 3, 6, 9]
