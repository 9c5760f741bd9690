"""What must be true of the tables before they are published."""
