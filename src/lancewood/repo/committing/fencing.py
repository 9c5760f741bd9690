"""Turning a repository exclusive, or open again: the setting first, then every table by a commit.

One commit for each branch that has tables of its own. A table that a branch has not written yet is
on another branch of the table, and is told there. One whose work on a branch was merged is left as
it is: nobody goes on from there. Who is cut off in between runs it again.
"""

from __future__ import annotations

from lancewood.errors import (
    ConflictError,
    IncompatibleConflictError,
    LancewoodError,
    UnsupportedError,
)
from lancewood.git.names import HEADS
from lancewood.git.objects import Signature
from lancewood.model.exclusive import EXCLUSIVE_KEY, keeping
from lancewood.repo.committing.transaction import Transaction
from lancewood.repo.grounds import Grounds
from lancewood.repo.notes.merged_notes import MERGED
from lancewood.repo.outcome import Committed
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.exclusive import set_exclusive, wanted_keeper


def fence(grounds: Grounds, is_exclusive: bool, author: Signature) -> tuple[Committed, ...]:
    """The commits that told the tables; none where they all know.

    Raises IncompatibleConflictError that names the tables which have diverged, or which another
    repository keeps for itself, after all others were told.
    """
    set_exclusive(grounds, is_exclusive)
    done, refused = [], dict[str, LancewoodError]()
    for ref in grounds.git.refs.names(HEADS):
        branch = ref.removeprefix(HEADS)
        changes = _told(grounds, branch, author, refused)
        made = changes.commit()
        if made.is_new:
            done.append(made)
    if refused:
        first = next(iter(refused.values()))
        raise IncompatibleConflictError(
            f"the repository is {'exclusive' if is_exclusive else 'open to all'} now, and so are "
            f"its tables, but for {', '.join(refused)}: {first.message}. Then do it again",
            tables=[*refused],
        ) from first
    return tuple(done)


def _told(
    grounds: Grounds, branch: str, author: Signature, refused: dict[str, LancewoodError]
) -> Transaction:
    """A transaction in which every table of the branch knows the setting."""
    wanted = wanted_keeper(grounds)
    message = "Keep the tables for this repository" if wanted else "Open the tables to all writers"
    changes = Transaction(grounds, branch, message, author)
    tree = grounds.tree(grounds.tip(branch))
    for name in tree.names():
        if tree.pin(name).branch != lance_branch(branch):
            continue
        try:
            table = changes.table(name)
        except (ConflictError, UnsupportedError) as refusal:
            if MERGED not in refusal.facts:
                refused[f"{name} on {branch}"] = refusal
            continue
        if table.config.get(EXCLUSIVE_KEY) != wanted:
            table.commit(table.transaction(keeping(wanted)))
    return changes
