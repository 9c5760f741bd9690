"""Digests of a manifest: of its identity, and of its rows and schema.

Both are over the message, not over the bytes of its file, where maps have no fixed order: maps are
sorted by key, fields are in the order of their numbers, unknown ones last, and a fragment is its
original bytes. So the digest of a message in memory is that of the file it is written to. The
sections beside the message, indices and the transaction, are not part of either.
"""

from __future__ import annotations

import hashlib

from lancewood.proto import table_pb2

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
