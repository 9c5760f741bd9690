"""What a run reports: facts, events, the page."""
