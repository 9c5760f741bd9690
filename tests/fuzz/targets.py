"""Every fuzz target by its name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fuzz import (
    on_arguments,
    on_containers,
    on_indices,
    on_metadata,
    on_rows,
    on_schema,
    on_tables,
    on_text,
    planted,
)
from tests.fuzz.target import Context, Target

SHARES = {
    "manifest": 0.5,
    "manifest-sections": 1,
    "transaction": 2,
    "schema": 2,
    "deletion-arrow": 1,
    "deletion-bitmap": 2,
    "row-ids": 3,
    "row-versions": 2,
    "container": 2,
    "git-delta": 1,
    "jsonb": 3,
    "refs": 3,
    "names": 2,
    "lines": 1,
    "sql": 2,
    "table": 0.2,
    "table-bombs": 0.1,
    "data-file": 0.2,
    "index-file": 0.5,
    "bitmap-tree": 2,
    "arguments": 0.5,
}
"""What a campaign runs, and how many cases each gets relative to the others: slow ones fewer.

Planted bugs are run by name only."""


def all_targets(context: Context) -> Mapping[str, Target]:
    """The targets, working on this corpus and in this directory."""
    found = {}
    rooms = (on_metadata, on_schema, on_rows, on_containers, on_text, on_tables, on_arguments)
    for room in (*rooms, on_indices, planted):
        found.update({each.name: each for each in room.targets(context)})
    return found
