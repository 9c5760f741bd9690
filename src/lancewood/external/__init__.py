"""Committing where a store cannot put if absent: a manifest store, a lock, or a rename."""
