"""Merging by rows: what two sides made of a table since a common base becomes one version.

``merge_branch`` is the verb, and ``row_merge`` the course of a merge. ``merged_columns`` merges the
schemas. ``touched_rows`` finds which rows both sides may have changed, without reading a value, and
``same_key_rows`` which of them are one by their primary key. ``row_tasks`` read those
(``side_rows``), let ``row_resolver`` say what becomes of each by the rules in ``resolve``
(``compiled_rules``), and write what is merged; ``conflicts`` are what nothing decides.
``row_fates`` sorts all of it by fragment, and ``merged_version`` makes the version of that.
``merge_bases`` holds what both sides come from, and ``decisions`` what people decided.
"""
