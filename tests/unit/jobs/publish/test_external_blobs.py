"""Which fragments are read for the base paths that their external blobs name, and which are not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.manifests import edit_manifest

import lancewood as lw
from lancewood.engine.location import Location
from lancewood.engine.rows import open_fragment
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import ManifestHead
from lancewood.proto import table_pb2
from lancewood.store.locate import open_store

_lance: Any = lance


def append(uri: Path, number: int, *values: Any, branch: str | None = None) -> None:
    found = _lance.dataset(uri)
    opened = found if branch is None else found.checkout_version((branch, None))
    _lance.write_dataset(rows(number, *values), opened, mode="append")


def rows(number: int, *values: Any) -> pa.Table:
    schema = pa.schema([("n", pa.int64()), _lance.blob_field("b")])
    numbers = range(number, number + len(values))
    return pa.table([list(numbers), _lance.blob_array(list(values))], schema=schema)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = tmp_path / "there"
    made.mkdir()
    (made / "f.bin").write_bytes(b"there")
    return made


@pytest.fixture
def uri(tmp_path: Path, base: Path) -> Path:
    """A table with a row below a base path, and a branch of it."""
    made = tmp_path / "t"
    options = {"enable_stable_row_ids": True, "data_storage_version": "2.2"}
    _lance.write_dataset(rows(0, b"own"), made, **options)
    lw.open(made).add_base(base, name="there")
    append(made, 1, blob(base), b"plain")
    lw.open(made).branches.create("dev")
    return made


def blob(base: Path) -> Any:
    return _lance.Blob.from_uri((base / "f.bin").as_uri())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The fragments whose descriptors are read."""
    numbers = list[int]()

    def noted(snapshot: Any, fragment: Fragment, wanted: Any) -> Any:
        numbers.append(fragment.id)
        return open_fragment(snapshot, fragment, wanted)

    monkeypatch.setattr("lancewood.jobs.compose.base_paths.open_fragment", noted)
    return numbers


def bring(uri: Path, verb: str) -> lw.Table:
    branches = lw.open(uri).branches
    return branches.publish("dev") if verb == "publish" else branches.merge("dev")


def contents(uri: Path) -> list[bytes | None]:
    found = _lance.dataset(uri)
    blobs = found.take_blobs("b", indices=list(range(found.count_rows())))
    return [None if each is None else each.read() for each in blobs]


@pytest.mark.parametrize("verb", ["publish", "merge"])
def test_nothing_is_read_where_both_sides_have_the_same_base_paths(
    uri: Path, base: Path, read: list[int], verb: str
) -> None:
    # The root of main is a base path of the branch, under an id that main does not have.
    root = lw.open(uri, branch="dev").base_paths[-1].id
    assert root == 2
    lw.open(uri).set_config({"a": "b"})
    edit_manifest(uri, lambda manifest: _declare(manifest, root, str(uri)))
    append(uri, 3, blob(base), branch="dev")
    bring(uri, verb)
    assert read == []
    assert contents(uri) == [b"own", b"there", b"plain", b"there"]


def _declare(manifest: table_pb2.Manifest, number: int, path: str) -> None:
    manifest.base_paths.add(id=number, path=path, is_dataset_root=True)


@pytest.mark.parametrize("verb", ["publish", "merge"])
def test_only_new_files_are_read_and_each_once(
    uri: Path, base: Path, read: list[int], verb: str
) -> None:
    append(uri, 3, blob(base), branch="dev")
    append(uri, 4, b"plain", branch="dev")
    lw.open(uri, branch="dev").delete("n = 2")
    bring(uri, verb)
    assert sorted(read) == [2, 3]
    assert contents(uri) == [b"own", b"there", b"there", b"plain"]


@pytest.mark.parametrize("verb", ["publish", "merge"])
def test_files_that_the_target_has_keep_the_place_that_it_gives_them(
    uri: Path, base: Path, tmp_path: Path, verb: str
) -> None:
    shutil.copytree(base, tmp_path / "copy")
    dev = lw.open(uri, branch="dev").set_base("there", str(tmp_path / "copy"))
    dev.delete("n = 2")
    done = bring(uri, verb)
    assert [Path(each.path).name for each in done.base_paths if each.id == 1] == ["there"]
    assert contents(uri) == [b"own", b"there"]


def test_a_name_of_a_file_without_a_base_path_is_absolute(uri: Path, base: Path) -> None:
    location = Location(open_store(uri))
    head = ManifestHead(table_pb2.Manifest(), name="m")
    _declare(head.message, 0, str(base))
    store, key = location.foreign_file(head, (base / "f.bin").as_uri(), BaseId(0))
    assert store.get(key) == b"there"
    with pytest.raises(lw.FormatError, match=r"'f\.bin', below no base path"):
        location.foreign_file(head, "f.bin", BaseId(0))
    with pytest.raises(lw.FormatError, match="base path 7"):
        location.foreign_file(head, "f.bin", BaseId(7))
