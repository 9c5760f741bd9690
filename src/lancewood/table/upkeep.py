"""Verbs on a table: clean up, verify and repair."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.cleanup import CleanupReport, clean_up
from lancewood.jobs.upkeep.proposals import RepairReport
from lancewood.jobs.upkeep.repair import repair
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.jobs.upkeep.verify import VerifyReport, verify
from lancewood.table.handle import Handle, runner_or_threads


class UpkeepVerbs(Handle):
    """Verbs on a table: clean up, verify and repair."""

    def cleanup(
        self,
        *,
        older_than: timedelta | None = None,
        keep_versions: int | None = None,
        protect: Iterable[int] = (),
        dry_run: bool = False,
        in_flight: timedelta = IN_FLIGHT,
        runner: Runner | None = None,
    ) -> CleanupReport:
        """Remove old versions and what only they need; ``dry_run`` says what would go.

        A version goes if it is older than ``older_than`` and not among the ``keep_versions``
        newest; of the two, one that is not given does not count. The newest version, that of this
        handle, those in ``protect``, those that a tag names or a branch begins at, and detached
        ones always stay. With neither given no version goes, only what failed writers left.

        Files that only removed versions name go with them. Files that no version names go when
        they are older than ``in_flight``: the writer they belong to may still be at work. So may
        one who is about to commit: versions of the last ten minutes stay, unless ``in_flight`` is
        less. Nobody may write while ``in_flight`` is zero, least of all with pylance. How old a
        file is goes by the clock of the store; a dry run, which writes nothing, goes by ours. On a
        branch its own versions and files are cleaned up, on main those of main, and what another
        branch needs stays. Clones elsewhere are seen only if they left a tag.

        On a table of a repository, what commits have waiting lands first, and every version stays
        that a commit pins, as long as a ref or a reflog leads to the commit.

        Raises FormatError or UnsupportedError for a ref or version that cannot be read, and
        NotFoundError for a repository of the table that cannot be opened any more; nothing was
        removed then.
        """
        retention = Retention.checked(older_than, keep_versions, protect, in_flight)
        return clean_up(self._snapshot, retention, runner_or_threads(runner), dry_run=dry_run)

    def verify(self, *, deep: bool = False, runner: Runner | None = None) -> VerifyReport:
        """Whether this version is whole, and the versions and refs around it.

        Files exist with the recorded sizes, rows and columns, deletion files decode and delete
        what the manifest says, live row ids are unique and below the mark, indices have their
        files, the newest version opens, refs name versions that exist. ``deep`` also decodes every
        page of every column, in processes of their own. What is wrong comes back in the report.
        """
        return verify(self._snapshot, runner_or_threads(runner), deep=deep)

    def repair(self, *, dry_run: bool = True, runner: Runner | None = None) -> RepairReport:
        """What would make the table whole, from its newest readable version on.

        With ``dry_run=False`` it is done. Every proposal says what it changes, and nothing that may
        hold rows is removed.
        """
        return repair(self._snapshot.place, runner_or_threads(runner), dry_run=dry_run)
