"""Making, moving and removing names: tags, branches, and the roots that branches live in."""
