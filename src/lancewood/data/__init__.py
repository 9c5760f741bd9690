"""The only room that opens data files, and the only one that imports ``lance``.

Rows of a fragment: ``reader`` asks ``plan`` where columns lie, ``open_files`` for a ``codec``, and
``arrays`` puts them together. A blob takes a longer way: ``reader`` has its pages moved by
``descriptors`` and ``transplant`` (which read the file's own tables through ``container``) to learn
where the bytes lie; ``engine.rows`` turns that into a ``blob_file``, which reads them.
"""
