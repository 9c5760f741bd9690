"""Where bytes live: a handful of verbs over keys, without knowledge of tables.

Object stores share their options with pylance, which opens the data files there.
"""
