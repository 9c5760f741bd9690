"""What one writer leaves in writing for the next: moves of branches, and merged work."""
