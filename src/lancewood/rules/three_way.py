"""Two branches since their fork. Pure.

Maps and the fields of a schema are merged: what only one side changed is taken from that side, what
both changed differently is a conflict. Of an operation, only what it says about fragments that both
sides have can be judged: after a fork both assign the same ids to different fragments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

from pyroaring import BitMap

from lancewood.errors import IncompatibleConflictError
from lancewood.model.ids import FragmentId
from lancewood.model.transaction import (
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    FieldMessages,
    Operation,
    Rewrite,
    RewriteGroup,
    Update,
)
from lancewood.proto import schema_pb2

V = TypeVar("V")
_UNREAD = ("type", "encoding")
"""Parts of a field that every writer fills in differently."""
_METADATA = (
    "metadata",
    "unenforced_primary_key",
    "unenforced_primary_key_position",
    "unenforced_clustering_key",
    "unenforced_clustering_key_position",
)
"""The metadata of a field, and what mirrors it."""


def merged_map(
    what: str, fork: Mapping[str, V], mine: Mapping[str, V], theirs: Mapping[str, V]
) -> dict[str, V] | None:
    """The map with my changes in it; None if all my changes are there already.

    Raises IncompatibleConflictError, which names ``what``, for a key that both changed.
    """
    merged = dict(theirs)
    for key in fork.keys() | mine.keys():
        old, new, now = fork.get(key), mine.get(key), theirs.get(key)
        if new in (old, now):
            continue
        if now != old:
            raise IncompatibleConflictError(f"both change the {what} {key!r}", key=key)
        if new is None:
            merged.pop(key, None)
        else:
            merged[key] = new
    return None if merged == theirs else merged


def favoured_map(
    what: str,
    fork: Mapping[str, V],
    mine: Mapping[str, V],
    theirs: Mapping[str, V],
    side: Literal["ours", "theirs", "base"] | None,
) -> dict[str, V] | None:
    """The map with my changes in it, for a merge of mine into ours: if both changed a key, a side
    that is favoured counts."""
    both = {
        key
        for key in fork.keys() | mine.keys() | theirs.keys()
        if fork.get(key) not in (mine.get(key), theirs.get(key))
        and mine.get(key) != theirs.get(key)
    }
    if side == "ours":
        mine = _with(mine, fork, both)
    elif side == "theirs":
        fork = _with(fork, theirs, both)
    return merged_map(what, fork, mine, theirs)


def _with(one: Mapping[str, V], other: Mapping[str, V], keys: set[str]) -> dict[str, V]:
    """A map with some keys as another has them."""
    kept = {key: value for key, value in one.items() if key not in keys}
    return kept | {key: other[key] for key in keys & other.keys()}


def merged_fields(
    fork: FieldMessages, mine: FieldMessages, theirs: FieldMessages
) -> FieldMessages | None:
    """The fields of a schema with my changes in them; None if I changed nothing.

    Where both changed the schema, mine must have kept the list of fields. Raises
    IncompatibleConflictError.
    """
    if same_fields(mine, fork) or same_fields(mine, theirs):
        return None
    if same_fields(theirs, fork):
        return mine
    if [each.id for each in mine] != [each.id for each in fork]:
        raise IncompatibleConflictError("both change the columns of the schema")
    before = {each.id: each for each in fork}
    changed = {each.id: each for each in mine if not _same_field(each, before[each.id])}
    gone = changed.keys() - {each.id for each in theirs}
    if gone:
        name = changed[min(gone)].name
        raise IncompatibleConflictError(f"column {name!r}, which is changed, was dropped")
    return tuple(
        _merged_field(before[each.id], changed[each.id], each) if each.id in changed else each
        for each in theirs
    )


def same_fields(one: FieldMessages, other: FieldMessages) -> bool:
    """Whether two schemas are the same in everything that is read."""
    return len(one) == len(other) and all(map(_same_field, one, other))


def same_structure(one: FieldMessages, other: FieldMessages) -> bool:
    """Whether two schemas differ at most in the metadata of their fields."""
    return [_bare(each, _METADATA) for each in one] == [_bare(each, _METADATA) for each in other]


def _same_field(one: schema_pb2.Field, other: schema_pb2.Field) -> bool:
    return _bare(one) == _bare(other)


def _merged_field(
    fork: schema_pb2.Field, mine: schema_pb2.Field, theirs: schema_pb2.Field
) -> schema_pb2.Field:
    merged = schema_pb2.Field()
    merged.CopyFrom(theirs)
    for each in fork.DESCRIPTOR.fields:
        if each.name in _UNREAD:
            continue
        old, new, now = (_value(side, each.name) for side in (fork, mine, theirs))
        if new in (old, now):
            continue
        if now != old:
            raise IncompatibleConflictError(
                f"both change the {each.name.replace('_', ' ')} of column {fork.name!r}"
            )
        merged.ClearField(each.name)
        donor = schema_pb2.Field()
        donor.CopyFrom(mine)
        for other in fork.DESCRIPTOR.fields:
            if other.name != each.name:
                donor.ClearField(other.name)
        merged.MergeFrom(donor)
    return merged


def _value(field: schema_pb2.Field, name: str) -> Any:
    value = getattr(field, name)
    return dict(value) if isinstance(value, Mapping) else value


def _bare(field: schema_pb2.Field, without: Iterable[str] = ()) -> schema_pb2.Field:
    copy = schema_pb2.Field()
    copy.CopyFrom(field)
    for each in (*_UNREAD, *without):
        copy.ClearField(each)
    return copy


def common_part(operation: Operation, last: FragmentId | None) -> Operation:
    """The operation without what it says about fragments after ``last``; None is before all."""

    def old(number: FragmentId) -> bool:
        return last is not None and number <= last

    match operation:
        case Delete(updated_fragments=updated, deleted_fragment_ids=removed):
            return replace(
                operation,
                updated_fragments=tuple(each for each in updated if old(each.id)),
                deleted_fragment_ids=tuple(filter(old, removed)),
            )
        case Update(updated_fragments=updated, removed_fragment_ids=removed):
            offsets = operation.updated_offsets.items()
            return replace(
                operation,
                updated_fragments=tuple(each for each in updated if old(each.id)),
                removed_fragment_ids=tuple(filter(old, removed)),
                updated_offsets={number: each for number, each in offsets if old(number)},
            )
        case Rewrite(groups=groups):
            left = [
                RewriteGroup(tuple(f for f in each.old_fragments if old(f.id)), each.new_fragments)
                for each in groups
            ]
            return replace(operation, groups=tuple(left))
        case DataReplacement(replacements=replacements):
            kept = tuple(each for each in replacements if old(each.fragment_id))
            return replace(operation, replacements=kept)
        case DataOverlay(fragment_ids=ids):
            return replace(operation, fragment_ids=tuple(filter(old, ids)))
        case CreateIndex(new_indices=new):
            known = BitMap() if last is None else BitMap(range(last + 1))
            narrowed = tuple(each.covering(each.fragments & known) for each in new)
            return replace(operation, new_indices=narrowed)
        case _:
            return operation
