"""Tables about a table: their rows, made from slices as tasks make them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.manifests import decode_fragments, edit_manifest, put_fragments

import lancewood as lw
from lancewood.errors import FormatError, InvalidInputError
from lancewood.proto import table_pb2
from lancewood.spark.source import metadata
from lancewood.spark.source.metadata import METADATA_SCHEMAS

pytest.importorskip("pyspark", reason="pyspark is not installed")


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    rows = pa.table({"i": pa.array(range(10), pa.int64()), "s": ["x"] * 10})
    made = lw.create(
        tmp_path / "t.lance", rows, layout=lw.Layout(max_rows_per_file=4), message="made"
    )
    return made.delete("i = 5", commit=lw.CommitOptions(properties={"who": "me"}))


def rows_of(table: lw.Table, kind: str) -> list[dict[str, Any]]:
    plan = pickle.loads(pickle.dumps(metadata.plan_metadata(table._snapshot, kind)))
    batches = [batch for each in plan.messages for batch in plan.work(each)]
    assert all(each.schema.equals(plan.work.reading.schema) for each in batches)
    return [row for each in batches for row in each.to_pylist()]


def test_versions_are_told_newest_first_up_to_the_one_that_is_read(table: lw.Table) -> None:
    table.append(pa.table({"i": [11], "s": ["y"]}))
    found = rows_of(table, "versions")
    assert [each["version"] for each in found] == [2, 1]
    newest = found[0]
    assert newest["operation"] == "Delete"
    assert newest["rows"] == 9
    assert newest["properties"] == [("who", "me")]
    assert newest["timestamp"] == table.timestamp
    assert found[1]["message"] == "made"


def test_a_damaged_version_says_so(table: lw.Table) -> None:
    oldest = max(Path(table.uri, "_versions").glob("*.manifest"))
    oldest.write_bytes(b"not a manifest")
    found = rows_of(table, "versions")
    assert [each["damage"] is None for each in found] == [True, False]
    assert [each["missing"] is None for each in rows_of(table, "transactions")] == [True, False]


def test_transactions_have_their_identity_and_what_they_were_built_on(table: lw.Table) -> None:
    import lance

    found = rows_of(table, "transactions")
    expected: Any = lance.dataset(table.uri).read_transaction(2)
    assert found[0]["uuid"] == expected.uuid
    assert (found[0]["read_version"], found[0]["operation"]) == (1, "Delete")
    assert [each["version"] for each in found] == [2, 1]


def test_fragments_and_files_are_those_of_the_version(table: lw.Table) -> None:
    import lance

    fragments = rows_of(table, "fragments")
    known: Any = lance.dataset(table.uri).get_fragments()
    assert [each["fragment"] for each in fragments] == [each.fragment_id for each in known]
    assert [each["rows"] for each in fragments] == [each.count_rows() for each in known]
    assert [each["deleted_rows"] for each in fragments] == [0, 1, 0]
    assert [each["deletion_file"] is None for each in fragments] == [True, False, True]
    files = rows_of(table, "files")
    assert [each["kind"] for each in files] == ["data", "data", "deletion", "data"]
    assert all(Path(each["uri"]).is_file() for each in files)
    data = [each for each in files if each["kind"] == "data"]
    assert [each["bytes"] for each in data] == [Path(each["uri"]).stat().st_size for each in data]
    assert [each["fields"] for each in data] == [[0, 1]] * 3
    assert sum(each["bytes"] for each in fragments) == sum(each["bytes"] for each in data)


def test_files_of_a_branch_are_named_where_they_are(table: lw.Table) -> None:
    branch = table.branches.create("exp").append(pa.table({"i": [11], "s": ["y"]}))
    found = rows_of(branch, "files")
    assert all(Path(each["uri"]).is_file() for each in found)
    assert {each["base"] is None for each in found} == {False}


def test_refs_are_branches_and_tags_and_damaged_ones_say_so(table: lw.Table) -> None:
    table.tags.create("v1", at=1, metadata={"by": "me"})
    table.branches.create("exp/a")
    Path(table.uri, "_refs", "tags", "odd.json").write_text("{")
    found = {(each["kind"], each["name"]): each for each in rows_of(table, "refs")}
    assert set(found) == {("tag", "v1"), ("tag", "odd"), ("branch", "exp/a")}
    tag = found["tag", "v1"]
    assert (tag["branch"], tag["version"], tag["metadata"]) == ("main", 1, [("by", "me")])
    assert tag["created_at"] is not None
    assert found["branch", "exp/a"]["version"] == 2
    assert found["tag", "odd"]["damage"]
    assert found["tag", "odd"]["version"] is None


def test_indices_have_the_names_of_their_columns(table: lw.Table) -> None:
    import lance

    dataset: Any = lance.dataset(table.uri)
    dataset.create_scalar_index("i", "BTREE")
    found = rows_of(table.latest(), "indices")
    assert len(found) == 1
    assert found[0]["columns"] == ["i"]
    assert found[0]["kind"] == "BTREE"
    assert found[0]["fragments"] == 3
    assert found[0]["uuid"] in {each.name for each in Path(table.uri, "_indices").iterdir()}
    assert rows_of(table, "indices") == []


def test_slices_together_are_the_whole(table: lw.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {each: rows_of(table, each) for each in METADATA_SCHEMAS}
    monkeypatch.setattr(metadata, "FRAGMENTS_PER_TASK", 2)
    monkeypatch.setattr(metadata, "VERSIONS_PER_TASK", 1)
    assert len(metadata.plan_metadata(table._snapshot, "files").messages) == 2
    assert len(metadata.plan_metadata(table._snapshot, "versions").messages) == 2
    assert {each: rows_of(table, each) for each in METADATA_SCHEMAS} == whole


def test_planning_decodes_no_fragment(table: lw.Table) -> None:
    snapshot = table._snapshot
    metadata.plan_metadata(snapshot, "files")
    assert "fragments" not in snapshot.manifest.__dict__


def test_an_empty_table_has_no_fragments_but_a_version(tmp_path: Path) -> None:
    empty = lw.create(tmp_path / "e.lance", pa.schema([pa.field("i", pa.int64())]))
    assert [len(rows_of(empty, each)) for each in ("fragments", "files", "indices", "refs")] == (
        [0, 0, 0, 0]
    )
    assert len(rows_of(empty, "versions")) == 1


def test_a_number_beyond_64_bits_is_damage_not_a_crash(table: lw.Table) -> None:
    Path(table.uri, "_refs", "tags").mkdir(parents=True, exist_ok=True)
    Path(table.uri, "_refs", "tags", "far.json").write_text(
        '{"branch": null, "version": 18446744073709551615, "manifestSize": 1}'
    )
    (row,) = (each for each in rows_of(table, "refs") if each["name"] == "far")
    assert (row["version"], row["branch"]) == (None, "main")
    assert row["damage"] == "version 18446744073709551615 is beyond a bigint"

    def exaggerate(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        fragments[0].files[0].file_size_bytes = (1 << 64) - 1
        put_fragments(message, fragments)

    edit_manifest(table.uri, exaggerate)
    with pytest.raises(FormatError, match="'files' would hold a number"):
        rows_of(lw.open(table.uri), "files")


def test_there_are_six_tables_and_no_other(table: lw.Table) -> None:
    assert sorted(METADATA_SCHEMAS) == [
        *("files", "fragments", "indices", "refs", "transactions", "versions"),
    ]
    with pytest.raises(InvalidInputError, match=r"metadata is one of 'versions', .*got 'history'"):
        metadata.plan_metadata(table._snapshot, "history")
