"""The first manifest of a branch or a shallow clone: the source's, with every file of its root
referred to by a base path.

What lies elsewhere already stays where it is. Knows no files and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.format.inherited import inherited_fragments
from lancewood.format.manifest import VersionStamp, encode_indices, seal
from lancewood.model.closing import PUBLISHED_KEY
from lancewood.model.exclusive import EXCLUSIVE_KEY
from lancewood.model.ids import BaseId
from lancewood.model.manifest import FLAG_BASE_PATHS, FLAG_CONFIG, FLAG_EXCLUSIVE, Manifest
from lancewood.proto import table_pb2


@dataclass(frozen=True, slots=True)
class CloneHead:
    """What the head of a clone says besides what its source's says."""

    path: str
    """The root of the source, absolute."""
    name: str | None = None
    """What its base path is called: the branch or tag that was cloned; it is left out where
    another base path is called so."""
    branch: str | None = None
    """What the clone is called as a branch; None for one that stands by itself."""
    config: Mapping[str, str] | None = None
    """Its configuration; None: that of the source."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """The source's base paths that are spelled in another way, by how the source spells them."""


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
    message.reader_feature_flags |= FLAG_BASE_PATHS
    message.writer_feature_flags |= FLAG_BASE_PATHS
    if head.config is not None or PUBLISHED_KEY in message.config:
        set_config(message, dict(message.config) if head.config is None else head.config)
    return seal(message, _index_section(source, base_id), stamp)


def set_config(message: table_pb2.Manifest, config: Mapping[str, str]) -> None:
    """Give a manifest another configuration, and the flags that go with it. That its source was
    published is not said of a clone."""
    message.ClearField("config")
    message.config.update({key: value for key, value in config.items() if key != PUBLISHED_KEY})
    message.writer_feature_flags &= ~(FLAG_CONFIG | FLAG_EXCLUSIVE)
    if message.config:
        message.writer_feature_flags |= FLAG_CONFIG
    if EXCLUSIVE_KEY in message.config:
        message.writer_feature_flags |= FLAG_EXCLUSIVE


def _declare(message: table_pb2.Manifest, path: str, name: str | None) -> BaseId:
    """The id of the base path that stands for the source's root; declared if it is not yet."""
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
    """The indices, of which those without a base path get this one."""
    return encode_indices(
        tuple(each.under(base_id) if each.base_id is None else each for each in source.indices)
    )
