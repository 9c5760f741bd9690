"""Rows that were written into new files, and become visible: with new columns, or in the place of
rows that meet a condition.

Both name what is in the version before, so they are prepared again, on the newest version, where
another commit came first. The rows are written once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lancewood.engine.location import discard, new_data_files
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import FileWriter, PlannedWrite
from lancewood.errors import CommitUnknownError, LancewoodError
from lancewood.jobs.counts import RowCounts
from lancewood.jobs.job import Change, CommitOptions, execute
from lancewood.jobs.rows.delete import DeleteRows
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.transaction import Append, Delete, Update


@dataclass(frozen=True)
class WrittenRows:
    """Rows of a planned write, in files that nothing names yet."""

    plan: PlannedWrite
    files: FileWriter
    fragments: tuple[Fragment, ...]
    runner: Runner = field(repr=False)
    """Who looks for the rows that are replaced."""

    def prepare(self, snapshot: Snapshot) -> Change[RowCounts]:
        """The operation that makes the rows visible after a version."""
        new = RowCounts(
            inserted=sum(each.physical_rows for each in self.fragments),
            fragments=len(self.fragments),
        )
        where = self.plan.request.replace_where
        if where is None or self.plan.kind != "replace":
            return Change(self.plan.operation(self.files, self.fragments, snapshot), new)
        gone = DeleteRows(where, None, self.runner).prepare(snapshot)
        assert gone.operation is None or isinstance(gone.operation, Delete)
        counts = RowCounts(
            inserted=new.inserted,
            deleted=gone.result.deleted,
            fragments=new.fragments + gone.result.fragments,
        )
        return Change(_replacing(snapshot, gone.operation, self.fragments), counts, gone.files)

    def commit(
        self, snapshot: Snapshot, commit_options: CommitOptions
    ) -> tuple[Snapshot, RowCounts]:
        """The version after it. The files of a commit that is proven to have failed are removed."""
        try:
            return execute(snapshot, self.prepare, commit_options)
        except CommitUnknownError:
            raise
        except LancewoodError:
            discard(snapshot.location, self.plan.roots, new_data_files(self.fragments))
            raise


def _replacing(
    snapshot: Snapshot, gone: Delete | None, new: tuple[Fragment, ...]
) -> Append | Delete | Update | None:
    """Rows that go and rows that come, as one operation; None if there are neither."""
    if gone is None:
        return Append(new) if new else None
    if not new:
        return gone
    return Update(
        removed_fragment_ids=gone.deleted_fragment_ids,
        updated_fragments=gone.updated_fragments,
        new_fragments=new,
        # No index covers the new rows, whatever columns it is on.
        fields_for_preserving_frag_bitmap=tuple(each.id for each in snapshot.schema.walk()),
    )
