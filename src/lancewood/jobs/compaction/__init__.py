"""The same rows in fewer fragments."""
