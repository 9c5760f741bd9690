"""Where a table is written on a branch of the repository, and who may write there."""
