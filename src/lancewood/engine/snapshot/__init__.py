"""One version of a table, and every way to ask for one: by branch, number, tag, time or uri."""

from __future__ import annotations

from lancewood.engine.snapshot.access import Access, Address
from lancewood.engine.snapshot.descent import (
    Descent,
    Family,
    common_version,
    find_family,
    is_there,
    landed,
    manifest_names,
)
from lancewood.engine.snapshot.lines import (
    first_holding,
    has_settled_ids,
    merge_bases,
    remaining_bases,
    vector_of,
)
from lancewood.engine.snapshot.revisions import (
    NUMBERED,
    TAG,
    At,
    branch_location,
    check_contradictions,
    has_revision,
    history_location,
    is_table,
    main_location,
    open_revision,
    resolve,
    same_branch,
)
from lancewood.engine.snapshot.sameness import same_content, same_indices
from lancewood.engine.snapshot.snapshot import (
    Snapshot,
    TableStats,
    dataset_address,
    load_snapshot,
    read_version,
    table_stats,
)

__all__ = [
    "NUMBERED",
    "TAG",
    "Access",
    "Address",
    "At",
    "Descent",
    "Family",
    "Snapshot",
    "TableStats",
    "branch_location",
    "check_contradictions",
    "common_version",
    "dataset_address",
    "find_family",
    "first_holding",
    "has_revision",
    "has_settled_ids",
    "history_location",
    "is_table",
    "is_there",
    "landed",
    "load_snapshot",
    "main_location",
    "manifest_names",
    "merge_bases",
    "open_revision",
    "read_version",
    "remaining_bases",
    "resolve",
    "same_branch",
    "same_content",
    "same_indices",
    "table_stats",
    "vector_of",
]
