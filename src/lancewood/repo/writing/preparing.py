"""Preparing tables for writers: reserving them for transactions, or opening a branch to others.

The exclusive setting is the repository's. A table is fenced off by a key in its configuration and
the writer flag that comes with it. Every state that a transaction writes follows the setting, so if
setting it is interrupted, the next transaction that writes to a table completes it there.

Pylance, Spark and ``lw table`` need the branch of a table to exist before they write on it.
``Repository.commit`` then records what they wrote. A transaction does not need this.
"""

from __future__ import annotations

from lancewood.engine.snapshot import load_snapshot
from lancewood.engine.staging import Stage
from lancewood.errors import InvalidInputError
from lancewood.model.exclusive import keeper_of, keeping
from lancewood.model.transaction import Transaction as TableTransaction
from lancewood.repo.grounds import EXCLUSIVE, SECTION, RepoContext
from lancewood.repo.landing import settle
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.writable import diverged, working_place, writable_head
from lancewood.table.table import Table


def set_exclusive(grounds: RepoContext, is_exclusive: bool) -> None:
    """Write the setting; the next transaction that writes to a table applies it there."""
    if not isinstance(is_exclusive, bool):
        raise InvalidInputError(f"exclusive is True or False, not {is_exclusive!r}")
    grounds.git.set(SECTION, EXCLUSIVE, "true" if is_exclusive else "false")


def keep_to_setting(grounds: RepoContext, stage: Stage) -> None:
    """Have the newest state of a stage follow the setting: one more step if it does not."""
    wanted = wanted_keeper(grounds)
    head = stage.snapshot.manifest
    if keeper_of(head) != wanted:
        stage.commit(TableTransaction.new(head.version, keeping(wanted)))


def wanted_keeper(grounds: RepoContext) -> str | None:
    """What the key of every table should be."""
    return grounds.id if grounds.is_exclusive else None


def check_not_exclusive(grounds: RepoContext, name: str) -> None:
    """Raise InvalidInputError if tables may only be written in transactions."""
    if grounds.is_exclusive:
        raise InvalidInputError(
            f"table {name!r} cannot be written without a transaction: the repository keeps its "
            "tables for itself; write in repo.transaction(), or open them to others with "
            "repo.exclusive(False)",
            table=name,
        )


def prepare(grounds: RepoContext, branch: str, name: str, *, adopt: bool) -> Table:
    """The newest version of a table on a branch, which is made if need be.

    What commits of the branch pin lands first; uncommitted writes stay. Raises NotFoundError,
    IncompatibleConflictError for a table that has diverged, and InvalidInputError in an exclusive
    repository.
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
