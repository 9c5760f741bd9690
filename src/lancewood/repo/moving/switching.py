"""Moving HEAD: to a branch, or to a commit by itself.

Tables are not touched: a branch of the repository has branches of the tables of its own.
"""

from __future__ import annotations

from lancewood.errors import FormatError, LancewoodError, NotFoundError
from lancewood.git.refs import Head
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.naming.branches import Branches
from lancewood.repo.ref_names import branch_ref


def switch(grounds: Grounds, branch: str, *, create: bool, at: str) -> Head:
    """HEAD on a branch; the ref of a new one is written first, HEAD after it."""
    refs = grounds.git.refs
    ref = branch_ref(branch)
    before = _before(grounds)
    if create:
        Branches(grounds).create(branch, at)
    elif refs.read(ref) is None and before.branch != branch:
        known = ", ".join(Branches(grounds).list()) or "none yet"
        way = "create=True makes it"
        if _is_commit(grounds, branch):
            way = "it names a commit, and detach() goes there"
        raise NotFoundError(
            f"there is no branch {branch!r} (there is {known}); {way}", branch=branch
        )
    came = before.branch or str(before.hash or "nowhere")[:12]
    why = f"checkout: moving from {came} to {branch}"
    refs.switch_head(branch, why=why, by=author_of(grounds.git))
    return refs.head()


def _is_commit(grounds: Grounds, revision: str) -> bool:
    try:
        grounds.commit(revision)
    except LancewoodError:
        return False
    return True


def _before(grounds: Grounds) -> Head:
    """What HEAD names; nothing where it cannot be read, for who moves it mends it."""
    try:
        return grounds.git.refs.head()
    except FormatError:
        return Head(None, None)


def detach(grounds: Grounds, revision: str) -> Head:
    """HEAD on a commit."""
    refs = grounds.git.refs
    commit = grounds.commit(revision)
    before = _before(grounds)
    came = before.branch or str(before.hash or "nowhere")[:12]
    why = f"checkout: moving from {came} to {revision}"
    refs.detach_head(commit, why=why, by=author_of(grounds.git))
    return refs.head()
