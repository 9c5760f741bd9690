"""First manifests of clones and branches, and manifests of what was moved or renamed. Pure.

A branch or a shallow clone has the source's manifest with a base path for its root; files that lie
elsewhere already stay where they are. In a deep clone every file is in the clone's own root, and
base paths are left out, unless something other than the table's files may refer to them: a blob
that was left where it was.

A manifest with other base paths changes in no other byte: a message that is decoded and encoded
again may have another order, and what a newer writer put there stays. The name of a branch is in
every manifest, also beside its line, and in the transaction that made the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from google.protobuf.message import DecodeError

from lancewood.errors import FormatError
from lancewood.format.container import encode_varint
from lancewood.format.inherited import inherited_fragments
from lancewood.format.manifest import (
    VersionStamp,
    change_manifest_section,
    decode_manifest_file,
    encode_indices,
    encode_manifest_file,
    seal,
)
from lancewood.model.ids import BaseId
from lancewood.model.lines import LINE_KEY, line_of
from lancewood.model.manifest import FLAG_BASE_PATHS, FLAG_CONFIG, FLAG_EXCLUSIVE, Manifest
from lancewood.model.refs import BranchName
from lancewood.model.table_config import EXCLUSIVE_KEY, PUBLISHED_KEY, RENAMED_KEY
from lancewood.proto import table_pb2, transaction_pb2


@dataclass(frozen=True, slots=True)
class CloneHead:
    """What the head of a clone says beyond what its source says."""

    path: str
    """The root of the source, absolute."""
    name: str | None = None
    """The name of its base path: the branch or tag that was cloned; left out if another base path
    has that name."""
    branch: str | None = None
    """The name of the clone as a branch; None for a separate table."""
    config: Mapping[str, str] | None = None
    """The configuration of the clone; None for that of the source."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """New spellings of the source's base paths, by the source's spelling."""
    next_row_id: int | None = None
    """The first row id that it hands out; None for that of the source."""


def clone_manifest(
    source: Manifest, head: CloneHead, stamp: VersionStamp
) -> tuple[Manifest, bytes]:
    """The first version of a clone, and the bytes of its file."""
    message = table_pb2.Manifest()
    message.CopyFrom(source.bare().message)
    for each in message.base_paths:
        each.path = head.paths.get(each.path, each.path)
    base_id = _declare(message, head.path, head.name)
    message.MergeFromString(inherited_fragments(source, base_id))
    message.ClearField("branch")
    if head.branch is not None:
        message.branch = head.branch
    if head.next_row_id is not None:
        message.next_row_id = head.next_row_id
    message.reader_feature_flags |= FLAG_BASE_PATHS
    message.writer_feature_flags |= FLAG_BASE_PATHS
    if head.config is not None or PUBLISHED_KEY in message.config:
        set_config(message, dict(message.config) if head.config is None else head.config)
    return seal(message, _index_section(source, base_id), stamp)


def set_config(message: table_pb2.Manifest, config: Mapping[str, str]) -> None:
    """Give a manifest another configuration, and the flags that go with it. The mark that its
    source was published is removed."""
    message.ClearField("config")
    message.config.update({key: value for key, value in config.items() if key != PUBLISHED_KEY})
    message.writer_feature_flags &= ~(FLAG_CONFIG | FLAG_EXCLUSIVE)
    if message.config:
        message.writer_feature_flags |= FLAG_CONFIG
    if EXCLUSIVE_KEY in message.config:
        message.writer_feature_flags |= FLAG_EXCLUSIVE


def _declare(message: table_pb2.Manifest, path: str, name: str | None) -> BaseId:
    """The id of the base path of the source's root, declared if necessary."""
    for each in message.base_paths:
        if each.path == path and each.is_dataset_root:
            return BaseId(each.id)
    taken = [each.id for each in message.base_paths]
    if name in {each.name for each in message.base_paths}:
        name = None
    base = message.base_paths.add(
        id=max(taken) + 1 if taken else 0, is_dataset_root=True, path=path, name=name
    )
    return BaseId(base.id)


def _index_section(source: Manifest, base_id: BaseId) -> bytes | None:
    """The indices, with this base path for those that have none."""
    return encode_indices(
        tuple(each.under(base_id) if each.base_id is None else each for each in source.indices)
    )


