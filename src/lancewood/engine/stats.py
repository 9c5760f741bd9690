"""Figures about one version, from its manifest alone."""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.engine.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class TableStats:
    """``rows`` and ``bytes`` are None where a writer did not record them."""

    rows: int | None
    deleted_rows: int
    fragments: int
    data_files: int
    deletion_files: int
    bytes: int | None
    indices: int


def table_stats(snapshot: Snapshot) -> TableStats:
    """The figures of a snapshot. Opens no data file."""
    manifest = snapshot.manifest
    sizes = [file.size for fragment in manifest.fragments for file in fragment.files]
    return TableStats(
        rows=manifest.row_count,
        deleted_rows=sum(each.num_deleted_rows for each in manifest.fragments),
        fragments=manifest.fragment_count,
        data_files=len(sizes),
        deletion_files=sum(each.deletion_file is not None for each in manifest.fragments),
        bytes=None if None in sizes else sum(each or 0 for each in sizes),
        indices=len(manifest.indices),
    )
