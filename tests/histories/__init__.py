"""Random histories of a table, made by Lancewood and by pylance in turns, against plain dicts.

A part of them runs with the other tests; ``python -m tests.histories`` goes on for longer.
"""
