"""Verbs on a table: compact fragments, and what an index may answer for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from lancewood.engine.index_mask import IndexMask, load_index_mask
from lancewood.engine.limits import FileLimits
from lancewood.jobs.compaction.compact import Compaction
from lancewood.jobs.compaction.plan import CompactionGoal
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads, terms


class CompactVerbs(Handle):
    """Verbs on a table: compact fragments, and what an index may answer for."""

    def compact(
        self,
        *,
        target_rows: int = FileLimits().max_rows,
        max_deleted: float = 0.1,
        max_bytes_per_file: int = FileLimits().max_bytes,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
        serializable: bool = False,
    ) -> Self:
        """Write small fragments together, and fragments with many deleted rows without them.

        Neighbours of fewer than ``target_rows`` are joined up to that number; a fragment is
        rewritten by itself if more than ``max_deleted`` of its rows are deleted. On a table with
        stable row ids rows keep their ids and versions. They keep their order too, except that
        what is rewritten comes after what is not. Fragments that different indices cover are not
        joined; an index that names rows by stable id goes on to cover them, any other one leaves
        them to be scanned until it is built anew. Fragments of which a writer did not record the
        rows stay as they are.

        Other writers go on meanwhile: what they changed is left for the next compaction. If
        nothing would be gained there is no new version. ``counts`` tells fragments and files.
        Raises UnsupportedError, before anything is read, for blobs of the second layout and after
        pylance's compaction with deferred remapping.
        """
        goal = CompactionGoal.checked(target_rows, max_deleted, max_bytes_per_file)
        wishes = terms(message, properties, serializable=serializable)
        job = Compaction(goal, runner_or_threads(runner), wishes)
        return self._after(*job.run(self._snapshot))

    def index_mask(self, name: str) -> IndexMask:
        """The rows that an index may answer for at this version, and the fragments that must be
        scanned beside it.

        Raises NotFoundError for a name that no index has.
        """
        return load_index_mask(self._snapshot, name)
