"""Digests of a manifest: which one it is, and what its rows and its schema are.

Both are over the message, not over the bytes of its file: maps have no fixed order there. They are
taken from the message with its maps sorted by key, every field in the order of its number and what
is unknown last; a fragment is the bytes that it came in. So the digest of a message in memory is
that of the file it is written to. Knows no files; the sections beside the message, indices and the
transaction, are not part of either.
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
    """Which manifest it is: SHA-256, in hex, of all but base paths and section offsets.

    The same before and after the table was relocated, another for every other change.
    """
    whole = table_pb2.Manifest()
    whole.CopyFrom(message)
    for name in _LEFT_OUT:
        whole.ClearField(name)
    return _digest(whole)


def content_digest(message: table_pb2.Manifest) -> str:
    """What the rows and the schema are: SHA-256, in hex, of fields, their metadata and fragments.

    The same for two versions that differ in number, time or configuration only, and for a version
    and its restoration; another one where rows were only moved to other files.
    """
    content = table_pb2.Manifest()
    content.fields.MergeFrom(message.fields)
    content.fragments.MergeFrom(message.fragments)
    content.schema_metadata.MergeFrom(message.schema_metadata)
    return _digest(content)


def _digest(message: table_pb2.Manifest) -> str:
    return hashlib.sha256(message.SerializeToString(deterministic=True)).hexdigest()
