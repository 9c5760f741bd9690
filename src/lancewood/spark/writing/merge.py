"""Merging a frame as one of the modes of ``write``.

How rows are matched is known in ``spark.merging``; here is what a merge has in common with other
writes: the table that it goes to, and the batch that it is.
"""

from __future__ import annotations

from typing import Any

from lancewood.errors import BatchAppliedError, NotFoundError
from lancewood.jobs.execute import Terms
from lancewood.rules.applied import is_applied
from lancewood.spark.merging.merge import merge_frame
from lancewood.spark.writing.target import Target
from lancewood.spark.writing.written import Written
from lancewood.table.table import Table


def merge(frame: Any, target: Target, terms: Terms, choices: dict[str, Any]) -> Written:
    """Merge a frame into a table; a batch that is there already is skipped.

    Raises NotFoundError where there is no table.
    """
    there = target.snapshot
    if there is None:
        raise NotFoundError(
            f"no table at {target.place.uri} to merge into; write the first rows with mode "
            "'append', or create an empty table",
            table=target.place.uri,
        )
    table = Table(there)
    if is_applied(there.manifest.config, terms.policy.applied):
        return _written(table, skipped=True)
    try:
        after, counts = merge_frame(frame, table, terms=terms, **choices)
    except BatchAppliedError:
        return _written(table.latest(), skipped=True)
    manifest = after.manifest
    return Written(table.uri, manifest.branch, manifest.version, counts, None, None)


def _written(table: Table, *, skipped: bool) -> Written:
    return Written(table.uri, table.branch, table.version, skipped=skipped)
