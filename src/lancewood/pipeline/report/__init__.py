"""What a run tells: facts, events, the page."""
