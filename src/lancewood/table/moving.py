"""Verbs that bring fragments to another home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Self

from lancewood.engine.chosen_homes import Base
from lancewood.engine.projection import Parameters
from lancewood.jobs.moving.choice import FragmentChoice
from lancewood.jobs.moving.move import Move
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads, terms


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
