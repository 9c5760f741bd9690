"""Clones, shallow and deep, and how they become independent: made by one, used by the other.

Numbers in the names are lines of the conformance checklist.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.manifests import (
    decode_fragments,
    edit_manifest,
    newest_manifest,
    put_fragments,
)
from tests.pylance import LINEAGE, judged, lance

import lancewood as lw
from lancewood.engine.upkeep.pins import PINS_CONFIG
from lancewood.proto import table_pb2

BY = ["us", "pylance"]


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(start, stop), pa.int64()),
            "s": pa.array([str(each) for each in range(start, stop)], pa.string()),
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Two fragments with deleted rows, a column in a file of its own, an index, settings."""
    uri = str(tmp_path / "source")
    table = lw.create(uri, rows(0, 100), layout=lw.Layout(max_rows_per_file=50))
    table.delete("k IN (3, 70)").add_columns({"d": "k * 2"})
    lance.dataset(uri).create_scalar_index("k", "BTREE")
    lw.open(uri).set_config({"colour": "green"})
    return uri


def seen(uri: str | Path) -> list[dict[str, Any]]:
    """The rows with their ids and versions, as both implementations find them."""
    table, dataset = lw.open(uri), judged(str(uri))
    assert table.version == dataset.version
    names = [*table.schema.names, *LINEAGE]
    ours: list[dict[str, Any]] = table.scan(names).to_arrow().to_pylist()
    assert ours == dataset.to_table(columns=names).to_pylist()
    for value in (0, 3, 60):
        scanned = [each for each in ours if each["k"] == value]
        assert dataset.to_table(columns=names, filter=f"k = {value}").to_pylist() == scanned
    return ours


def uses_index(uri: str | Path) -> bool:
    return "ScalarIndexQuery" in lance.dataset(str(uri)).scanner(filter="k = 60").explain_plan()


def shallow(by: str, uri: str, target: str) -> None:
    if by == "us":
        lw.open(uri).clone(target)
    else:
        dataset = lance.dataset(uri)
        dataset.shallow_clone(target, dataset.version)


def deep(by: str, uri: str, target: str) -> None:
    if by == "us":
        lw.open(uri).clone(target, deep=True)
    else:
        dataset = lance.dataset(uri)
        dataset.deep_clone(target, dataset.version)


def files(root: Path) -> set[str]:
    return {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}


@pytest.mark.parametrize("by", BY)
def test_line_56_a_shallow_clone_is_read_and_written_by_both(
    tmp_path: Path, source: str, by: str
) -> None:
    before, clone = seen(source), str(tmp_path / "clone")
    shallow(by, source, clone)
    assert seen(clone) == before
    assert uses_index(clone)
    assert not [each for each in files(tmp_path / "clone") if each.startswith("data")]
    lw.open(clone).append(rows(200, 210).append_column("d", pa.array(range(10), pa.int64())))
    lance.dataset(clone).delete("k = 5")
    lw.open(clone).delete("k = 60")
    lance.dataset(clone).update({"s": "'x'"}, where="k = 61")
    lw.open(clone).update({"s": "'y'"}, "k = 62")
    lw.open(clone).compact()
    assert len(seen(clone)) == 98 + 10 - 2
    assert seen(source) == before


@pytest.mark.parametrize("by", BY)
def test_line_56_the_own_root_may_be_base_0(tmp_path: Path, source: str, by: str) -> None:
    clone = str(tmp_path / "clone")
    shallow(by, source, clone)
    lw.open(clone).append(rows(200, 203))

    def renumber(message: table_pb2.Manifest) -> None:
        fragments = decode_fragments(message)
        for each in fragments:
            for file in each.files:
                file.base_id = 1 if file.HasField("base_id") else 0
            if each.HasField("deletion_file"):
                each.deletion_file.base_id = 1
        put_fragments(message, fragments)
        message.base_paths[0].id = 1
        message.base_paths.add(id=0, path=clone, is_dataset_root=True)

    lance.dataset(clone).drop_index("k_idx")
    expected = seen(clone)
    edit_manifest(clone, renumber)
    assert seen(clone) == expected
    lw.open(clone).append(rows(300, 302))
    lance.dataset(clone).delete("k = 300")
    assert len(seen(clone)) == len(expected) + 1
    lw.open(clone).detach()
    shutil.rmtree(source)
    assert len(seen(clone)) == len(expected) + 1
    assert [each.path for each in lw.open(clone).base_paths] == [clone]


