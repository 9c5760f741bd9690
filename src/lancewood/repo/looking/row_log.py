"""Which commits changed certain rows of a table: inserted, updated or deleted them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lancewood.engine.snapshot import Snapshot
from lancewood.git.hashes import Hash
from lancewood.git.objects import Commit
from lancewood.jobs.blaming import Touching
from lancewood.repo.context import RepoContext
from lancewood.repo.landing import pinned_state


def touching(
    context: RepoContext, commits: Iterable[Commit], table: str, tips: Iterable[Hash], where: str
) -> Iterator[Commit]:
    """Those of the commits that changed such rows, against all of their parents.

    Raises InvalidInputError at once for a condition that cannot be asked of the table at a tip.
    """
    touched = Touching(where)
    known = dict[Hash, Snapshot | None]()

    def state(commit: Hash) -> Snapshot | None:
        if commit not in known:
            pin = context.tree(commit).find(table)
            known[commit] = None if pin is None else pinned_state(context, pin)
        return known[commit]

    for each in tips:
        now = state(each)
        if now is not None:
            touched.check(now)

    def found() -> Iterator[Commit]:
        for each in commits:
            after = state(each.hash)
            befores = [state(parent) for parent in each.parents] or [None]
            if all(touched.is_between(before, after) for before in befores):
                yield each
            known.clear()
            known.update(zip(each.parents, befores, strict=False))

    return found()
