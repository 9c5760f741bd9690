"""Verbs that bring the work on a branch to another branch, and a branch back to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from lancewood.engine.revisions import At
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.jobs.publishing.publish import publish
from lancewood.jobs.publishing.reset import reset
from lancewood.jobs.runner import Runner
from lancewood.table.handle import Handle, runner_or_threads, terms

H = TypeVar("H", bound=Handle)


class PublishVerbs(Generic[H]):
    """What ``Table.branches`` can do with the work on a branch."""

    _snapshot: Snapshot
    _handle: Callable[..., H]
    """Makes a handle of a snapshot, and of what a write has to tell."""

    def publish(
        self,
        name: str,
        onto: str | None = None,
        *,
        adopt: bool = True,
        dry_run: bool = False,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        runner: Runner | None = None,
    ) -> H:
        """Bring what happened on a branch to the branch it was made from, as one commit there; the
        handle on that version, whose ``counts`` tell what was done.

        The work is judged by what happened on the target since, by the rules of any commit, and
        refused with a ConflictError where the two do not go together; then nothing has changed.
        Rows and fragments that were born on the branch get new ids where the target has moved. The
        branch is closed afterwards: nobody writes to it until ``reset``. Run it again if it was cut
        off: work is published once.

        ``onto`` is the parent, by name, and only that. ``adopt=False`` leaves deletion files and
        data files where they are below the branch, and keeps the branch with a tag
        ``lw.publish.<uuid>``. ``dry_run=True`` judges and plans, and writes nothing: it raises what
        publishing would raise now, or gives the handle on the target as it is, whose ``counts``
        tell what would be done.
        """
        for argument, flag in {"adopt": adopt, "dry_run": dry_run}.items():
            if not isinstance(flag, bool):
                raise InvalidInputError(f"{argument} takes True or False, got {flag!r}")
        found, told = publish(
            self._snapshot,
            name,
            onto,
            adopt=adopt,
            terms=terms(message, properties),
            runner=runner_or_threads(runner),
            dry_run=dry_run,
        )
        return self._handle(found, told)

    def reset(self, name: str, at: At = None, *, force: bool = False) -> H:
        """Begin a branch anew from the newest version of its parent, or from the one that ``at``
        says; the handle on it.

        Older versions of the branch stay, and so do tags on them. Refuses a branch with work that
        was not published, unless ``force`` gives that up.
        """
        return self._handle(reset(self._snapshot, name, at, force=force))