@pytest.mark.parametrize("by", BY)
def test_a_branch_is_cloned_with_what_it_inherited(tmp_path: Path, source: str, by: str) -> None:
    dataset = lance.dataset(source)
    dataset.create_branch("exp")
    branch = f"{source}/tree/exp"
    lw.open(branch).append(rows(200, 205))
    lance.dataset(branch).delete("k IN (7, 201)")
    expected, clone = seen(branch), str(tmp_path / "clone")
    if by == "us":
        made = lw.open(branch).clone(clone)
        assert made.branch is None
        assert {each.name: each.path for each in made.base_paths} == {None: source, "exp": branch}
    else:
        lance.dataset(source).shallow_clone(clone, ("exp", None))
    assert seen(clone) == expected
    deep(by, branch, str(tmp_path / "deep"))
    shutil.rmtree(source)
    assert seen(tmp_path / "deep") == expected
    assert lw.open(tmp_path / "deep").base_paths == ()


def test_a_clone_of_a_tag_calls_its_base_like_the_tag(tmp_path: Path, source: str) -> None:
    lance.dataset(source).tags.create("v1", 3)
    first = lw.open(source, tag="v1").clone(tmp_path / "a")
    second = lw.open(source, version=3).clone(tmp_path / "b", tag="v1")
    for each in (first, second):
        assert [base.name for base in each.base_paths] == ["v1"]
        assert each.version == 3
        assert lance.dataset(each.uri).count_rows() == each.count_rows() == 98
    with pytest.raises(lw.InvalidInputError, match="names version 3 of main, this is version 5"):
        lw.open(source).clone(tmp_path / "c", tag="v1")
    with pytest.raises(lw.NotFoundError, match=r"tag 'v2' of .* not found; nothing was cloned"):
        lw.open(source).clone(tmp_path / "c", tag="v2")
    assert not (tmp_path / "c").exists()


def test_a_clone_of_a_clone_reads_from_both(tmp_path: Path, source: str) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    lw.open(source).clone(one).append(rows(200, 210))
    lance.dataset(one).delete("k = 9")
    lw.open(one).clone(two)
    assert seen(two) == seen(one)
    lance.dataset(two).insert(rows(300, 301))
    deep("us", two, str(tmp_path / "deep"))
    expected = seen(two)
    shutil.rmtree(source)
    shutil.rmtree(one)
    assert seen(tmp_path / "deep") == expected


def test_a_deep_clone_is_recorded_as_pylance_records_one(tmp_path: Path, source: str) -> None:
    clones = {by: str(tmp_path / by) for by in BY}
    manifests, found = {}, {}
    for by, clone in clones.items():
        deep(by, source, clone)
        assert seen(clone) == seen(source)
        assert uses_index(clone)
        message = table_pb2.Manifest()
        message.CopyFrom(newest_manifest(clone).message)
        for field in ("timestamp", "transaction_file", "writer_version", "transaction_section"):
            message.ClearField(field)
        message.ClearField("index_section")
        manifests[by] = message
        found[by] = {each for each in files(Path(clone)) if each.startswith(("data", "_d", "_i"))}
        dataset = lance.dataset(clone)
        operation = dataset.read_transaction(dataset.version).operation
        assert operation.ref_path == source
        assert (operation.is_shallow, operation.ref_version, operation.ref_name) == (False, 5, None)
    assert manifests["us"] == manifests["pylance"]
    assert found["us"] == found["pylance"]
    indices = [newest_manifest(each).indices for each in clones.values()]
    assert [each.message for each in indices[0]] == [each.message for each in indices[1]]
    assert lw.open(clones["us"]).config == {"colour": "green"}


