"""Base paths as values: what people may declare, and which storage options are whose."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.location.base_paths import base_options, checked_bases, new_base_paths
from lancewood.engine.location.location import Location
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2
from lancewood.store.disk import DiskStore
from lancewood.store.locate import open_store

ROWS = pa.table({"a": pa.array(range(40), pa.int64()), "s": ["x"] * 40})


def location_at(path: Path) -> Location:
    return Location(DiskStore(str(path)))


def head_with(*bases: table_pb2.BasePath) -> Manifest:
    return Manifest(table_pb2.Manifest(version=3, base_paths=bases), name="the manifest")


def base(number: int, path: object, *, root: bool = False, name: str | None = None) -> Any:
    return table_pb2.BasePath(id=number, path=str(path), is_dataset_root=root, name=name)


def files_below(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


def test_a_base_path_is_absolute_from_the_moment_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lw.BasePath("cold/").path == str(tmp_path / "cold")
    assert lw.BasePath(Path("cold")) == lw.BasePath(f"file://{tmp_path}/cold")
    assert lw.BasePath("s3://bucket/cold/").path == "s3://bucket/cold"
    one = lw.BasePath("cold", name="c", is_dataset_root=True)
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(lw.BasePath("cold", name="c", is_dataset_root=True))
    assert lw.BasePath("cold", id=7).path == "cold", "as a manifest spells it"


@pytest.mark.parametrize(
    "make",
    [
        lambda: lw.BasePath(""),
        lambda: lw.BasePath(7),  # type: ignore[arg-type]
        lambda: lw.BasePath(7, id=1),  # type: ignore[arg-type]
        lambda: lw.BasePath(b"x", id=1),  # type: ignore[arg-type]
        lambda: lw.BasePath("/x", name=7),  # type: ignore[arg-type]
        lambda: lw.BasePath("/x", is_dataset_root="yes"),  # type: ignore[arg-type]
        lambda: lw.BasePath("/x", id=-1),
        lambda: lw.BasePath("s3://user:word@bucket/x"),
    ],
)
def test_what_is_no_base_path_is_refused(make: Any) -> None:
    with pytest.raises(lw.InvalidInputError):
        make()


def test_ids_count_from_one_and_go_on_after_the_highest(tmp_path: Path) -> None:
    location = location_at(tmp_path / "t")
    new = new_base_paths(location, (), ["/x", lw.BasePath("/y", name="y")])
    assert [(each.id, each.path, each.name) for each in new] == [(1, "/x", ""), (2, "/y", "y")]
    assert not new[0].HasField("name")
    assert [each.id for each in new_base_paths(location, (base(0, "/s"),), ["/x"])] == [1]
    assert [
        each.id for each in new_base_paths(location, (base(7, "/s"), base(3, "/r")), ["/x"])
    ] == [8]
    assert [each.id for each in checked_bases(location, (), ["/x"])] == [0]


@pytest.mark.parametrize(
    ("bases", "why"),
    [
        (["cold", "other/../cold"], "given twice"),
        ([lw.BasePath("/x", name="n"), lw.BasePath("/y", name="n")], "has that name"),
        ([lw.BasePath("/x", name="known")], "has that name"),
        ([lw.BasePath("/x", name="")], "empty"),
        ([lw.BasePath("/x", name="all")], "all roots"),
        ([lw.BasePath("/x", id=3)], "id 3"),
        (["known/"], "base path 5"),
        (["t"], "own root"),
        (["t/data"], "directory of the table"),
        (["t/tree/b/cold"], "directory of the table"),
        (["other/data/x"], "directory of the table"),
        (["other/_indices"], "directory of the table"),
        ("cold", "takes a list"),
        ([7], "text or a path"),
        ([None], "text or a path"),
    ],
)
def test_a_base_path_that_cannot_be_is_refused_before_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bases: Any, why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lw.create("other", ROWS)
    known = (base(5, tmp_path / "known", name="known"),)
    with pytest.raises(lw.InvalidInputError, match=why):
        checked_bases(location_at(tmp_path / "t"), known, bases)
    if "known" not in str(bases):
        before = files_below(tmp_path)
        with pytest.raises(lw.InvalidInputError, match=why):
            lw.create("t", ROWS, layout=lw.Layout(bases=bases))
        assert files_below(tmp_path) == before


def test_places_beside_and_below_a_table_are_free_if_no_cleanup_goes_there(tmp_path: Path) -> None:
    lw.create(tmp_path / "other", ROWS)
    free = ["data/cold", "other/cold", "t/cold", "tree", "x/_versions"]
    found = checked_bases(location_at(tmp_path / "t"), (), [tmp_path / each for each in free])
    assert [each.path for each in found] == [str(tmp_path / each) for each in free]
    root = lw.BasePath(tmp_path / "other", is_dataset_root=True)
    assert checked_bases(location_at(tmp_path / "t"), (), [root]), "files of it may be referred to"


def test_a_bucket_is_no_directory_of_a_table() -> None:
    location = Location(open_store("s3://data/t", storage_options={"region": "x"}))
    assert checked_bases(location, (), ["memory://data/cold"])
    with pytest.raises(lw.InvalidInputError, match="directory of the table at s3://data/t"):
        checked_bases(location, (), ["s3://data/t/data/cold"])


def test_options_of_a_base_path_are_found_by_name_and_by_any_spelling_of_its_path() -> None:
    own = {"region": "eu"}
    head = base(1, "s3://cold/t/", name="cold")
    for key in ("cold", "s3://cold/t", "s3://cold/t/", "s3a://cold/t"):
        location = Location(
            open_store("memory://own"), {"region": "us"}, None, base_options({key: own})
        )
        assert location.options_of(head) == own
        assert location.options_at(head_with(head), BaseId(1)) == own
        assert location.options_at(head_with(head), None) == {"region": "us"}
        assert location.options_of(base(2, "s3://warm/t")) == {"region": "us"}
        assert "eu" not in repr(location)
        assert pickle.loads(pickle.dumps(location)).options_of(head) == own
    store, key = location.foreign_file(head_with(head), "s3://cold/t/x/blob.bin", BaseId(0))
    assert (store.uri, key) == ("s3://cold/t/x", "blob.bin")


@pytest.mark.parametrize(
    "options", [["cold"], {"cold": "secret"}, {"cold": {"k": 7}}, {"": {}}, {7: {}}, "cold"]
)
def test_options_that_are_none_are_refused_without_showing_a_value(
    tmp_path: Path, options: Any
) -> None:
    with pytest.raises(lw.InvalidInputError, match="option") as caught:
        lw.create(tmp_path / "t", ROWS, access=lw.Access(base_storage_options=options))
    assert "secret" not in str(caught.value)
    assert not (tmp_path / "t").exists()
