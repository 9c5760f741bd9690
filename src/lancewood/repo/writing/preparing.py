"""Making a table ready to be written on a branch, for writers that know nothing of the repository.

A transaction does this by itself. Pylance, Spark and ``lw table`` need the branch of the table to
be there first; what they write is recorded by ``Repository.commit``.
"""

from __future__ import annotations

from lancewood.engine.snapshot import load_snapshot
from lancewood.repo.grounds import Grounds
from lancewood.repo.landing.settling import settle
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.exclusive import check_not_exclusive
from lancewood.repo.writing.working import working_place
from lancewood.repo.writing.writable import diverged, writable_head
from lancewood.table.table import Table


def prepare(grounds: Grounds, branch: str, name: str, *, adopt: bool) -> Table:
    """The newest version of a table on a branch, which is made if need be.

    What commits of the branch pin lands first; what was written since and not committed stays.
    Raises NotFoundError, IncompatibleConflictError for a table that has diverged, and
    InvalidInputError in a repository that keeps its tables for itself.
    """
    check_not_exclusive(grounds, name)
    tip = grounds.tip(branch)
    pin = grounds.pin(grounds.tree(tip), name)
    wanted = lance_branch(branch)
    if pin.branch != wanted and wanted is not None:
        for each in settle(grounds, branch, tip, [name]):
            raise diverged(each)
        place = working_place(grounds, branch, pin, adopt=adopt)
        if place is not None:
            return Table(load_snapshot(place))
    return Table(writable_head(grounds, branch, tip, name, pin, adopt=adopt))