def test_a_deep_clone_needs_nothing_of_its_source(tmp_path: Path, source: str) -> None:
    expected, clone = seen(source), str(tmp_path / "clone")
    made = lw.open(source).clone(
        clone, deep=True, message="a copy", commit=lw.CommitOptions(properties={"why": "test"})
    )
    inside = [each for each in files(tmp_path / "clone") if each.startswith(("data", "_d", "_i"))]
    counts = counts_of(made, lw.DeepClone)
    assert counts.files == len(inside)
    assert counts.bytes == sum((tmp_path / "clone" / each).stat().st_size for each in inside)
    (latest,) = made.versions()
    assert (latest.message, latest.properties) == ("a copy", {"why": "test"})
    assert lance.dataset(source).tags.list() == {}
    shutil.rmtree(source)
    assert seen(clone) == expected
    lance.dataset(clone).delete("k = 1")
    lw.open(clone).append(rows(200, 201))
    assert len(seen(clone)) == len(expected)


def test_an_older_version_is_cloned_as_it_was(tmp_path: Path, source: str) -> None:
    for deep_one in (False, True):
        clone = str(tmp_path / f"{deep_one}")
        lw.open(source, version=1).clone(clone, deep=deep_one)
        assert lw.open(clone).version == lance.dataset(clone).version == 1
        assert lance.dataset(clone).to_table() == rows(0, 100)
        lance.dataset(clone).delete("k < 50")
        assert len(lw.open(clone).append(rows(0, 1)).to_arrow()) == 51


@pytest.mark.parametrize("deep_one", [False, True])
def test_an_empty_table_is_cloned(tmp_path: Path, deep_one: bool) -> None:
    table = lw.create(tmp_path / "t", rows(0, 0).schema)
    clone = str(tmp_path / "clone")
    table.clone(clone, deep=deep_one).append(rows(0, 3))
    lance.dataset(clone).insert(rows(3, 5))
    assert lw.open(clone).to_arrow() == rows(0, 5)
    lw.open(clone).detach()
    lance.dataset(clone).validate()


def blob_table(tmp_path: Path) -> tuple[str, list[bytes | None]]:
    """Blobs in the data file, beside it, and in a file of somebody else below a base path."""
    base = tmp_path / "base"
    base.mkdir()
    (base / "f.bin").write_bytes(b"abcdefghij")
    values = [b"small", b"p" * 100_000, b"d" * 5_000_000, None]
    given = [*values, lance.Blob.from_uri((base / "f.bin").as_uri())]
    schema = pa.schema([("k", pa.int64()), lance.blob_field("b")])
    table = pa.table([range(5), lance.blob_array(given)], schema=schema)
    lance.write_dataset(
        table,
        tmp_path / "blobs",
        data_storage_version="2.2",
        initial_bases=[lance.DatasetBasePath(base.as_uri(), name="x", id=1)],
    )
    return str(tmp_path / "blobs"), [*values, b"abcdefghij"]


def contents(files: list[Any]) -> list[bytes | None]:
    return [None if each is None else each.read() for each in files]


def detached(uri: str, target: str) -> None:
    lw.open(uri).clone(target)
    lw.open(target).detach()


@pytest.mark.parametrize("make", [lambda uri, target: deep("us", uri, target), detached])
def test_bytes_of_blobs_come_along(tmp_path: Path, make: Callable[[str, str], None]) -> None:
    source, values = blob_table(tmp_path)
    clone = str(tmp_path / "clone")
    make(source, clone)
    shutil.rmtree(source)
    assert contents(lw.open(clone).take_blobs("b", range(5))) == values
    dataset = judged(clone)
    assert contents(dataset.take_blobs("b", indices=list(range(5)))) == values


@pytest.mark.parametrize("by", BY)
def test_a_clone_becomes_independent(tmp_path: Path, source: str, by: str) -> None:
    clone = str(tmp_path / "clone")
    shallow(by, source, clone)
    lw.open(clone).append(rows(200, 210))
    lance.dataset(clone).delete("k IN (8, 205)")
    expected = seen(clone)
    before = lw.open(clone)
    made = before.detach(message="on its own")
    assert (made.version, made.base_paths) == (before.version + 1, ())
    assert counts_of(made, lw.DetachCounts).fragments == 2
    assert next(iter(made.versions())).message == "on its own"
    assert seen(clone) == expected
    assert uses_index(clone)
    dataset = lance.dataset(clone)
    assert type(dataset.read_transaction(dataset.version).operation).__name__ == "Update"
    assert dataset.stats.index_stats("k_idx")["num_unindexed_rows"] == 9
    assert made.detach().version == made.version
    shutil.rmtree(source)
    assert seen(clone) == expected
    lance.dataset(clone).update({"s": "'x'"}, where="k = 60")
    lw.open(clone).delete("k = 61")
    lance.dataset(clone).optimize.compact_files()
    lance.dataset(clone).optimize.optimize_indices()
    assert len(seen(clone)) == len(expected) - 1


