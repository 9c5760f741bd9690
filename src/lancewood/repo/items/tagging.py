"""Tagging one item: the tag is at the revision's commit, whoever did it first.

Knows one repository. A tag does not move unless it is told to.
"""

from __future__ import annotations

from lancewood.errors import AlreadyExistsError, RetryableConflictError
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.git.signature import Signature
from lancewood.repo.items.outcome import Done, Outcome
from lancewood.repo.ref_names import tag_ref

_ATTEMPTS = 10


def tag_item(
    git: GitRepository, item: str, name: str, revision: str, by: Signature, *, force: bool
) -> Outcome:
    """Tag a commit. A tag that leads there already is ``unchanged``; one that leads elsewhere is
    AlreadyExistsError, or moves with ``force``."""
    ref, commit = tag_ref(name), resolve(git, revision)
    for _ in range(_ATTEMPTS):
        there = git.refs.read(ref)
        if there is not None:
            if git.objects.peel(there) == commit:
                return Outcome(item, Done.UNCHANGED, commit)
            if not force:
                raise AlreadyExistsError(
                    f"tag {name!r} is at {there[:12]}, not at {commit[:12]}; force moves it",
                    tag=name,
                    item=item,
                )
        if git.refs.move(ref, there, commit, why=f"tag: tagging {commit[:12]}", by=by):
            return Outcome(item, Done.WRITTEN if there is None else Done.MOVED, commit)
    raise RetryableConflictError(f"tag {name!r} of item {item!r} moves all the time; try again")
