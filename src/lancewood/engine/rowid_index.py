"""From stable row ids to positions in the table: ranges stay ranges.

Built when it is first needed and kept with the snapshot. Live ids are unique, so the sequences of
all fragments, one after the other and without their deleted rows, are the index.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lancewood.engine.rows import RowFacts
from lancewood.engine.snapshot import Snapshot
from lancewood.model.rowids import RowIdSequence


def positions_of(snapshot: Snapshot, row_ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """The position of each row in the table, as a scan counts them; -1 for an id that is gone."""
    index = snapshot.derived.get("row ids")
    if index is None:
        index = snapshot.derived["row ids"] = _live_ids(snapshot)
    positions: npt.NDArray[np.int64] = index.find(row_ids)
    return positions


def _live_ids(snapshot: Snapshot) -> RowIdSequence:
    parts = []
    for fragment in snapshot.manifest.fragments:
        facts = RowFacts(snapshot, fragment)
        ids = facts.row_ids
        if ids is not None:
            parts.append(ids.without(facts.deleted) if fragment.deletion_file else ids)
    return RowIdSequence.concat(parts)
