"""Verbs on the files of a table: base paths, moving, compacting, cloning, upkeep."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from lancewood.engine.base import FileLimits
from lancewood.engine.location import Base, BasePath, declared_bases, normal_path
from lancewood.engine.rows import IndexMask, load_index_mask
from lancewood.engine.schema import Parameters
from lancewood.engine.snapshot import Access, Address
from lancewood.jobs.job import CommitOptions
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.table.handle import Handle, runner_or_threads

if TYPE_CHECKING:
    from lancewood.jobs.upkeep.cleanup import CleanupReport
    from lancewood.jobs.upkeep.problems import RepairReport
    from lancewood.jobs.upkeep.verify import VerifyReport


class BaseVerbs(Handle):
    """Verbs on base paths, the other roots of a table's files."""

    @property
    def base_paths(self) -> tuple[BasePath, ...]:
        """The base paths of this version, as its manifest spells them."""
        return declared_bases(self._snapshot.manifest.base_paths)

    def add_base(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        is_dataset_root: bool = False,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Declare another root for data files, which ``Layout(into=…)`` can then write to.

        Files go directly into ``path`` or, if it ``is_dataset_root``, into its directory ``data``.
        Raises InvalidInputError for a name or place that the table has already, for its own root,
        and for a place inside the directories of a table, whose cleanup would remove the files.
        """
        base = BasePath(path, name=name, is_dataset_root=is_dataset_root)
        from lancewood.jobs.base_changes import AddBase

        commit_options = CommitOptions.of(commit, message)
        return self._run(AddBase(base), commit_options, dry_run=dry_run)

    def set_base(
        self,
        base: Base,
        path: str | os.PathLike[str],
        *,
        check: bool = True,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
    ) -> Self:
        """Change the place of a base path whose files were brought there by other means.

        ``base`` is its id, name or path. First, some of its data files are looked for at the new
        place, by name and size; ``check=False`` skips that. Older versions, tags and other branches
        still lead to the old place, and restoring an older version brings it back. Recorded as a
        Restore of the newest version, so concurrent writers get a conflict and must run again. The
        exception is an overwrite by pylance, which must not be in progress.
        """
        goal = normal_path(path)
        if message is None:
            message = f"base path {base} is at {goal} now"
        from lancewood.jobs.base_changes import SetBase

        commit_options = CommitOptions.of(commit, message)
        return self._run(SetBase(base, goal, check), commit_options, dry_run=dry_run)


class MoveVerbs(Handle):
    """Verbs that move fragments to another root."""

    def move_fragments(
        self,
        fragments: Iterable[int] | None = None,
        *,
        base: Base,
        where: str | None = None,
        parameters: Parameters = None,
        older_than: timedelta | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Move data files to another root of the table, such as cold storage or another region.

        ``base`` is the id, name or path of a declared base path; None is where new files go, and
        brings files back. Of ``fragments`` (by default all), those are moved in which every live
        row meets ``where``, a condition in SQL, and was last changed by a version that is older
        than ``older_than``, by the time in its manifest. A version that was cleaned up counts as
        old as the oldest that is left. Adding a column counts as a change. On a table without
        stable row ids a fragment is as old as its newest data file, and new again after a move.

        Files are copied under new names and checked, then one commit switches to them: rows, their
        ids and versions, deleted rows and indices stay the same, and ``changes`` shows nothing.
        Other writers are not blocked: what they replace or delete meanwhile stays replaced or
        deleted. Deletion files and indices stay in the table's own root. The old files stay for
        older versions until ``cleanup``, which removes none outside the own root. pylance 14 does
        not find blobs of the first layout outside the own root, not even its own.

        If everything is in place there is no new version. ``counts`` has fragments, data files and
        bytes; with ``dry_run`` this handle is returned with them and nothing is moved. Raises,
        before anything is copied, InvalidInputError for an unknown base path or a bad condition,
        NotFoundError for an unknown fragment.
        """
        from lancewood.jobs.moving import FragmentChoice, Move

        choice = FragmentChoice.checked(fragments, where, parameters, older_than)
        commit_options = CommitOptions.of(commit, message)
        move = Move(choice, base, runner_or_threads(runner))
        return self._run(move, commit_options, dry_run=dry_run)


class CompactVerbs(Handle):
    """Verbs that compact fragments and tell what an index covers."""

    def compact(
        self,
        *,
        target_rows: int = FileLimits().max_rows,
        max_deleted: float = 0.1,
        max_bytes_per_file: int = FileLimits().max_bytes,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Join small fragments, and rewrite fragments with many deleted rows without those rows.

        Neighbours with fewer than ``target_rows`` are joined up to that number; a fragment is
        rewritten by itself if more than ``max_deleted`` of its rows are deleted. On a table with
        stable row ids rows keep their ids and versions. They also keep their order, except that
        rewritten rows come after all others. Fragments covered by different indices are not
        joined. An index that names rows by stable id still covers them afterwards; with any other
        index they are scanned until it is extended, and ``counts`` names it. Fragments without a
        recorded row count stay as they are.

        Other writers are not blocked: fragments that they change are left for the next compaction.
        If nothing would be gained there is no new version. ``counts`` has fragments and files;
        those that ``dry_run`` tells are from the manifest, and a large new fragment may become
        several.
        Raises UnsupportedError, before anything is read, for blobs of the second layout and after
        pylance's compaction with deferred remapping.
        """
        from lancewood.jobs.compaction.compact import Compaction
        from lancewood.jobs.compaction.plan import CompactionGoal

        goal = CompactionGoal.checked(target_rows, max_deleted, max_bytes_per_file)
        commit_options = CommitOptions.of(commit, message)
        job = Compaction(goal, runner_or_threads(runner))
        return self._run(job, commit_options, dry_run=dry_run)

    def index_mask(self, name: str) -> IndexMask:
        """The rows that an index covers at this version, and the fragments that must be scanned in
        addition. Raises NotFoundError for an unknown index."""
        return load_index_mask(self._snapshot, name)


class CloneVerbs(Handle):
    """Verbs that clone a table, or make a clone independent of its source."""

    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        deep: bool = False,
        tag: str | None = None,
        access: Access | None = None,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """A new table at ``target`` that begins with exactly this version; the handle on it.

        A shallow clone costs one manifest and reads the files of this table. It leaves a pin here,
        a tag ``lw.clone.…`` that keeps cleanup from removing those files; drop and ``detach`` of
        the clone remove it. If the pin cannot be written there is a warning, and an entry in
        ``counts.unpinned``. A ``deep`` clone copies every file of this version, in tasks of the
        ``runner``, and is independent of this table afterwards.

        ``tag`` is a tag of this version, and becomes the name of the clone's base path; the default
        is the tag that this handle was opened by, or its branch. ``access`` is that of the target,
        whose storage options are by default those of this table. ``dry_run`` checks all of this,
        and counts the files of a deep clone; the handle is then this one.

        Raises AlreadyExistsError if there is a table at the target.
        """
        from lancewood.jobs.clone import (
            base_name,
            clone_deep,
            clone_shallow,
            target_location,
        )

        facts = CommitOptions.of(commit, message, takes_serializable=False).properties
        threads = runner_or_threads(runner)
        address = Address(target, access)
        location = target_location(self._snapshot, address)
        name = base_name(self._snapshot, tag)
        if deep:
            made, copied = clone_deep(
                self._snapshot, location, threads, dry_run=dry_run, properties=facts
            )
            return self._after(made, copied)
        made, left = clone_shallow(
            self._snapshot, location, base_name=name, dry_run=dry_run, properties=facts
        )
        for each in left.unpinned:
            warnings.warn(
                f"{each.root} cannot know that {location.uri} needs its files, and a cleanup there "
                f"may remove them: {each.why}. Tag the version there, or detach the clone",
                stacklevel=2,
            )
        return self._after(made, left)

    def detach(
        self,
        *,
        dry_run: bool = False,
        message: str | None = None,
        commit: CommitOptions | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """Make a clone or a branch independent: copy in everything that lies elsewhere.

        One commit switches to the copies; rows, ids, versions of rows and indices stay the same,
        and other writers are not blocked. Base paths of other tables are removed; external blobs
        stay where they are. ``counts`` has what was copied.

        Older versions still read from the sources, so a clone's pins stay until those versions are
        cleaned up; that cleanup or the next ``detach`` removes them. ``counts.still_pinned`` has
        the reasons. If nothing lies elsewhere there is no new version. ``dry_run`` counts what
        would be copied, without files of blobs, and looks at no pins.
        """
        from lancewood.jobs.clone import Detach

        commit_options = CommitOptions.of(commit, message)
        return self._run(Detach(runner_or_threads(runner)), commit_options, dry_run=dry_run)


class UpkeepVerbs(Handle):
    """Verbs that clean up, verify and repair a table."""

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
        """Remove old versions and the files that only they need; ``dry_run`` only reports them.

        A version is removed if it is older than ``older_than`` and not among the ``keep_versions``
        newest; a criterion that is not given is ignored. Always kept are the newest version, this
        handle's, those in ``protect``, those named by a tag or by the beginning of a branch, and
        detached ones. Without any criterion no version is removed, only leftovers of failed writes.

        Files of removed versions are removed if no other version names them. Files that no version
        names are removed when they are older than ``in_flight``, since their writer may still be
        active. For the same reason versions of the last ten minutes are kept, unless ``in_flight``
        is shorter. With an ``in_flight`` of zero nobody may be writing, least of all with pylance.
        Ages are measured by the clock of the store; a dry run, which writes nothing, uses ours. On
        a branch its own versions and files are cleaned up, on main those of main; what another
        branch needs is kept. Clones elsewhere are seen only if they left a tag.

        On a table of a repository, pending work of commits lands first, and every version pinned by
        a commit is kept as long as a ref or a reflog leads to the commit.

        Raises FormatError or UnsupportedError for a ref or version that cannot be read, and
        NotFoundError if the table's repository cannot be opened; then nothing was removed.
        """
        from lancewood.jobs.upkeep.cleanup import clean_up

        retention = Retention.checked(older_than, keep_versions, protect, in_flight)
        return clean_up(self._snapshot, retention, runner_or_threads(runner), dry_run=dry_run)

    def verify(self, *, deep: bool = False, runner: Runner | None = None) -> VerifyReport:
        """Check this version, and the versions and refs around it; problems are in the report.

        Files exist with the recorded sizes, rows and columns, deletion files decode and delete
        what the manifest says, live row ids are unique and below the mark, indices have their
        files, the newest version opens, refs name existing versions. ``deep`` also decodes every
        page of every column, in separate processes, and looks for the files that external blobs
        name, where they can be reached.
        """
        from lancewood.jobs.upkeep.verify import verify

        return verify(self._snapshot, runner_or_threads(runner), deep=deep)

    def repair(self, *, dry_run: bool = False, runner: Runner | None = None) -> RepairReport:
        """Repair the table, starting from its newest readable version.

        ``dry_run`` only proposes. Each proposal says what it changes, and nothing that may hold
        rows is removed.
        """
        from lancewood.jobs.upkeep.repair import repair

        return repair(self._snapshot.location, runner_or_threads(runner), dry_run=dry_run)
