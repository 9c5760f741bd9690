"""Metadata of columns: what one side sets the other reads, and both mirror known keys alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.manifests import newest_manifest
from tests.pylance import lance

import lancewood as lw
from lancewood.errors import IncompatibleConflictError, InvalidInputError
from lancewood.model.transaction import MapUpdate, UpdateConfig

KEY = "lance-schema:unenforced-primary-key"
POSITION = f"{KEY}:position"
CLUSTERING = "lance-schema:unenforced-clustering-key:position"


def data(metadata: dict[str, str] | None = None) -> pa.Table:
    there = pa.field("x", pa.int64(), nullable=False)
    schema = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False, metadata=metadata),
            pa.field("b", pa.int64(), nullable=False),
            pa.field("s", pa.struct([there, pa.field("t", pa.string())]), nullable=False),
            pa.field("l", pa.list_(pa.field("item", pa.int64(), nullable=False)), nullable=False),
            pa.field("u", pa.uuid()),
        ]
    )
    uuids = pa.array([b"u" * 16], pa.uuid())
    return pa.table([[1], [2], [{"x": 1, "t": "q"}], [[1]], uuids], schema=schema)


def fields(uri: Path) -> list[tuple[Any, ...]]:
    """What a manifest says of each field, besides its type."""
    return [
        (
            each.name,
            dict(each.metadata),
            each.extension_name,
            each.unenforced_primary_key,
            each.unenforced_primary_key_position,
            each.unenforced_clustering_key,
            each.unenforced_clustering_key_position,
        )
        for each in newest_manifest(uri).fields
    ]


@pytest.fixture
def both(tmp_path: Path) -> tuple[Path, Path]:
    """The same table twice: one for pylance to change, one for us."""
    for name in ("theirs", "ours"):
        lance.write_dataset(data({"old": "1"}), tmp_path / name)
    return tmp_path / "theirs", tmp_path / "ours"


CHANGES: dict[str, list[tuple[dict[str, dict[str, str | None]], bool]]] = {
    "set": [({"a": {"unit": "m"}}, False)],
    "set below": [({"s.t": {"k": "v"}, "s": {"k": "w"}, "l.item": {"i": "1"}}, False)],
    "remove": [({"a": {"unit": "m"}}, False), ({"a": {"unit": None, "none": None}}, False)],
    "replace": [({"a": {"new": "2"}}, True)],
    "primary key": [({"a": {KEY: "true"}}, False), ({"a": {"more": "1"}}, False)],
    "primary key, yes": [({"s.x": {KEY: "YES"}}, False)],
    "primary key by position": [({"a": {POSITION: "2"}, "b": {POSITION: "1"}}, False)],
    "primary key, both words": [({"a": {KEY: "true", POSITION: "3"}}, False)],
    "clustering key": [({"a": {CLUSTERING: "2"}}, False), ({"b": {"k": "v"}}, False)],
    "encoding": [({"b": {"lance-encoding:compression": "zstd"}}, False)],
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_manifest_says_the_same_after_our_change_as_after_pylance_s(
    both: tuple[Path, Path], name: str
) -> None:
    theirs, ours = both
    for values, replace in CHANGES[name]:
        lance.dataset(theirs).update_field_metadata(values, replace=replace)
        lw.open(ours).set_field_metadata(values, replace=replace)
    assert fields(ours) == fields(theirs)
    for uri in both:
        assert lw.open(uri).schema.equals(lance.dataset(uri).schema, check_metadata=True)
        assert lance.dataset(uri).to_table().equals(data())
        assert lw.open(uri).append(data()).count_rows() == 2
    operation = lance.dataset(ours, version=2).read_transaction(2).operation
    theirs_too = lance.dataset(theirs, version=2).read_transaction(2).operation
    assert operation.field_metadata_updates.keys() == theirs_too.field_metadata_updates.keys()


@pytest.mark.parametrize(
    "metadata",
    [
        {KEY: "true"},
        {KEY: "1"},
        {KEY: "false"},
        {POSITION: "1"},
        {KEY: "false", POSITION: "1"},
        {KEY: "true", POSITION: "many"},
        {CLUSTERING: "3"},
        {CLUSTERING: "x"},
        {"plain": "text"},
    ],
    ids=str,
)
def test_keys_that_a_new_table_has_are_mirrored_alike(
    tmp_path: Path, metadata: dict[str, str]
) -> None:
    lance.write_dataset(data(metadata), tmp_path / "theirs")
    lw.create(tmp_path / "ours", data(metadata))
    assert fields(tmp_path / "ours") == fields(tmp_path / "theirs")


REFUSED: dict[str, tuple[list[dict[str, dict[str, str | None]]], str]] = {
    "type": ([{"u": {"ARROW:extension:name": None}}], "part of the column's type"),
    "new type": ([{"a": {"ARROW:extension:name": "x.y"}}], "part of the column's type"),
    "blob": ([{"b": {"lance-encoding:blob": "true"}}], "laid out by it"),
    "packed": ([{"s": {"lance-encoding:packed": "true"}}], "laid out by it"),
    "codec": ([{"a": {"lance-encoding:compression": "zip"}}], "one of zstd"),
    "level alone": ([{"a": {"lance-encoding:compression-level": "3"}}], "has levels"),
    "typo": ([{"a": {"lance-encoding:compresion": "zstd"}}], "did you mean"),
    "no column": ([{"zz": {"k": "v"}}], "'zz' not found"),
    "close column": ([{"s.xx": {"k": "v"}}], "did you mean 's.x'"),
    "not text": ([{"a": {"k": 3}}], "k"),  # type: ignore[dict-item]
    "nothing": ([{}], "a map from columns"),
    "nothing for one": ([{"a": {}}], "nothing to change"),
    "key that may be null": ([{"u": {KEY: "true"}}], "may be null"),
    "key of a struct": ([{"s": {KEY: "true"}}], "columns below it"),
    "key in a list": ([{"l.item": {KEY: "true"}}], "inside a list"),
    "no key": ([{"a": {KEY: "false"}}], "does not make a primary key"),
    "other key": ([{"a": {KEY: "true"}}, {"b": {KEY: "true"}}], "cannot be changed once"),
    "key taken back": ([{"a": {KEY: "true"}}, {"a": {KEY: None}}], "cannot be changed once"),
    "no clustering": ([{"a": {CLUSTERING: "x"}}], "does not make a clustering key"),
    "other clustering": (
        [{"a": {CLUSTERING: "1"}}, {"a": {CLUSTERING: "2"}}],
        "clustering key of a table cannot be changed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_change_that_makes_no_sense_is_refused_and_changes_nothing(
    tmp_path: Path, name: str
) -> None:
    steps, why = REFUSED[name]
    table = lw.create(tmp_path, data())
    for step in steps[:-1]:
        table = table.set_field_metadata(step)
    with pytest.raises(InvalidInputError, match=why):
        table.set_field_metadata(steps[-1])
    assert lw.open(tmp_path).version == table.version
    assert lance.dataset(tmp_path).to_table().equals(data())


def test_replacing_metadata_does_not_drop_what_the_type_needs(tmp_path: Path) -> None:
    table = lw.create(tmp_path, data())
    with pytest.raises(InvalidInputError, match="part of the column's type"):
        table.set_field_metadata({"u": {"k": "v"}}, replace=True)
    kept: dict[str, str | None] = {
        "ARROW:extension:name": "arrow.uuid",
        "ARROW:extension:metadata": "",
        "k": "v",
    }
    after = table.set_field_metadata({"u": kept}, replace=True)
    assert after.schema.field("u").type == pa.uuid()
    assert lance.dataset(tmp_path).schema.equals(after.schema, check_metadata=True)


def test_a_low_level_change_is_checked_too(tmp_path: Path) -> None:
    table = lw.create(tmp_path, data())
    (field,) = [each for each in newest_manifest(tmp_path).fields if each.name == "u"]
    change = UpdateConfig(field_metadata={field.id: MapUpdate({"ARROW:extension:name": None})})  # type: ignore[dict-item]
    with pytest.raises(InvalidInputError, match="part of the column's type"):
        table.commit(table.transaction(change))


def test_two_changes_of_one_column_conflict_and_of_two_columns_both_hold(tmp_path: Path) -> None:
    table = lw.create(tmp_path, data())
    table.set_field_metadata({"a": {"k": "1"}})
    table.set_field_metadata({"b": {"k": "2"}})
    with pytest.raises(IncompatibleConflictError):
        table.set_field_metadata({"a": {"k": "3"}})
    schema = lance.dataset(tmp_path).schema
    assert schema.field("a").metadata == {b"k": b"1"}
    assert schema.field("b").metadata == {b"k": b"2"}


def test_an_encoding_that_is_set_later_shrinks_the_next_file(tmp_path: Path) -> None:
    rows = pa.table({"t": [f"line {n} of the log, much like others" for n in range(20_000)]})
    table = lw.create(tmp_path, rows, layout=lw.Layout(file_version="2.0"))
    table.set_field_metadata({"t": {"lance-encoding:compression": "zstd"}}).append(rows)
    first, second = (each.files[0].size for each in newest_manifest(tmp_path).fragments)
    assert first is not None
    assert second is not None
    assert second < first / 2
    assert lance.dataset(tmp_path).to_table().num_rows == 40_000
