"""The conflict matrix, executed: one table, what others do to it, what we do to it."""
