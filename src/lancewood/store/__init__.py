"""WHERE bytes live: a handful of verbs over keys, not one word about Lance."""
