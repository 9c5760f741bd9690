"""``Repository.reset``: a branch goes to another commit, and its tables with it."""

from __future__ import annotations

from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.moving.move import Move
from lancewood.repo.outcome import Committed


def reset(grounds: Grounds, branch: str, revision: str, *, soft: bool) -> Committed:
    """See ``Repository.reset``."""
    move = Move(
        grounds,
        branch,
        grounds.commit(revision),
        f"reset: moving to {revision}",
        author_of(grounds.git),
        soft=soft,
        refused=f"branch {branch!r} cannot be reset to {revision!r}",
    )
    done = move.run()
    assert done is not None, "asked from wherever it is"
    return done
