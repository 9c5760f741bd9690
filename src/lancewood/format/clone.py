"""The first manifest of a branch or a shallow clone: the source's, with a base path for its root.

Files that lie elsewhere already stay where they are. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.format.inherited import inherited_fragments
from lancewood.format.manifest import VersionStamp, encode_indices, seal
from lancewood.model.ids import BaseId
from lancewood.model.manifest import FLAG_BASE_PATHS, FLAG_CONFIG, FLAG_EXCLUSIVE, Manifest
from lancewood.model.table_config import EXCLUSIVE_KEY, PUBLISHED_KEY
from lancewood.proto import table_pb2


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
