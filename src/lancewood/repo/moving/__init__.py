"""Moving a branch, or HEAD, to a commit that is there already."""
