"""Bringing what commits did to a branch: ``merge``, and ``revert_pick``, by ``plan`` and the states
of tables in ``next_state``."""
