"""The first manifest of a branch or a clone: the source's, with every file of its root referred to
by a base path.

What lies elsewhere already stays where it is. Knows no files and no clock.
"""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.format.manifest import Stamp, encode_indices, seal
from lancewood.model.ids import BaseId
from lancewood.model.index import Index
from lancewood.model.manifest import FLAG_BASE_PATHS, Manifest
from lancewood.proto import table_pb2


def clone_manifest(
    source: Manifest, path: str, name: str | None, branch: str | None, stamp: Stamp
) -> tuple[Manifest, bytes]:
    """The first version of a clone, and the bytes of its file.

    ``path`` is the root of the source, absolute. ``name`` is what its base path is called: the
    branch or tag that was cloned; it is left out where another base path is called so. ``branch``
    is what the clone is called as a branch; None for one that stands by itself.
    """
    message = table_pb2.Manifest()
    message.CopyFrom(source.bare().message)
    base_id = _declare(message, path, name)
    message.fragments.extend(_referring(source, base_id))
    message.ClearField("branch")
    if branch is not None:
        message.branch = branch
    message.reader_feature_flags |= FLAG_BASE_PATHS
    message.writer_feature_flags |= FLAG_BASE_PATHS
    return seal(message, _index_section(source, base_id), stamp)


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


def _referring(source: Manifest, base_id: BaseId) -> Iterator[bytes]:
    """The fragments, whose files without a base path get this one."""
    decoded = table_pb2.FragmentList()
    decoded.ParseFromString(source.message.SerializeToString())
    for fragment in decoded.fragments:
        for file in fragment.files:
            if not file.HasField("base_id"):
                file.base_id = base_id
        if fragment.HasField("deletion_file") and not fragment.deletion_file.HasField("base_id"):
            fragment.deletion_file.base_id = base_id
        yield fragment.SerializeToString()


def _index_section(source: Manifest, base_id: BaseId) -> bytes | None:
    """The indices, of which those without a base path get this one."""
    indices = []
    for each in source.indices:
        message = table_pb2.IndexMetadata()
        message.CopyFrom(each.message)
        if not message.HasField("base_id"):
            message.base_id = base_id
        indices.append(Index(message))
    return encode_indices(tuple(indices))
