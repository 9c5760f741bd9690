"""Manifests and transactions of a branch under another name.

The name is in every manifest, also beside its line, and in the transaction that made the branch.
Nothing else changes except base paths that led to the branch's own root. Pure.
"""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError
from lancewood.format.manifest import VersionStamp, seal
from lancewood.format.manifest_file import decode_manifest_file, encode_manifest_file
from lancewood.model.lines import LINE_KEY, line_of
from lancewood.model.manifest import FLAG_CONFIG, Manifest
from lancewood.model.refs import BranchName
from lancewood.model.table_config import RENAMED_KEY
from lancewood.proto import table_pb2, transaction_pb2


def renamed_manifest(
    data: bytes, old: BranchName, new: BranchName, own_paths: frozenset[str], root: str, name: str
) -> bytes | None:
    """The file of a version of a renamed branch, in its new root; None for the last version of the
    old root, which is left behind.

    ``own_paths`` are base paths that mean its old root. Raises FormatError naming the file.
    """
    manifest = decode_manifest_file(data, name=name)
    if RENAMED_KEY in manifest.config:
        return None
    if manifest.branch != old:
        raise FormatError(
            f"{name}: belongs to branch {manifest.branch!r}, and lies in the root of {str(old)!r}",
            file=name,
        )
    message, line = manifest.message, line_of(manifest)
    message.branch = new
    if line.uuid:
        message.config[LINE_KEY] = replace(line, branch=str(new)).encode()
    for base in message.base_paths:
        if base.path in own_paths:
            base.path = root
    inline = manifest.transaction_section
    if inline is not None:
        inline = renamed_transaction(inline, old, new, name)
    return encode_manifest_file(
        message, index_section=manifest.index_section, transaction_section=inline
    )


def closed_manifest(source: Manifest, new: BranchName, stamp: VersionStamp) -> bytes:
    """The file of the last version under the old name: the same rows, and nothing may follow."""
    message = table_pb2.Manifest()
    message.CopyFrom(source.message)
    message.config[RENAMED_KEY] = new
    message.writer_feature_flags |= FLAG_CONFIG
    return seal(message, source.index_section, stamp)[1]


def renamed_transaction(data: bytes, old: BranchName, new: BranchName, name: str) -> bytes:
    """A transaction of a renamed branch; unchanged unless it made the branch."""
    message = transaction_pb2.Transaction()
    try:
        message.ParseFromString(data)
    except DecodeError as cause:
        raise FormatError(f"{name}: the transaction cannot be decoded", file=name) from cause
    if message.WhichOneof("operation") != "clone" or message.clone.branch_name != old:
        return data
    message.clone.branch_name = new
    return message.SerializeToString()


def is_same_manifest(one: bytes, other: bytes, name: str) -> bool:
    """Whether two files say the same: maps have no order, so the bytes may differ."""
    if one == other:
        return True
    mine, theirs = (decode_manifest_file(each, name=name) for each in (one, other))
    return (
        mine.message == theirs.message
        and mine.index_section == theirs.index_section
        and mine.transaction_section == theirs.transaction_section
    )
