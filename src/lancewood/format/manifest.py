"""A manifest's next state: a patch spliced into the bytes of the one before.

Fragments that the patch does not name are carried over as bytes. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.errors import FormatError
from lancewood.format.manifest_file import encode_manifest_file
from lancewood.format.schema import check_width
from lancewood.model.ids import FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest, peek_fragment_id
from lancewood.model.transaction import HeadChanges, ManifestPatch
from lancewood.proto import table_pb2

INLINE_TRANSACTION_LIMIT = 64 * 1024
"""A larger transaction is only in its own file: inline it would double the manifest."""

_FEW = 32
"""Up to this many fragments are removed from the list one by one; each costs moving the rest."""


@dataclass(frozen=True, slots=True)
class VersionStamp:
    """What every new version carries, whatever it changed."""

    version: Version
    timestamp_ns: int
    transaction_file: str
    transaction: bytes
    library: str
    library_version: str


def empty_manifest(file_version: str, *, flags: int = 0, branch: str | None = None) -> Manifest:
    """Version 0: the state that the first Overwrite of a table is applied to."""
    message = table_pb2.Manifest(reader_feature_flags=flags, writer_feature_flags=flags)
    message.data_format.file_format = "lance"
    message.data_format.version = file_version
    if branch is not None:
        message.branch = branch
    return Manifest(message, name="a new table")


def splice(source: Manifest, patch: ManifestPatch, stamp: VersionStamp) -> tuple[Manifest, bytes]:
    """The next manifest and the bytes of its file."""
    message = table_pb2.Manifest()
    message.CopyFrom(source.message)
    _change_fragments(message, source, patch)
    _change_head(message, patch.head)
    message.reader_feature_flags, message.writer_feature_flags = patch.flags
    return seal(message, _index_section(source, patch.head), stamp)


def seal(
    message: table_pb2.Manifest, index_section: bytes | None, stamp: VersionStamp
) -> tuple[Manifest, bytes]:
    """A new version that is complete except for its stamp, and the bytes of its file."""
    message.version = stamp.version
    message.timestamp.seconds, message.timestamp.nanos = divmod(stamp.timestamp_ns, 1_000_000_000)
    message.transaction_file = stamp.transaction_file
    message.writer_version.Clear()
    message.writer_version.library = stamp.library
    message.writer_version.version = stamp.library_version
    message.ClearField("tag")
    message.ClearField("version_aux_data")
    inline = stamp.transaction if len(stamp.transaction) <= INLINE_TRANSACTION_LIMIT else None
    data = encode_manifest_file(message, index_section=index_section, transaction_section=inline)
    manifest = Manifest(
        message,
        index_section=index_section,
        transaction_section=inline,
        name=f"version {stamp.version}",
        size=len(data),
    )
    return manifest, data


def restamped(source: Manifest, version: Version, timestamp_ns: int) -> tuple[Manifest, bytes]:
    """A state under another number and time, and the bytes of its file.

    Its transaction, its writer and its indices stay as they are.
    """
    message = table_pb2.Manifest()
    message.CopyFrom(source.message)
    message.version = version
    message.timestamp.seconds, message.timestamp.nanos = divmod(timestamp_ns, 1_000_000_000)
    data = encode_manifest_file(
        message,
        index_section=source.index_section,
        transaction_section=source.transaction_section,
    )
    manifest = Manifest(
        message,
        index_section=source.index_section,
        transaction_section=source.transaction_section,
        name=f"version {version}",
        size=len(data),
    )
    return manifest, data


def _change_fragments(message: table_pb2.Manifest, source: Manifest, patch: ManifestPatch) -> None:
    if not patch.keep:
        del message.fragments[:]
    elif patch.live_fields is not None:
        live = patch.live_fields
        kept = source.map_fragments(lambda each: each.without_dead_files(live))
        message.fragments[:] = list(kept)
    if patch.replace or patch.remove:
        _replace_fragments(message, source, patch)
    in_order = True
    for each in patch.add:
        if message.fragments:
            last = peek_fragment_id(message.fragments[-1], source.name)
            in_order = in_order and last < each.id
        message.fragments.append(each.message.SerializeToString())
    if not in_order:
        message.fragments.sort(key=lambda raw: peek_fragment_id(raw, source.name))


def _replace_fragments(message: table_pb2.Manifest, source: Manifest, patch: ManifestPatch) -> None:
    source.expect_lookups(len(patch.replace) + len(patch.remove))
    for fragment_id, changed in patch.replace.items():
        if fragment_id not in patch.remove:
            position = _position(source, fragment_id)
            message.fragments[position] = changed.message.SerializeToString()
    gone = {_position(source, each) for each in patch.remove}
    if len(gone) <= _FEW:
        for position in sorted(gone, reverse=True):
            del message.fragments[position]
    else:
        kept = [raw for at, raw in enumerate(message.fragments) if at not in gone]
        message.fragments[:] = kept


def _position(source: Manifest, fragment_id: FragmentId) -> int:
    position = source.position_of(fragment_id)
    if position is None:
        raise FormatError(
            f"fragment {fragment_id} is not part of version {source.version}", fragment=fragment_id
        )
    return position


def _change_head(message: table_pb2.Manifest, changes: HeadChanges) -> None:
    if changes.fields is not None:
        check_width(len(changes.fields))
        del message.fields[:]
        message.fields.extend(changes.fields)
    for name in ("schema_metadata", "config", "table_metadata"):
        value = getattr(changes, name)
        if value is not None:
            message.ClearField(name)
            getattr(message, name).update(value)
    if changes.base_paths is not None:
        del message.base_paths[:]
        message.base_paths.extend(changes.base_paths)
    if changes.file_version is not None:
        message.data_format.version = changes.file_version
    for name in ("max_fragment_id", "max_allocated_field_id", "next_row_id"):
        mark = getattr(changes, name)
        if mark is not None:
            setattr(message, name, max(mark, getattr(message, name)))


def _index_section(source: Manifest, changes: HeadChanges) -> bytes | None:
    if changes.indices is None:
        return source.index_section
    return encode_indices(changes.indices)


def encode_indices(indices: tuple[Index, ...]) -> bytes | None:
    """The bytes of an index section; None where there are no indices."""
    if not indices:
        return None
    section = table_pb2.IndexSection()
    section.indices.extend(each.message for each in indices)
    return section.SerializeToString()
