"""WHERE bytes live: a handful of verbs over keys, and nothing of tables.

Object stores share their options with pylance, which opens the data files there.
"""
