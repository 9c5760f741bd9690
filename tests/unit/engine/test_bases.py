"""Homes of a table: what a caller means, where files are found, and where new ones go."""

from __future__ import annotations

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from tests.manifests import edit_manifest

import lancewood as lw
from lancewood.engine.location.base_paths import NewBase
from lancewood.engine.location.file_roots import (
    Base,
    file_roots_to_write,
    find_file_root,
    ids_to_read,
)
from lancewood.engine.location.location import Location
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2
from lancewood.store.disk import DiskStore

ROWS = pa.table({"a": pa.array(range(40), pa.int64()), "s": ["x"] * 40})


def location_at(path: Path) -> Location:
    return Location(DiskStore(str(path)))


def head_with(*bases: table_pb2.BasePath) -> Manifest:
    return Manifest(table_pb2.Manifest(version=3, base_paths=bases), name="the manifest")


def base(number: int, path: object, *, root: bool = False, name: str | None = None) -> Any:
    return table_pb2.BasePath(id=number, path=str(path), is_dataset_root=root, name=name)


def file_roots_of(table: lw.Table) -> list[list[int | None]]:
    return [[file.base_id for file in each.files] for each in table.fragments]


def files_below(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())


# What is meant


def test_a_home_is_meant_by_id_name_path_or_value(tmp_path: Path) -> None:
    location = location_at(tmp_path / "t")
    cold, flat = base(0, tmp_path / "cold", root=True, name="cold"), base(4, f"{tmp_path}/flat/")
    head = head_with(cold, flat)
    there = str(tmp_path / "cold")
    each: Base
    for each in (0, "cold", there, there + "/", Path(there), lw.BasePath(there)):
        file_root = find_file_root(location, head, each)
        assert (file_root.store.uri, file_root.key("f"), file_root.base_id) == (there, "data/f", 0)
    for each in (4, tmp_path / "flat", lw.BasePath("elsewhere", id=4)):
        file_root = find_file_root(location, head, each)
        assert (file_root.store.uri, file_root.key("f"), file_root.base_id) == (
            f"{tmp_path}/flat",
            "f",
            4,
        )
    for each in (None, tmp_path / "t", f"file://{tmp_path}/t/"):
        assert find_file_root(location, head, each).base_id is None


def test_a_name_wins_over_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    head = head_with(base(1, tmp_path / "x", name="y"), base(2, tmp_path / "y", name="x"))
    location = location_at(tmp_path / "t")
    assert find_file_root(location, head, "x").base_id == 2
    assert find_file_root(location, head, Path("x").absolute()).base_id == 1


@pytest.mark.parametrize("bases", ["nope", 9, "/nope", True, 1.5, [], [["cold"]], b"cold", {}, ""])
def test_a_home_that_is_not_there_is_refused_by_reader_and_writer(
    tmp_path: Path, bases: Any
) -> None:
    location, head = location_at(tmp_path / "t"), head_with(base(1, tmp_path / "cold", name="cold"))
    with pytest.raises(lw.InvalidInputError, match=r"bases|base path"):
        file_roots_to_write(location, head, bases)
    if bases != []:
        with pytest.raises(lw.InvalidInputError, match=r"bases|base path"):
            ids_to_read(location, head, bases)


def test_the_error_names_what_the_table_declares(tmp_path: Path) -> None:
    location = location_at(tmp_path / "t")
    with pytest.raises(lw.InvalidInputError, match=r"version 3 of .*/t declares none"):
        find_file_root(location, head_with(), "cold")
    head = head_with(base(1, "/x", name="warm"), base(2, "/y"))
    with pytest.raises(lw.InvalidInputError, match="declares 1 'warm', 2 '/y'"):
        find_file_root(location, head, "cold")
    twice = head_with(base(1, "/x"), base(2, "/x/", root=True))
    with pytest.raises(lw.InvalidInputError, match="use its id"):
        find_file_root(location, twice, "file:///x")


def test_a_place_that_is_declared_under_two_ids_is_found_under_the_lower_one(
    tmp_path: Path,
) -> None:
    location, head = location_at(tmp_path / "t"), head_with(base(5, "/x"), base(2, "/x/"))
    assert find_file_root(location, head, "file:///x").base_id == 2


