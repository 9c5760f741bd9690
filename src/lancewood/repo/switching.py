"""Moving HEAD: to a branch, or to a commit by itself.

Tables are not touched: a branch of the repository has branches of the tables of its own.
"""

from __future__ import annotations

from lancewood.errors import NotFoundError
from lancewood.git.refs import Head
from lancewood.repo.branches import Branches
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.names import branch_ref


def switch(grounds: Grounds, branch: str, *, create: bool, at: str) -> Head:
    """HEAD on a branch; the ref of a new one is written first, HEAD after it."""
    refs = grounds.git.refs
    ref = branch_ref(branch)
    before = refs.head()
    if create:
        Branches(grounds).create(branch, at)
    elif refs.read(ref) is None and before.branch != branch:
        known = ", ".join(Branches(grounds).list()) or "none yet"
        raise NotFoundError(
            f"there is no branch {branch!r} (there is {known}); create=True makes it",
            branch=branch,
        )
    came = before.branch or str(before.hash)[:12]
    why = f"checkout: moving from {came} to {branch}"
    refs.switch_head(branch, why=why, by=author_of(grounds.git))
    return refs.head()


def detach(grounds: Grounds, revision: str) -> Head:
    """HEAD on a commit."""
    refs = grounds.git.refs
    commit = grounds.commit(revision)
    before = refs.head()
    came = before.branch or str(before.hash)[:12]
    why = f"checkout: moving from {came} to {revision}"
    refs.detach_head(commit, why=why, by=author_of(grounds.git))
    return refs.head()
