"""The verbs of ``lw`` on a repository, one a file, in the words and the shapes of git."""
