"""A manifest: the framing of its file, its digests, and the next one as a patch of its bytes. Pure.

A file is sections with length prefixes, then a footer; every offset and length is checked against
the file before it is used. A patch is spliced into the bytes of the manifest before: fragments that
it does not name are carried over as bytes.

Digests are of the identity, and of rows and schema. Both are over the message, not over the bytes
of its file, where maps have no fixed order: maps are sorted by key, fields are in the order of
their numbers, unknown ones last, and a fragment is its original bytes. So the digest of a message
in memory is that of the file it is written to. The sections beside the message, indices and the
transaction, are not part of either.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.schema import check_width
from lancewood.model.ids import FragmentId, Version
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest, decode_fragment, peek_fragment_id
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


MAGIC = b"LANC"
_FOOTER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")
SECTION_HEAD = _LENGTH.size
"""The bytes before each section that hold its length."""
_MAJOR, _MINOR = 0, 2
_U32_MAX = (1 << 32) - 1


def decode_manifest_file(data: bytes, *, name: str) -> Manifest:
    """The manifest in a file; raises FormatError naming the file.

    Decodes neither fragments nor indices nor the transaction.
    """
    if len(data) < _FOOTER.size + _LENGTH.size:
        raise FormatError(f"{name}: {len(data)} bytes are too few for a manifest", file=name)
    offset, _major, _minor, magic = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)
    if magic != MAGIC:
        raise FormatError(f"{name}: ends with {magic!r} instead of {MAGIC!r}", file=name)
    start, end = _section(data, offset, name, "manifest")
    if end != len(data) - _FOOTER.size:
        raise FormatError(f"{name}: the manifest section does not end at the footer", file=name)
    try:
        message = table_pb2.Manifest.FromString(data[start:end])
    except DecodeError as cause:
        raise FormatError(f"{name}: the manifest cannot be decoded", file=name) from cause
    _check_supported(message, name)
    manifest = Manifest(
        message,
        index_section=_slice(data, message, "index_section", name),
        transaction_section=_transaction_slice(data, message, name),
        name=name,
        size=len(data),
    )
    _raise_fragment_mark(manifest)
    return manifest


def encode_manifest_file(
    message: table_pb2.Manifest, *, index_section: bytes | None, transaction_section: bytes | None
) -> bytes:
    """The bytes of a manifest file. Sets the section offsets in ``message``."""
    parts: list[bytes] = []
    position = 0
    for field in ("index_section", "transaction_section", "transaction_section_deprecated"):
        message.ClearField(field)
    if index_section is not None:
        message.index_section = position
        position += _add(parts, index_section)
    if transaction_section is not None:
        message.transaction_section = position
        position += _add(parts, transaction_section)
    _add(parts, message.SerializeToString())
    parts.append(_FOOTER.pack(position, _MAJOR, _MINOR, MAGIC))
    return b"".join(parts)


def change_manifest_section(data: bytes, change: Callable[[bytes], bytes], *, name: str) -> bytes:
    """A manifest file after a change to the bytes of its manifest; everything before is the same.

    Raises what ``decode_manifest_file`` raises.
    """
    decode_manifest_file(data, name=name)
    offset = _FOOTER.unpack_from(data, len(data) - _FOOTER.size)[0]
    start, end = _section(data, offset, name, "manifest")
    parts = [data[:offset]]
    _add(parts, change(data[start:end]))
    return b"".join((*parts, data[end:]))


def section_length(head: bytes) -> int | None:
    """The length of the section that begins with these bytes; None if they are too few."""
    return None if len(head) <= SECTION_HEAD else int(_LENGTH.unpack_from(head)[0])


def _add(parts: list[bytes], section: bytes) -> int:
    if len(section) > _U32_MAX:
        raise UnsupportedError(
            f"a section of {len(section):,} bytes does not fit the format's 4 GiB; "
            "compact the table first"
        )
    parts += (_LENGTH.pack(len(section)), section)
    return _LENGTH.size + len(section)


def _section(data: bytes, offset: int, name: str, what: str) -> tuple[int, int]:
    body = len(data) - _FOOTER.size
    if not 0 <= offset <= body - _LENGTH.size:
        raise FormatError(f"{name}: the {what} is said to start at {offset}", file=name)
    (length,) = _LENGTH.unpack_from(data, offset)
    start = offset + _LENGTH.size
    if start + length > body:
        raise FormatError(f"{name}: the {what} is said to be {length} bytes long", file=name)
    return start, start + length


def _slice(data: bytes, message: table_pb2.Manifest, field: str, name: str) -> bytes | None:
    if not message.HasField(field):
        return None
    start, end = _section(data, getattr(message, field), name, field.replace("_", " "))
    return data[start:end]


def _transaction_slice(data: bytes, message: table_pb2.Manifest, name: str) -> bytes | None:
    inline = _slice(data, message, "transaction_section", name)
    if inline is None:
        inline = _slice(data, message, "transaction_section_deprecated", name)
    return inline


def _raise_fragment_mark(manifest: Manifest) -> None:
    """Fill in a mark of fragment ids that is missing or too low: ids must never be reused."""
    message, name = manifest.message, manifest.name
    if not message.fragments:
        return
    highest = decode_fragment(message.fragments[-1], name).id
    if not message.HasField("max_fragment_id"):
        highest = max(each.id for each in manifest.fragments)
    elif highest <= message.max_fragment_id:
        return
    if highest > _U32_MAX:
        raise FormatError(f"{name}: fragment id {highest} is out of range", file=name)
    message.max_fragment_id = highest


def _check_supported(message: table_pb2.Manifest, name: str) -> None:
    if message.HasField("fragment_tree"):
        raise UnsupportedError(
            f"{name}: keeps its fragments in a tree (manifest field 22), which is experimental "
            "and not supported; write the table without it",
            file=name,
        )
    if message.blob_dataset_version:
        raise UnsupportedError(
            f"{name}: has a blob dataset (blob_dataset_version {message.blob_dataset_version}), "
            "which is not supported; rewrite its blob columns first",
            file=name,
        )


_LEFT_OUT = (
    "base_paths",
    "index_section",
    "transaction_section",
    "transaction_section_deprecated",
)
"""What changes when a table is relocated: paths, and where sections begin in the file."""


def manifest_digest(message: table_pb2.Manifest) -> str:
    """The identity of a manifest: SHA-256, in hex, of all but base paths and section offsets.

    The same before and after the table was relocated, different after any other change.
    """
    whole = table_pb2.Manifest()
    whole.CopyFrom(message)
    for name in _LEFT_OUT:
        whole.ClearField(name)
    return _digest(whole)


def content_digest(message: table_pb2.Manifest) -> str:
    """The rows and the schema: SHA-256, in hex, of fields, their metadata and fragments.

    The same for two versions that differ only in number, time or configuration, and for a version
    and its restoration; different where rows were only moved to other files.
    """
    content = table_pb2.Manifest()
    content.fields.MergeFrom(message.fields)
    content.fragments.MergeFrom(message.fragments)
    content.schema_metadata.MergeFrom(message.schema_metadata)
    return _digest(content)


def _digest(message: table_pb2.Manifest) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()
