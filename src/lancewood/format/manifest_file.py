"""The framing of a manifest file: sections with length prefixes, then a footer.

Pure. Every offset and length is checked against the file before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError, UnsupportedError
from lancewood.model.manifest import Manifest, decode_fragment
from lancewood.proto import table_pb2

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