def test_all_is_the_usual_home_and_every_base_path_but_roots_of_other_tables(
    tmp_path: Path,
) -> None:
    lw.create(tmp_path / "other", ROWS)
    head = head_with(
        base(7, tmp_path / "cold"),
        base(1, tmp_path / "other", root=True),
        base(2, tmp_path / "other" / "data"),
        base(0, tmp_path / "t", root=True),
        base(3, tmp_path / "warm", root=True),
    )
    location = location_at(tmp_path / "t")
    assert [each.base_id for each in file_roots_to_write(location, head, "all")] == [None, 3, 7]
    assert ids_to_read(location, head, "all") == {None, 0, 1, 2, 3, 7}
    for each in (1, 2):
        with pytest.raises(lw.InvalidInputError, match=r"holds the table at .*/other"):
            file_roots_to_write(location, head, each)


def test_the_own_root_is_one_home_even_if_a_base_path_is_declared_for_it(tmp_path: Path) -> None:
    location = location_at(tmp_path / "t")
    head = head_with(base(0, tmp_path / "t", root=True), base(1, tmp_path / "t"), base(2, "/x"))
    assert ids_to_read(location, head, [None]) == {None, 0}
    assert ids_to_read(location, head, 0) == {None, 0}
    assert ids_to_read(location, head, 1) == {1}, "files directly below the root are elsewhere"
    assert [each.base_id for each in file_roots_to_write(location, head, [0, None, 2])] == [None, 2]


def test_a_base_path_that_cannot_be_opened_is_no_hindrance_for_the_others(tmp_path: Path) -> None:
    location = Location(DiskStore(str(tmp_path / "t")), allowed_bases=(str(tmp_path),))
    head = head_with(base(1, "hdfs://x/y"), base(2, "/forbidden"), base(3, tmp_path / "cold"))
    assert ids_to_read(location, head, [None, 3]) == {None, 3}
    assert find_file_root(location, head, str(tmp_path / "cold")).base_id == 3
    with pytest.raises(lw.InvalidInputError, match="not among the allowed"):
        find_file_root(location, head, 2)


# Where files are


@pytest.mark.parametrize("number", [None, 0, 1, 2])
def test_line_57_every_kind_of_file_is_found_as_its_base_path_says(
    tmp_path: Path, number: int | None
) -> None:
    location = location_at(tmp_path / "t")
    head = head_with(
        base(2, tmp_path / "flat/"), base(0, tmp_path / "t", root=True), base(1, "/r", root=True)
    )
    where = {None: f"{tmp_path}/t", 0: f"{tmp_path}/t", 1: "/r", 2: f"{tmp_path}/flat"}[number]
    file = DataFile.make(
        "f.lance", [FieldId(0)], [0], (2, 2), 1, None if number is None else BaseId(number)
    )
    message = table_pb2.DataFragment(id=3)
    message.deletion_file.id, message.deletion_file.read_version = 5, 4
    uuid = uuid4()
    index = table_pb2.IndexMetadata()
    index.uuid.uuid = uuid.bytes
    if number is not None:
        message.deletion_file.base_id = index.base_id = number
    deletion = location.deletion_file(head, Fragment(message))
    assert deletion is not None
    found = [location.data_file(head, file), deletion, location.index_directory(head, Index(index))]
    keys = ["f.lance", "3-4-5.arrow", str(uuid)]
    if number != 2:
        keys = [
            f"{d}/{key}" for d, key in zip(["data", "_deletions", "_indices"], keys, strict=True)
        ]
    assert [(store.uri, key) for store, key in found] == [(where, key) for key in keys]


@pytest.mark.parametrize("spoiled", ["unknown", "twice"])
@pytest.mark.parametrize("verb", ["to_arrow", "take", "update"])
def test_line_58_an_id_that_is_not_declared_once_raises(
    tmp_path: Path, verb: str, spoiled: str
) -> None:
    uri = tmp_path / "t"
    table = lw.create(uri, ROWS, layout=lw.Layout(bases=[tmp_path / "cold"], into=1))

    def spoil(message: table_pb2.Manifest) -> None:
        if spoiled == "unknown":
            message.base_paths[0].id = 9
        else:
            message.base_paths.append(message.base_paths[0])

    edit_manifest(uri, spoil)
    table = lw.open(uri)
    acts: dict[str, Any] = {
        "to_arrow": table.to_arrow,
        "take": lambda: table.take([1]),
        "update": lambda: table.update({"a": 1}),
    }
    with pytest.raises(lw.FormatError, match=r"manifest: .*base path 1"):
        acts[verb]()


# Writing


