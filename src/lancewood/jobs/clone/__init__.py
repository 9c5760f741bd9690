"""Another table made of one version of a table, and clones made independent of their sources."""
