"""Adding, casting, dropping and replacing columns: one new file beside the others of a fragment."""
