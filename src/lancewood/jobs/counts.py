"""What a change did, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows of the table, by what became of them."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    """Matched by a merge, and left as they were."""


@dataclass(frozen=True, slots=True)
class CompactionCounts:
    """What a compaction replaced. Files are data files and deletion files."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """What was brought to another home. Files are data files; bytes of blobs count, too."""

    fragments: int = 0
    files: int = 0
    bytes: int = 0