@pytest.mark.parametrize("by", BY)
def test_a_branch_becomes_independent_of_main(tmp_path: Path, source: str, by: str) -> None:
    lance.dataset(source).create_branch("exp")
    branch = f"{source}/tree/exp"
    if by == "us":
        lw.open(branch).append(rows(200, 205)).delete("k IN (7, 201)")
    else:
        lance.dataset(branch).insert(rows(200, 205))
        lance.dataset(branch).delete("k IN (7, 201)")
    expected = seen(branch)
    made = lw.open(branch).detach()
    assert made.base_paths == ()
    assert seen(branch) == expected
    assert uses_index(branch)
    after = made.append(rows(300, 301))
    assert all(file.base_id is None for each in after.fragments for file in each.files)
    shutil.rmtree(f"{source}/data")
    shutil.rmtree(f"{source}/_deletions")
    shutil.rmtree(f"{source}/_indices")
    assert len(seen(branch)) == len(expected) + 1
    branches = lance.dataset(source).branches.list()
    assert branches["exp"]["parent_version"] == 5


def test_pylance_writes_on_while_a_clone_is_detached(tmp_path: Path, source: str) -> None:
    clone = str(tmp_path / "clone")
    lw.open(source).clone(clone)
    handle, other = lw.open(clone), lance.dataset(clone)
    other.insert(rows(200, 210))
    other.delete("k = 20")
    made = handle.detach()
    assert made.base_paths == ()
    shutil.rmtree(source)
    assert sorted(each["k"] for each in seen(clone)) == sorted(
        [*(k for k in range(100) if k not in (3, 20, 70)), *range(200, 210)]
    )


def test_pylance_commits_after_a_detach_that_it_did_not_see(tmp_path: Path, source: str) -> None:
    clone = str(tmp_path / "clone")
    lw.open(source).clone(clone)
    appender, deleter = lance.dataset(clone), lance.dataset(clone)
    lw.open(clone).detach()
    appender.insert(rows(200, 203))
    deleter.delete("k = 20")
    shutil.rmtree(source)
    assert len(seen(clone)) == 98 + 3 - 1


def test_pins_are_tags_that_pylance_lists(tmp_path: Path, source: str) -> None:
    clone = lw.open(source).clone(tmp_path / "clone")
    (pin,) = counts_of(clone, lw.ShallowClone).pins
    assert pin.root == source
    listed = lance.dataset(source).tags.list()
    assert listed[pin.tag]["version"] == 5
    assert listed[pin.tag]["branch"] is None
    assert listed[pin.tag]["metadata"] == {"lancewood.clone": clone.uri}
    assert pin.tag in clone.config[PINS_CONFIG]
    assert lance.dataset(source).checkout_version(pin.tag).count_rows() == 98


@pytest.mark.parametrize("deep_one", [False, True])
def test_tables_are_cloned_from_a_disk_to_a_bucket_and_back(
    tmp_path: Path, source: str, s3_root: str, s3_options: dict[str, str], deep_one: bool
) -> None:
    expected = lw.open(source).to_arrow()
    there = lw.open(source).clone(
        f"{s3_root}/there", deep=deep_one, access=lw.Access(storage_options=s3_options)
    )
    assert there.to_arrow() == expected
    back = there.clone(tmp_path / "back", deep=deep_one)
    assert back.to_arrow() == expected
    for each, options in ((there, s3_options), (back, s3_options)):
        dataset = judged(each.uri, storage_options=options)
        assert dataset.to_table() == expected
    beside = there.clone(f"{s3_root}/beside", deep=True)
    assert beside.to_arrow() == expected
    if not deep_one:
        found = lw.open(f"{s3_root}/there", access=lw.Access(storage_options=s3_options)).detach()
        shutil.rmtree(source)
        assert lance.dataset(found.uri, storage_options=s3_options).to_table() == expected
