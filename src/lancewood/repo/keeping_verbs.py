"""Verbs of a repository that keep it in order: protect, exclusive, gc and fsck."""

from __future__ import annotations

from datetime import timedelta

from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.repo.committing.fencing import fence
from lancewood.repo.fsck.checking import check_repository
from lancewood.repo.fsck.problems import FsckReport
from lancewood.repo.gc.collecting import collect_garbage
from lancewood.repo.gc.report import GcReport
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.naming.protecting import protect_commit, unprotect_commit
from lancewood.repo.outcome import Committed
from lancewood.table.handle import runner_or_threads


class KeepingVerbs:
    """Verbs of a repository that keep it in order."""

    _grounds: Grounds

    def protect(self, revision: str = "HEAD") -> tuple[str, ...]:
        """Keep what a commit pins from every cleanup, pylance's too; the names of its tables.

        A ref, refs/lancewood/protected/<hash>, keeps the commit itself. Commits that are tagged
        are protected already.
        """
        return protect_commit(self._grounds, self._grounds.commit(revision))

    def unprotect(self, revision: str) -> None:
        """Take back what ``protect`` did for a commit; raises NotFoundError if that was nothing.

        What tags and branches lead to stays kept as they keep it.
        """
        unprotect_commit(self._grounds, self._grounds.commit(revision))

    @property
    def is_exclusive(self) -> bool:
        """Whether nobody but transactions of this repository may write to its tables."""
        return self._grounds.is_exclusive

    def exclusive(self, is_exclusive: bool, *, author: str | None = None) -> tuple[Committed, ...]:
        """Keep the tables for transactions of this repository, or open them to every writer; the
        commits that told the tables so, one for each branch.

        Whoever does not know the repository (pylance, Spark, ``Table`` verbs) still reads and
        tags its tables, and is refused everything else, pylance's cleanup included. Tables that
        are added later are told by the first transaction that writes to them, and a branch whose
        work was merged when it is brought up to date. Raises IncompatibleConflictError that names
        tables which have diverged, or which another repository keeps; the others were told.
        """
        return fence(self._grounds, is_exclusive, author_of(self._grounds.git, author))

    def gc(
        self,
        *,
        dry_run: bool = False,
        in_flight: timedelta = IN_FLIGHT,
        tables: bool = False,
        runner: Runner | None = None,
    ) -> GcReport:
        """Remove what no commit leads to; ``dry_run`` says what would go.

        What commits have waiting lands first. Then go: states that transactions staged and that
        no ref and no reflog leads to, branches of tables that this repository made, and neither
        has any more nor pins, what was staged of tables that were never made, and locks of
        processes that are proven dead; of all that nothing that is younger than ``in_flight``,
        for its writer may still be at work. Nobody may write while that is zero.

        Data files of tables stay: ``tables=True`` runs the cleanup of each table afterwards, which
        takes those that no version names any more, and no version. Objects of git stay: ``git gc``
        packs them, removes those that nothing reaches, and lets reflogs expire.

        Raises NotFoundError, FormatError or UnsupportedError, before anything is removed, if
        commits cannot be read. What stays because a table or another repository cannot be read is
        in the report.
        """
        retention = Retention.checked(None, None, (), in_flight)
        return collect_garbage(
            self._grounds, retention, runner_or_threads(runner), dry_run=dry_run, tables=tables
        )

    def fsck(self, *, deep: bool = False) -> FsckReport:
        """Whether the repository is whole; what is wrong comes back in the report.

        Refs lead to commits, commits and pins of the whole history can be read, what the tips pin
        opens in the tables and is what was pinned, the tables hold what commits pin, and tagged
        versions are kept by tags in the tables. ``deep`` opens every pin of the history and of the
        reflogs, each once, and reads every file.
        """
        return check_repository(self._grounds, deep=deep)
