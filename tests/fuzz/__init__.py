"""Hostile bytes: real files, bent in many ways, must give a typed error or a right answer.

``python -m tests.fuzz --minutes 5 --seed 1`` runs for long, ``test_slice.py`` a small part of it.
The same seed makes the same changes; what they are made to is written anew each time, so uuids and
times differ, and a failure is replayed from the bytes that were kept.

Data files are read by pylance's codec, which ends the process on some damage that only it can see.
Those cases are counted as codec crashes and are no failures: what is checked before the codec gets
to see a file (its size, its footer's place in the table, its schema, its rows) is.
"""
