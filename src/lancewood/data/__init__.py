"""The only room that opens data files, and the only one that imports ``lance``.

Rows of a fragment: ``reader`` asks ``plan`` where columns are, ``open_files`` for a ``codec``, and
``arrays`` assembles them. Blobs take a longer path: ``reader`` has their pages copied by
``transplant`` (which reads the file's own tables) to learn where the bytes
are; ``engine.rows`` turns that into a ``blob_file``, which reads them.
"""
