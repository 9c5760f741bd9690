"""Transactions as bytes: the ``.txn`` file and the section inside a manifest are the same message.

Pure. An unknown operation is decoded as ``UnknownOperation``, never as an error: the rules then say
that it conflicts with everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeGuard

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from pyroaring import BitMap

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.bitmap import decode_bitmap
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.index import Index, RewrittenIndex
from lancewood.model.transaction import (
    MOVED_PROPERTY,
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    Operation,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Transaction,
    UnknownOperation,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
    operation_name,
)
from lancewood.proto import table_pb2, transaction_pb2

_Pb: TypeAlias = transaction_pb2.Transaction
_FIRST_OPERATION = 100


def encode_transaction(transaction: Transaction) -> bytes:
    """The bytes of a transaction with one operation."""
    operation = transaction.operation
    message = _Pb(
        read_version=transaction.read_version,
        uuid=transaction.uuid,
        transaction_properties=dict(transaction.properties),
    )
    encode = _ENCODE.get(type(operation))
    if encode is None:
        raise InvalidInputError(f"{operation_name(operation)} is read by Lancewood, never written")
    name, body = encode(operation)
    getattr(message, name).CopyFrom(body)
    if isinstance(operation, Update) and operation.moves_files:
        message.transaction_properties[MOVED_PROPERTY] = "true"
    return message.SerializeToString()


def decode_transaction(data: bytes, *, name: str) -> Transaction:
    """The transaction in the bytes; raises FormatError naming the file."""
    try:
        message = _Pb.FromString(data)
    except DecodeError as cause:
        raise FormatError(f"{name}: the transaction cannot be decoded", file=name) from cause
    kind = message.WhichOneof("operation")
    operation: Operation
    if kind is None:
        operation = UnknownOperation(_unknown_number(message))
    else:
        operation = _DECODE[kind](getattr(message, kind))
    if MOVED_PROPERTY in message.transaction_properties and _may_move_files(operation):
        operation = replace(operation, moves_files=True)
    return Transaction(
        read_version=Version(message.read_version),
        uuid=message.uuid,
        operations=(operation,),
        properties=dict(message.transaction_properties),
    )


def _may_move_files(operation: Operation) -> TypeGuard[Update]:
    """Whether an operation is an Update that changes nothing but files; a property is no proof."""
    return (
        isinstance(operation, Update)
        and operation.rewrites_columns
        and not operation.fields_modified
        and not operation.new_fragments
        and not operation.removed_fragment_ids
        and not operation.updated_offsets
    )


def _unknown_number(message: Message) -> int | None:
    unknown = UnknownFieldSet(message)
    numbers = [unknown[at].field_number for at in range(len(unknown))]
    return next((each for each in numbers if each >= _FIRST_OPERATION), None)


def _fragments(messages: Iterable[table_pb2.DataFragment]) -> tuple[Fragment, ...]:
    return tuple(Fragment(each) for each in messages)


def _ids(numbers: Iterable[int]) -> tuple[FragmentId, ...]:
    return tuple(FragmentId(each) for each in numbers)


def _field_ids(numbers: Iterable[int]) -> tuple[FieldId, ...]:
    return tuple(FieldId(each) for each in numbers)


def _messages(views: Iterable[Any]) -> list[Any]:
    return [each.message for each in views]


def _decode_map(message: _Pb.UpdateMap) -> MapUpdate:
    entries = {
        each.key: each.value if each.HasField("value") else None for each in message.update_entries
    }
    return MapUpdate(entries, message.replace)


def _encode_map(update: MapUpdate) -> _Pb.UpdateMap:
    message = _Pb.UpdateMap(replace=update.replace)
    for key, value in update.entries.items():
        message.update_entries.add(key=key, value=value)
    return message


def _decode_rewrite(message: _Pb.Rewrite) -> Rewrite:
    groups = [
        RewriteGroup(_fragments(each.old_fragments), _fragments(each.new_fragments))
        for each in message.groups
    ]
    if message.old_fragments or message.new_fragments:
        groups.append(
            RewriteGroup(_fragments(message.old_fragments), _fragments(message.new_fragments))
        )
    return Rewrite(tuple(groups), tuple(RewrittenIndex(each) for each in message.rewritten_indices))


def _encode_rewrite(operation: Rewrite) -> _Pb.Rewrite:
    message = _Pb.Rewrite(rewritten_indices=_messages(operation.rewritten_indices))
    for group in operation.groups:
        message.groups.add(
            old_fragments=_messages(group.old_fragments),
            new_fragments=_messages(group.new_fragments),
        )
    return message


def _decode_update(message: _Pb.Update) -> Update:
    return Update(
        removed_fragment_ids=_ids(message.removed_fragment_ids),
        updated_fragments=_fragments(message.updated_fragments),
        new_fragments=_fragments(message.new_fragments),
        fields_modified=_field_ids(message.fields_modified),
        fields_for_preserving_frag_bitmap=_field_ids(message.fields_for_preserving_frag_bitmap),
        rewrites_columns=message.update_mode == _Pb.Update.REWRITE_COLUMNS,
        inserted_rows=message.inserted_rows if message.HasField("inserted_rows") else None,
        compacted_sstables=tuple(message.compacted_sstables),
        updated_offsets=_decode_offsets(message),
    )


def _decode_offsets(message: _Pb.Update) -> dict[FragmentId, BitMap]:
    offsets = {
        FragmentId(number): BitMap(each.values)
        for number, each in message.updated_fragment_offsets.items()
    }
    for number, data in message.updated_fragment_offset_bitmaps.items():
        offsets[FragmentId(number)] = decode_bitmap(data, f"the updated rows of fragment {number}")
    return offsets


def _encode_update(operation: Update) -> _Pb.Update:
    mode = _Pb.Update.REWRITE_COLUMNS if operation.rewrites_columns else _Pb.Update.REWRITE_ROWS
    return _Pb.Update(
        removed_fragment_ids=operation.removed_fragment_ids,
        updated_fragments=_messages(operation.updated_fragments),
        new_fragments=_messages(operation.new_fragments),
        fields_modified=operation.fields_modified,
        fields_for_preserving_frag_bitmap=operation.fields_for_preserving_frag_bitmap,
        update_mode=mode,
        inserted_rows=operation.inserted_rows,
        compacted_sstables=operation.compacted_sstables,
        updated_fragment_offset_bitmaps={
            number: each.serialize() for number, each in operation.updated_offsets.items()
        },
    )


def _decode_update_config(message: _Pb.UpdateConfig) -> UpdateConfig:
    config = _decode_map(message.config_updates)
    if message.upsert_values or message.delete_keys:
        deleted: Mapping[str, str | None] = dict.fromkeys(message.delete_keys)
        config = MapUpdate({**deleted, **message.upsert_values, **config.entries}, config.replace)
    schema_metadata = _decode_map(message.schema_metadata_updates)
    if message.schema_metadata:
        schema_metadata = MapUpdate(dict(message.schema_metadata), replace=True)
    fields = {FieldId(i): _decode_map(each) for i, each in message.field_metadata_updates.items()}
    for number, old in message.field_metadata.items():
        fields[FieldId(number)] = MapUpdate(dict(old.metadata), replace=True)
    return UpdateConfig(
        config, _decode_map(message.table_metadata_updates), schema_metadata, fields
    )


def _encode_update_config(operation: UpdateConfig) -> _Pb.UpdateConfig:
    message = _Pb.UpdateConfig()
    if operation.config:
        message.config_updates.CopyFrom(_encode_map(operation.config))
    if operation.table_metadata:
        message.table_metadata_updates.CopyFrom(_encode_map(operation.table_metadata))
    if operation.schema_metadata:
        message.schema_metadata_updates.CopyFrom(_encode_map(operation.schema_metadata))
    for field_id, update in operation.field_metadata.items():
        message.field_metadata_updates[field_id].CopyFrom(_encode_map(update))
    return message


def _decode_overlay(message: _Pb.DataOverlay) -> DataOverlay:
    fields = {
        FieldId(number)
        for group in message.groups
        for overlay in group.overlays
        for number in overlay.data_file.fields
    }
    return DataOverlay(_ids(each.fragment_id for each in message.groups), tuple(sorted(fields)))


_DECODE: Mapping[str, Callable[[Any], Operation]] = {
    "append": lambda m: Append(_fragments(m.fragments)),
    "delete": lambda m: Delete(
        _fragments(m.updated_fragments), _ids(m.deleted_fragment_ids), m.predicate
    ),
    "overwrite": lambda m: Overwrite(
        _fragments(m.fragments),
        tuple(m.schema),
        dict(m.schema_metadata),
        dict(m.config_upsert_values),
        tuple(m.initial_bases),
    ),
    "create_index": lambda m: CreateIndex(
        tuple(Index(each) for each in m.new_indices),
        tuple(Index(each) for each in m.removed_indices),
    ),
    "rewrite": _decode_rewrite,
    "merge": lambda m: Merge(
        _fragments(m.fragments), tuple(m.schema), dict(m.schema_metadata), m.preserves_nullability
    ),
    "restore": lambda m: Restore(Version(m.version)),
    "reserve_fragments": lambda m: ReserveFragments(m.num_fragments),
    "update": _decode_update,
    "project": lambda m: Project(tuple(m.schema), m.preserves_nullability),
    "update_config": _decode_update_config,
    "data_replacement": lambda m: DataReplacement(
        tuple(
            Replacement(FragmentId(each.fragment_id), DataFile(each.new_file))
            for each in m.replacements
        )
    ),
    "update_mem_wal_state": lambda m: UpdateMemWalState(tuple(m.compacted_sstables)),
    "clone": lambda m: Clone(
        is_shallow=m.is_shallow,
        ref_version=Version(m.ref_version),
        ref_path=m.ref_path,
        ref_name=m.ref_name if m.HasField("ref_name") else None,
        branch_name=m.branch_name if m.HasField("branch_name") else None,
    ),
    "update_bases": lambda m: UpdateBases(tuple(m.new_bases)),
    "data_overlay": _decode_overlay,
}

_Encoder: TypeAlias = Callable[[Any], tuple[str, Message]]

_ENCODE: Mapping[type, _Encoder] = {
    Append: lambda o: ("append", _Pb.Append(fragments=_messages(o.fragments))),
    Delete: lambda o: (
        "delete",
        _Pb.Delete(
            updated_fragments=_messages(o.updated_fragments),
            deleted_fragment_ids=o.deleted_fragment_ids,
            predicate=o.predicate,
        ),
    ),
    Overwrite: lambda o: (
        "overwrite",
        _Pb.Overwrite(
            fragments=_messages(o.fragments),
            schema=o.fields,
            schema_metadata=o.schema_metadata,
            config_upsert_values=o.config_upserts,
            initial_bases=o.initial_bases,
        ),
    ),
    CreateIndex: lambda o: (
        "create_index",
        _Pb.CreateIndex(
            new_indices=_messages(o.new_indices), removed_indices=_messages(o.removed_indices)
        ),
    ),
    Rewrite: lambda o: ("rewrite", _encode_rewrite(o)),
    Merge: lambda o: (
        "merge",
        _Pb.Merge(
            fragments=_messages(o.fragments),
            schema=o.fields,
            schema_metadata=o.schema_metadata,
            preserves_nullability=o.preserves_nullability,
        ),
    ),
    Restore: lambda o: ("restore", _Pb.Restore(version=o.version)),
    ReserveFragments: lambda o: (
        "reserve_fragments",
        _Pb.ReserveFragments(num_fragments=o.num_fragments),
    ),
    Update: lambda o: ("update", _encode_update(o)),
    Project: lambda o: (
        "project",
        _Pb.Project(schema=o.fields, preserves_nullability=o.preserves_nullability),
    ),
    UpdateConfig: lambda o: ("update_config", _encode_update_config(o)),
    DataReplacement: lambda o: (
        "data_replacement",
        _Pb.DataReplacement(
            replacements=[
                _Pb.DataReplacement.Group(
                    fragment_id=each.fragment_id, new_file=each.new_file.message
                )
                for each in o.replacements
            ]
        ),
    ),
    Clone: lambda o: (
        "clone",
        _Pb.Clone(
            is_shallow=o.is_shallow,
            ref_name=o.ref_name,
            ref_version=o.ref_version,
            ref_path=o.ref_path,
            branch_name=o.branch_name,
        ),
    ),
    UpdateBases: lambda o: ("update_bases", _Pb.UpdateBases(new_bases=o.new_bases)),
}
