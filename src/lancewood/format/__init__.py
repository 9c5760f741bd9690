"""The bytes of the format: manifests, transactions, deletion files, refs, schemas. Pure: bytes in,
values of ``model`` out, and back.

``manifest`` frames a manifest and makes the next one of the bytes of the last, ``transaction`` has
the operations. ``layout`` names every file of a table. ``moved`` and ``inherited`` are manifests
that began as another table's or another branch's.
"""
