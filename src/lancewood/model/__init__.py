"""The words of the format as values: schema, fragment, manifest, operation, transaction, ref.

They know their own consistency and nothing of bytes, files or other versions. ``manifest`` and
``fragment`` are views over protobuf messages; the rest is plain. ``refs`` says what a branch and
a tag may be called, and reads a text such as ``exp:12``.
"""