@pytest.mark.usefixtures("pages_decoded_here")
def test_files_go_to_the_homes_in_turn(tmp_path: Path) -> None:
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    bases: list[NewBase] = [cold, tmp_path / "flat"]
    table = lw.create(
        tmp_path / "t", ROWS, layout=lw.Layout(bases=bases, into="all", max_rows_per_file=10)
    )
    assert file_roots_of(table) == [[None], [1], [2], [None]]
    assert [each.id for each in table.base_paths] == [1, 2]
    assert len(files_below(tmp_path / "cold" / "data")) == len(files_below(tmp_path / "flat")) == 1
    assert table.to_arrow() == ROWS
    table = table.append(ROWS, layout=lw.Layout(into=[2, "cold"], max_rows_per_file=20))
    assert file_roots_of(table)[4:] == [[2], [1]]
    table = table.append(ROWS, layout=lw.Layout(into=tmp_path / "flat"))
    assert file_roots_of(table)[6:] == [[2]]
    table = table.append(ROWS).append(ROWS, layout=lw.Layout(into=[None]))
    assert file_roots_of(table)[7:] == [[None], [None]], "as before, and said"
    table = table.overwrite(ROWS, layout=lw.Layout(into="cold"))
    assert (file_roots_of(table), len(table.base_paths)) == ([[1]], 2)
    fragments = table.write_fragments(ROWS, layout=lw.Layout(into=[None, 2], max_rows_per_file=20))
    assert [each.files[0].base_id for each in fragments] == [None, 2]
    assert table.verify(deep=True).ok
    assert pickle.loads(pickle.dumps(table)).to_arrow() == ROWS


@pytest.mark.parametrize("verb", ["append", "overwrite", "write_fragments", "create"])
def test_a_wrong_home_is_told_before_a_file_is_written(tmp_path: Path, verb: str) -> None:
    table = lw.create(tmp_path / "t", ROWS, layout=lw.Layout(bases=[tmp_path / "cold"]))
    before = files_below(tmp_path)
    wrong: Any = {"layout": lw.Layout(into=[1, "hot"])}
    act = getattr(table, verb, None)
    if act is None:
        act = partial(lw.create, tmp_path / "new")
        wrong = {"layout": lw.Layout(bases=[tmp_path / "cold"], into=[1, "hot"])}
    with pytest.raises(lw.InvalidInputError, match="base path 'hot' not found"):
        act(ROWS, **wrong)
    assert files_below(tmp_path) == before


def test_a_creator_who_lost_takes_its_files_out_of_every_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.engine.write.write.newest_version", lambda store: None)
    lw.create(tmp_path / "t", ROWS)
    with pytest.raises(lw.AlreadyExistsError):
        lw.create(
            tmp_path / "t",
            ROWS,
            layout=lw.Layout(bases=[tmp_path / "cold"], into="all", max_rows_per_file=9),
        )
    assert files_below(tmp_path / "cold") == []
    assert len(files_below(tmp_path / "t" / "data")) == 1


def test_rows_that_do_not_fit_leave_no_file_in_any_home(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", ROWS, layout=lw.Layout(bases=[tmp_path / "cold"]))
    before = files_below(tmp_path)

    def batches() -> Any:
        yield from ROWS.to_batches(max_chunksize=10)
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="broke"):
        table.append(
            pa.RecordBatchReader.from_batches(ROWS.schema, batches()),
            layout=lw.Layout(into="all", max_rows_per_file=5),
        )
    assert files_below(tmp_path) == before


# Adding and setting


def test_add_base_declares_one_more_and_keeps_rows_and_message(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", ROWS)
    after = table.add_base(
        tmp_path / "cold",
        name="cold",
        is_dataset_root=True,
        message="room",
        commit=lw.CommitOptions(properties={"k": "v"}),
    )
    assert after.base_paths == (
        lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True, id=1),
    )
    info = next(after.versions())
    assert (info.operation, info.message, info.properties) == ("UpdateBases", "room", {"k": "v"})
    after = table.add_base(tmp_path / "other")
    assert [each.id for each in after.base_paths] == [1, 2], "on the newest version"
    with pytest.raises(lw.RetryableConflictError):
        table.add_base(tmp_path / "third", commit=lw.CommitOptions(serializable=True))
    with pytest.raises(lw.InvalidInputError, match="base path 1"):
        after.add_base(tmp_path / "cold")
    with pytest.raises(lw.LancewoodError, match="cold"):
        table.add_base(tmp_path / "cold")


def moved(tmp_path: Path) -> lw.Table:
    """A table whose base path 'cold' was brought elsewhere, with some files in its own root."""
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    table = lw.create(
        tmp_path / "t", ROWS, layout=lw.Layout(bases=[cold], into="all", max_rows_per_file=5)
    )
    os.rename(tmp_path / "cold", tmp_path / "new")
    return table


