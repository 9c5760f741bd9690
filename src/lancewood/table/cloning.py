"""Verbs that make another table of a table, or a clone independent of its source."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Self

from lancewood.external.base import ManifestStore
from lancewood.external.lock import CommitLock
from lancewood.jobs.cloning.deep import clone_deep
from lancewood.jobs.cloning.detach import detach
from lancewood.jobs.cloning.shallow import clone_shallow
from lancewood.jobs.cloning.targets import base_name, target_place
from lancewood.jobs.runner import Runner
from lancewood.model.transaction import commit_properties
from lancewood.table.handle import Handle, runner_or_threads, terms


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
