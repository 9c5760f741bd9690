"""What the work of a branch is recorded as, by all that it changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lancewood.format.manifest import empty_manifest
from lancewood.jobs.compose.next_version import Effect, recorded_as
from lancewood.model.fragment import DataFile, DeletionFile, Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    Delete,
    HeadChanges,
    Merge,
    Operation,
    Overwrite,
    Project,
    Update,
    UpdateBases,
    UpdateConfig,
)
from lancewood.proto import schema_pb2, table_pb2

A = schema_pb2.Field(id=0, name="a", parent_id=-1, logical_type="int64", nullable=True)
B = schema_pb2.Field(id=1, name="b", parent_id=-1, logical_type="int64", nullable=True)
STRICT = schema_pb2.Field(id=1, name="b", parent_id=-1, logical_type="int64")
NOTED = schema_pb2.Field(
    id=0, name="a", parent_id=-1, logical_type="int64", nullable=True, metadata={"u": b"v"}
)


def fragment(number: int, path: str = "f") -> Fragment:
    file = DataFile.make(path, [FieldId(0)], [0], (2, 2), 1)
    return Fragment.make([file], 10).numbered(FragmentId(number))


def deleted(number: int) -> Fragment:
    message = table_pb2.DeletionFile(num_deleted_rows=1)
    return fragment(number).with_deletion_file(DeletionFile(message))


def newest() -> Manifest:
    manifest = empty_manifest("2.2")
    manifest.message.fields.append(A)
    manifest.message.config["old"] = "1"
    manifest.message.fragments.extend(
        fragment(each).message.SerializeToString() for each in range(3)
    )
    return manifest


def recorded(
    head: HeadChanges | None = None,
    *,
    added: tuple[Fragment, ...] = (),
    changed: Mapping[int, Fragment] | None = None,
    removed: tuple[int, ...] = (),
    **others: Any,
) -> Operation:
    return recorded_as(
        Effect(
            newest(),
            head or HeadChanges(),
            added,
            {FragmentId(key): each for key, each in (changed or {}).items()},
            frozenset(map(FragmentId, removed)),
            **{"replaces_all": False, **others},
        )
    )


def test_new_fragments_alone_are_an_append() -> None:
    assert recorded(added=(fragment(3),)) == Append((fragment(3),))


def test_rows_that_went_are_a_delete() -> None:
    made = recorded(changed={1: deleted(1)}, removed=(2,))
    assert made == Delete((deleted(1),), (FragmentId(2),))


def test_rows_that_went_and_came_are_an_update() -> None:
    made = recorded(added=(fragment(3),), changed={1: deleted(1)}, removed=(2,))
    assert made == Update((FragmentId(2),), (deleted(1),), (fragment(3),))


def test_columns_in_other_files_are_an_update_of_those() -> None:
    made = recorded(changed={1: fragment(1, "g")})
    assert made == Update(
        (), (fragment(1, "g"),), (), fields_modified=(FieldId(0),), rewrites_columns=True
    )


@pytest.mark.parametrize(("field", "preserves"), [(B, True), (STRICT, False)])
def test_another_schema_over_the_same_rows_is_a_project(
    field: schema_pb2.Field, preserves: bool
) -> None:
    assert recorded(HeadChanges(fields=(A, field))) == Project((A, field), preserves)


def test_another_schema_with_other_rows_is_a_merge_with_all_fragments() -> None:
    made = recorded(
        HeadChanges(fields=(A, B)), added=(fragment(3),), changed={1: deleted(1)}, removed=(0,)
    )
    assert isinstance(made, Merge)
    assert made.fragments == (deleted(1), fragment(2), fragment(3))
    assert made.fields == (A, B)
    assert made.preserves_nullability


def test_a_table_that_was_written_anew_is_an_overwrite() -> None:
    made = recorded(added=(fragment(3),), removed=(0, 1, 2), replaces_all=True)
    assert made == Overwrite((fragment(3),), (A,))


def test_indices_alone_are_a_create_index() -> None:
    new = Index(table_pb2.IndexMetadata(name="i"))
    assert recorded(new_indices=(new,)) == CreateIndex((new,), ())
    assert recorded(removed_indices=(new,)) == CreateIndex((), (new,))


def test_settings_alone_are_an_update_of_those_keys() -> None:
    head = HeadChanges(config={"new": "2"}, schema_metadata={"s": b"t"}, fields=(NOTED,))
    made = recorded(head)
    assert isinstance(made, UpdateConfig)
    assert made.config.entries == {"old": None, "new": "2"}
    assert made.schema_metadata.entries == {"s": "t"}
    assert made.field_metadata[FieldId(0)].entries == {"u": "v"}
    assert not made.table_metadata


def test_homes_alone_are_an_update_of_bases() -> None:
    base = table_pb2.BasePath(id=1, path="/cold")
    assert recorded(new_bases=(base,)) == UpdateBases((base,))