@pytest.mark.parametrize("named", [1, "cold", "path"])
def test_set_base_leads_to_where_the_files_are_now(tmp_path: Path, named: Any) -> None:
    table = moved(tmp_path)
    with pytest.raises(lw.NotFoundError):
        table.to_arrow()
    named = str(tmp_path / "cold") if named == "path" else named
    after = table.set_base(named, tmp_path / "new")
    assert after.to_arrow() == ROWS
    assert after.base_paths[0].path == str(tmp_path / "new")
    info = next(after.versions())
    assert (info.operation, info.message) == (
        "Restore",
        f"base path {named} is at {tmp_path}/new now",
    )
    assert after.set_base(1, tmp_path / "new").version == after.version, "it is there already"
    assert after.append(ROWS, layout=lw.Layout(into="cold")).count_rows() == 80
    assert len(files_below(tmp_path / "new" / "data")) == 5


@pytest.mark.parametrize("fault", ["missing", "shorter", "own", "taken", "inside", "own root"])
def test_set_base_refuses_a_place_that_cannot_be_it(tmp_path: Path, fault: str) -> None:
    table = moved(tmp_path).add_base(tmp_path / "else")
    goal = tmp_path / "new"
    first = sorted((goal / "data").iterdir())[0]
    base: Any = "cold"
    if fault == "missing":
        first.unlink()
    elif fault == "shorter":
        os.truncate(first, 7)
    elif fault == "own root":
        base = None
    else:
        goal = {"own": "t", "taken": "else", "inside": "t/_indices/x"}[fault]  # type: ignore[assignment]
        goal = tmp_path / goal
    words = {
        "missing": "is missing; bring its files there first",
        "shorter": "has 7 bytes",
        "own": "that is the table's own root",
        "taken": "that is base path 2",
        "inside": "directory of the table",
        "own root": "is the table's own root, which is where the table is",
    }
    with pytest.raises(lw.InvalidInputError, match=words[fault]):
        table.set_base(base, goal)
    assert table.latest().version == table.version
    if fault in ("missing", "shorter"):
        assert table.set_base("cold", goal, check=False).base_paths[0].path == str(goal)


def test_set_base_checks_the_newest_version_and_swallows_nothing(tmp_path: Path) -> None:
    table = moved(tmp_path)
    newer = table.append(ROWS)
    after = table.set_base("cold", tmp_path / "new")
    assert (after.version, after.count_rows()) == (newer.version + 1, 80)
    with pytest.raises(lw.RetryableConflictError):
        table.set_base(
            "cold", tmp_path / "cold", check=False, commit=lw.CommitOptions(serializable=True)
        )


def test_who_was_writing_while_a_base_path_was_set_is_told_to_run_again(tmp_path: Path) -> None:
    table = moved(tmp_path)
    after = table.set_base("cold", tmp_path / "new")
    for verb in (table.append, table.overwrite):
        with pytest.raises(lw.ConflictError, match="Restore"):
            verb(ROWS, layout=lw.Layout(into="cold"))
    assert files_below(tmp_path / "cold") == [], "what did not land is removed"
    assert table.overwrite(ROWS).version == after.version + 1, "no base path is concerned"
    assert after.latest().base_paths == after.base_paths, "nobody brings the old path back"


def test_a_version_before_a_base_path_was_set_still_leads_to_the_old_place(tmp_path: Path) -> None:
    table = moved(tmp_path)
    after = table.set_base("cold", tmp_path / "new")
    with pytest.raises(lw.NotFoundError):
        after.checkout(version=1).to_arrow()
    restored = after.restore(1)
    assert restored.base_paths[0].path == str(tmp_path / "cold")
    assert restored.set_base("cold", tmp_path / "new").to_arrow() == ROWS


def test_only_some_files_are_looked_for_and_the_last_is_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.jobs.base_changes.MOST_CHECKED", 3)
    table = lw.create(
        tmp_path / "t", ROWS, layout=lw.Layout(bases=[tmp_path / "a"], into=1, max_rows_per_file=4)
    )
    os.rename(tmp_path / "a", tmp_path / "b")
    asked: list[str] = []
    head = DiskStore.head

    def watched(store: DiskStore, key: str) -> Any:
        asked.append(f"{store.uri}/{key}")
        return head(store, key)

    monkeypatch.setattr(DiskStore, "head", watched)
    table.set_base(1, tmp_path / "b")
    names = [each.files[0].path for each in table.fragments]
    looked = [each for each in asked if each.startswith(str(tmp_path / "b"))]
    assert len(looked) == 3
    assert {f"{tmp_path}/b/{names[at]}" for at in (0, 9)} < set(looked)
