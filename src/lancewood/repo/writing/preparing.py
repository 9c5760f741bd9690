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
from lancewood.repo.context import EXCLUSIVE, SECTION, RepoContext
from lancewood.repo.landing import settle
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.writable import diverged, working_location, writable_head
from lancewood.table.table import Table


def set_exclusive(context: RepoContext, is_exclusive: bool) -> None:
    """Write the setting; the next transaction that writes to a table applies it there."""
    if not isinstance(is_exclusive, bool):
        raise InvalidInputError(f"exclusive is True or False, not {is_exclusive!r}")
    context.git.set(SECTION, EXCLUSIVE, "true" if is_exclusive else "false")


def keep_to_setting(context: RepoContext, stage: Stage) -> None:
    """Have the newest state of a stage follow the setting: one more step if it does not."""
    wanted = wanted_keeper(context)
    head = stage.snapshot.manifest
    if keeper_of(head) != wanted:
        stage.commit(TableTransaction.new(head.version, keeping(wanted)))


def wanted_keeper(context: RepoContext) -> str | None:
    """What the key of every table should be."""
    return context.id if context.is_exclusive else None


def check_not_exclusive(context: RepoContext, name: str) -> None:
    """Raise InvalidInputError if tables may only be written in transactions."""
    if context.is_exclusive:
        raise InvalidInputError(
            f"table {name!r} cannot be written without a transaction: the repository keeps its "
            "tables for itself; write in repo.transaction(), or open them to others with "
            "repo.exclusive(False)",
            table=name,
        )


def prepare(context: RepoContext, branch: str, name: str, *, adopt: bool) -> Table:
    """The newest version of a table on a branch, which is made if need be.

    What commits of the branch pin lands first; uncommitted writes stay. Raises NotFoundError,
    IncompatibleConflictError for a table that has diverged, and InvalidInputError in an exclusive
    repository.
    """
    check_not_exclusive(context, name)
    tip = context.tip(branch)
    pin = context.pin(context.tree(tip), name)
    wanted = lance_branch(branch)
    if pin.branch != wanted and wanted is not None:
        for each in settle(context, branch, tip, [name]):
            raise diverged(each)
        location = working_location(context, branch, pin, adopt=adopt)
        if location is not None:
            return Table(load_snapshot(location))
    return Table(writable_head(context, branch, tip, name, pin, adopt=adopt))
