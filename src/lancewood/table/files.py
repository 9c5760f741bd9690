"""Verbs of a table's base paths: the other homes of its files.

Verbs that bring fragments to another home.

Verbs on a table: compact fragments, and what an index may answer for.

Verbs that make another table of a table, or a clone independent of its source.

Verbs on a table: clean up, verify and repair.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Self

from lancewood.engine.base import FileLimits
from lancewood.engine.place import Base, BasePath, declared_bases, normal_path
from lancewood.engine.rows import IndexMask, load_index_mask
from lancewood.engine.schema import Parameters
from lancewood.external.base import ManifestStore
from lancewood.external.lock import CommitLock
from lancewood.jobs.base_changes import add_base_path, set_base_path
from lancewood.jobs.cloning.clone import base_name, clone_deep, clone_shallow, target_place
from lancewood.jobs.cloning.detach import detach
from lancewood.jobs.compaction.compact import Compaction
from lancewood.jobs.compaction.plan import CompactionGoal
from lancewood.jobs.moving import FragmentChoice, Move
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.cleanup import CleanupReport, clean_up
from lancewood.jobs.upkeep.problems import RepairReport
from lancewood.jobs.upkeep.repair import repair
from lancewood.jobs.upkeep.retention import IN_FLIGHT, Retention
from lancewood.jobs.upkeep.verify import VerifyReport, verify
from lancewood.model.transaction import commit_properties
from lancewood.table.handle import Handle, runner_or_threads, terms


class BaseVerbs(Handle):
    """Verbs of a table's base paths: the other homes of its files."""

    @property
    def base_paths(self) -> tuple[BasePath, ...]:
        """The other homes that this version declares, as its manifest spells them."""
        return declared_bases(self._snapshot.manifest.base_paths)

    def add_base(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        is_dataset_root: bool = False,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        serializable: bool = False,
    ) -> Self:
        """Declare another home for data files, which ``append(bases=…)`` can then write to.

        Files lie directly in ``path`` or, where it ``is_dataset_root``, in its directory ``data``.
        Raises InvalidInputError for a name or place that the table has already, for its own root,
        and for a place in the directories of a table, whose cleanup would remove the files.
        """
        base = BasePath(path, name=name, is_dataset_root=is_dataset_root)
        conditions = terms(message, properties, serializable=serializable)
        return self._after(add_base_path(self._snapshot, base, conditions))

    def set_base(
        self,
        base: Base,
        path: str | os.PathLike[str],
        *,
        check: bool = True,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        serializable: bool = False,
    ) -> Self:
        """Say where a base path is now, after its files were brought there by other means.

        ``base`` is its id, name or path. Some of its data files are looked for at the new place, by
        name and size, before anything changes; ``check=False`` takes your word for it. Older
        versions, tags and other branches still lead to the old place, and restoring an older
        version brings it back. Recorded as a Restore of the newest version: whoever was writing
        meanwhile is told to run again. The one exception is an overwrite by pylance, which must not
        be under way.
        """
        if message is None:
            message = f"base path {base} is at {normal_path(path)} now"
        conditions = terms(message, properties, serializable=serializable)
        return self._after(set_base_path(self._snapshot, base, path, conditions, check=check))


