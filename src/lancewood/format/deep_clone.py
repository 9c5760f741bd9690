"""The first manifest of a deep clone: the source's, with every file in the clone's own root.

Base paths are left out, unless something other than the table's files may refer to them: a blob
that was left where it was. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lancewood.format.clone import set_config
from lancewood.format.manifest import VersionStamp, encode_indices, seal
from lancewood.model.manifest import FLAG_BASE_PATHS, Manifest
from lancewood.proto import table_pb2


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