def deep_clone_manifest(
    source: Manifest,
    renamed: Mapping[str, str],
    config: Mapping[str, str],
    stamp: VersionStamp,
    *,
    keeps_bases: bool,
) -> tuple[Manifest, bytes]:
    """The first version of a deep clone, and the bytes of its file.

    ``renamed`` are new names of data files, by ``copied_name``.
    """
    message = table_pb2.Manifest()
    message.CopyFrom(source.bare().message)
    if source.base_paths:
        message.fragments.extend(_in_own_root(source, renamed))
    else:
        message.fragments.extend(source.message.fragments)
    message.ClearField("branch")
    if not keeps_bases:
        message.ClearField("base_paths")
        message.reader_feature_flags &= ~FLAG_BASE_PATHS
        message.writer_feature_flags &= ~FLAG_BASE_PATHS
    set_config(message, config)
    indices = encode_indices(tuple(each.under(None) for each in source.indices))
    return seal(message, indices, stamp)


def copied_name(file: table_pb2.DataFile) -> str:
    """What distinguishes a data file from one of the same name in another root."""
    return f"{file.base_id if file.HasField('base_id') else ''}:{file.path}"


def _in_own_root(source: Manifest, renamed: Mapping[str, str]) -> Iterator[bytes]:
    for fragment in source.fragments:
        message = table_pb2.DataFragment()
        message.CopyFrom(fragment.message)
        for file in (*message.files, *(each.data_file for each in message.overlays)):
            if renamed:
                file.path = renamed.get(copied_name(file), file.path)
            file.ClearField("base_id")
        if message.HasField("deletion_file"):
            message.deletion_file.ClearField("base_id")
        yield message.SerializeToString()


_LENGTH_PREFIXED = 2
_BASE_PATHS = table_pb2.Manifest.BASE_PATHS_FIELD_NUMBER << 3 | _LENGTH_PREFIXED
_PATH = table_pb2.BasePath.PATH_FIELD_NUMBER << 3 | _LENGTH_PREFIXED
_FRAGMENT = table_pb2.Manifest.FRAGMENTS_FIELD_NUMBER << 3 | _LENGTH_PREFIXED
_FIXED = {1: 8, 5: 4}


def relocated_manifest(data: bytes, moved: Mapping[str, str], *, name: str) -> bytes:
    """The file with new paths for the base paths that ``moved`` lists; unchanged if it has none.

    Raises FormatError, naming the file, for one whose bytes cannot be parsed.
    """

    def change(section: bytes) -> bytes:
        new = _replaced(section, _BASE_PATHS, lambda base: _with_path(base, moved, name), name)
        _check(section, new, moved, name)
        return new

    return change_manifest_section(data, change, name=name)


def _with_path(base: bytes, moved: Mapping[str, str], name: str) -> bytes:
    def change(path: bytes) -> bytes:
        new = moved.get(path.decode(errors="replace"))
        return path if new is None else new.encode()

    return _replaced(base, _PATH, change, name)


def _replaced(message: bytes, tag: int, change: Callable[[bytes], bytes], name: str) -> bytes:
    """A message with the content of every field that has this tag replaced."""
    parts: list[bytes] = []
    done = 0
    for at, start, end in _fields(message, tag, name):
        old = message[start:end]
        new = change(old)
        if new != old:
            parts += (message[done:at], encode_varint(tag), encode_varint(len(new)), new)
            done = end
    return b"".join((*parts, message[done:]))


class _Field(NamedTuple):
    at: int
    """Where the tag begins."""
    start: int
    """Where the content begins."""
    end: int


def _fields(message: bytes, tag: int, name: str) -> Iterator[_Field]:
    """The fields that have this tag."""
    at, size = 0, len(message)
    while at < size:
        if message[at] == _FRAGMENT and at + 2 < size and message[at + 2] < 0x80 <= message[at + 1]:
            at += 3 + (
                message[at + 1] & 0x7F | message[at + 2] << 7
            )  # the common case, a hundred thousand times
            continue
        found, start = _number(message, at, name)
        kind = found & 7
        if kind == _LENGTH_PREFIXED:
            length, start = _number(message, start, name)
            end = start + length
        elif kind == 0:
            _, end = _number(message, start, name)
        elif kind in _FIXED:
            end = start + _FIXED[kind]
        else:
            raise FormatError(f"{name}: the manifest has a field of kind {kind}", file=name)
        if end <= size and found == tag:
            yield _Field(at, start, end)
        at = end
    if at > size:
        raise FormatError(f"{name}: a field of the manifest has no end", file=name)


def _number(message: bytes, at: int, name: str) -> tuple[int, int]:
    value = shift = 0
    for position in range(at, min(at + 10, len(message))):
        byte = message[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise FormatError(f"{name}: a number in the manifest has no end", file=name)


def _check(old: bytes, new: bytes, moved: Mapping[str, str], name: str) -> None:
    """Check that the new bytes say the same as the old ones, except for the paths."""
    expected = table_pb2.Manifest.FromString(old)
    for base in expected.base_paths:
        base.path = moved.get(base.path, base.path)
    if table_pb2.Manifest.FromString(new) != expected:
        raise FormatError(f"{name}: its base paths are written in an unknown way", file=name)


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