class MoveVerbs(Handle):
    """Verbs that bring fragments to another home."""

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
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
        serializable: bool = False,
    ) -> Self:
        """Bring data files to another home of the table: to cold storage, or to another region.

        ``base`` is the id, name or path of a base path that the table declares; None is where its
        new files go, and brings them back. Of ``fragments`` (by default all) those are moved that
        meet what else is said: ``where``, a condition in SQL that every live row of a fragment
        must meet, and ``older_than``. A fragment is older if its rows were last changed by
        versions that are older, by the time that each manifest tells; versions that were cleaned
        up are taken to be as young as the oldest that is left. A column that was added counts as
        a change. On a table without stable row ids a fragment is as old as its newest data file,
        and a moved one is young again.

        Files are copied under new names, checked, and one commit switches to them: rows, their
        ids and versions, deleted rows and indices stay what they are, and ``changes`` shows
        nothing. Other writers go on meanwhile. What they replaced is left as it is, what they
        deleted stays deleted. Deletion files and indices stay in the table's own root. The old
        files stay for older versions until ``cleanup``; it removes none outside the own root.
        pylance 14 does not find blobs of the first layout outside the own root, its own neither.

        Where all is in its place there is no new version. ``counts`` tells fragments, data files
        and bytes; with ``dry_run`` that is all, and this handle comes back with them. Raises,
        before anything is copied, InvalidInputError for a base path or condition that the table
        does not know, NotFoundError for a fragment that is not there.
        """
        choice = FragmentChoice.checked(fragments, where, parameters, older_than)
        wishes = terms(message, properties, serializable=serializable)
        move = Move(choice, base, runner_or_threads(runner))
        if dry_run:
            return self._after(self._snapshot, move.plan(self._snapshot))
        return self._after(*move.run(self._snapshot, wishes))


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


class CloneVerbs(Handle):
    """Verbs that make another table of a table, or a clone independent of its source."""

    def clone(
        self,
        target: str | os.PathLike[str],
        *,
        deep: bool = False,
        tag: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        base_storage_options: Mapping[str, Mapping[str, str]] | None = None,
        manifest_store: str | ManifestStore | None = None,
        commit_lock: CommitLock | None = None,
        unsafe: bool = False,
        fsync: bool | None = None,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
    ) -> Self:
        """A new table at ``target`` that begins with exactly this version, and a handle on it.

        A shallow clone costs one manifest and reads the files of this table. So that no cleanup
        takes them away it leaves a tag ``lw.clone.…`` here, a pin, which drop and ``detach`` of
        the clone remove; where that may not be written a warning says so, and ``counts.unpinned``
        of the handle. A ``deep`` one copies every file of this version, in tasks of the ``runner``,
        and needs nothing of this table afterwards.

        ``tag`` is a tag of this version: the clone's base path is called like it; without one like
        the tag that this handle was opened by, or its branch. ``storage_options`` are for the
        target, by default those of this table; ``base_storage_options`` as for ``open``.
        ``manifest_store`` and ``commit_lock`` are the target's, and so are the other options, as
        for ``create``.

        Raises AlreadyExistsError if there is a table at the target.
        """
        facts = commit_properties(message, properties)
        threads = runner_or_threads(runner)
        place = target_place(
            self._snapshot,
            target,
            storage_options,
            base_storage_options,
            fsync=fsync,
            unsafe=unsafe,
            manifest_store=manifest_store,
            commit_lock=commit_lock,
        )
        name = base_name(self._snapshot, tag)
        if deep:
            return self._after(*clone_deep(self._snapshot, place, threads, properties=facts))
        made, left = clone_shallow(self._snapshot, place, base_name=name, properties=facts)
        for each in left.unpinned:
            warnings.warn(
                f"{each.root} cannot know that {place.uri} needs its files, and a cleanup there "
                f"may remove them: {each.why}. Tag the version there, or detach the clone",
                stacklevel=2,
            )
        return self._after(made, left)

    def detach(
        self,
        *,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        serializable: bool = False,
        runner: Runner | None = None,
    ) -> Self:
        """Make a clone or a branch independent: copy in everything that lies elsewhere.

        One commit switches to the copies; rows, ids, versions of rows and indices stay as they are,
        and other writers go on meanwhile. Base paths that stood for other tables go; blobs that are
        files of somebody else stay where they are. ``counts`` tells what was copied.

        Older versions still read from the sources, so a clone's pins go when those are cleaned up:
        with that cleanup, or the next ``detach``. ``counts.still_pinned`` says what holds them.
        Where nothing lies elsewhere there is no new version.
        """
        conditions = terms(message, properties, serializable=serializable)
        return self._after(*detach(self._snapshot, runner_or_threads(runner), conditions))


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
