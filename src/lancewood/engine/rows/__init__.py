"""Reading rows: scans, single rows, blobs, and the ids and versions of rows."""

from __future__ import annotations

from lancewood.engine.rows.facts import (
    Portions,
    RowFacts,
    column_widths,
    load_row_ids,
    load_row_versions,
    open_fragment,
    small_fragments,
    spread,
)
from lancewood.engine.rows.fragment_scan import FragmentScan, chosen
from lancewood.engine.rows.group_scan import FragmentGroup, GroupScan, grouped, scan_each
from lancewood.engine.rows.index_mask import IndexMask, load_index_mask
from lancewood.engine.rows.live_rows import (
    NO_STRETCHES,
    Ids,
    Ints,
    LiveRows,
    Stretches,
    cut_at,
    distinct,
    find_stretches,
    stretches_of,
)
from lancewood.engine.rows.narrowing import Narrowed, narrow_by_values
from lancewood.engine.rows.picking import pick_rows
from lancewood.engine.rows.prune import Pruner
from lancewood.engine.rows.row_shape import RowShape, batch_of, nameless
from lancewood.engine.rows.scan import ScanPlan, ScanRequest, plan_scan
from lancewood.engine.rows.take import (
    Numbers,
    blob_reader,
    external_blobs,
    find_data_file,
    take_addresses,
    take_blobs,
    take_positions,
    take_row_ids,
)

__all__ = [
    "NO_STRETCHES",
    "FragmentGroup",
    "FragmentScan",
    "GroupScan",
    "Ids",
    "IndexMask",
    "Ints",
    "LiveRows",
    "Narrowed",
    "Numbers",
    "Portions",
    "Pruner",
    "RowFacts",
    "RowShape",
    "ScanPlan",
    "ScanRequest",
    "Stretches",
    "batch_of",
    "blob_reader",
    "chosen",
    "column_widths",
    "cut_at",
    "distinct",
    "external_blobs",
    "find_data_file",
    "find_stretches",
    "grouped",
    "load_index_mask",
    "load_row_ids",
    "load_row_versions",
    "nameless",
    "narrow_by_values",
    "open_fragment",
    "pick_rows",
    "plan_scan",
    "scan_each",
    "small_fragments",
    "spread",
    "stretches_of",
    "take_addresses",
    "take_blobs",
    "take_positions",
    "take_row_ids",
]
