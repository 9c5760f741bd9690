"""The bytes of the format: manifests, transactions, deletion files, refs, schemas. Pure: bytes in,
values of ``model`` out, and back.

``manifest_file`` frames a manifest, ``manifest`` makes the next one of the bytes of the last, and
``transaction`` has the operations. ``layout`` names every file of a table. ``clone``,
``deep_clone``, ``inherited``, ``relocated`` and ``renamed`` are manifests that began as another
table's or another branch's.
"""
