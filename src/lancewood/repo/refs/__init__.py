"""Names that lead to commits: branches, tags, and refs that protect."""
