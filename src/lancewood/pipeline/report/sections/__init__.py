"""The sections of a page, in the order in which they stand there. Each takes facts, gives HTML."""
