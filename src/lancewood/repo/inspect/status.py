"""The state of the tables compared with what HEAD pins, as git compares a work tree.

Content is compared (fragments and schema), not version numbers, which only grow. The tables of the
current branch can also be seen as if they were committed now. That is for comparing: nothing is
written, and concurrent writers may be seen halfway. A table that has not landed, has diverged or
cannot be read then counts as HEAD pins it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from lancewood.catalog.names import TABLES_DIR, lance_branch, own_table, own_table_uri
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import TableTree
from lancewood.errors import LancewoodError
from lancewood.git.values import Hash

if TYPE_CHECKING:
    from lancewood.repo.context import RepoContext


class State(StrEnum):
    """How a table compares with its pin."""

    CLEAN = "clean"
    MODIFIED = "modified"
    """The table was written since, and commit() would record that."""
    UNLANDED = "unlanded"
    """The table is committed; its own branch does not hold that state yet."""
    DIVERGED = "diverged"
    """The table's branch conflicts with the commit."""
    MISSING = "missing"
    """The table, or the pinned state, cannot be read."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One table of the current branch."""

    name: str
    state: State
    pin: Pin
    version: int | None
    """The newest version of the table on this branch; None if there is none."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """The current branch and its tables."""

    branch: str | None
    """The branch that HEAD names; None if HEAD is detached."""
    hash: Hash | None
    """The commit that HEAD names; None if there is no commit yet."""
    tables: tuple[TableStatus, ...]
    untracked: tuple[str, ...]
    """Tables below the repository that HEAD does not pin, and that were not written by commits."""
    elsewhere: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables below the repository that HEAD does not pin, with the branches that do."""

    @property
    def is_clean(self) -> bool:
        """Whether every table is as pinned."""
        return all(each.state is State.CLEAN for each in self.tables)


def find_status(context: RepoContext) -> Status:
    """The state of HEAD's tables now."""
    from lancewood.repo.landing import pending_tables

    head = context.git.refs.head()
    tree = context.tree(head.hash)
    pins = {name: tree.pin(name) for name in tree.names()}
    behind = frozenset[str]()
    if head.branch is not None:
        behind = pending_tables(context, head.branch, head.hash)
    tables = tuple(
        _status(context, head.branch, name, pin, is_behind=name in behind)
        for name, pin in pins.items()
    )
    beside = _beside(context, pins)
    elsewhere = _elsewhere(context, beside)
    untracked = tuple(each for each in beside if each not in elsewhere)
    return Status(head.branch, head.hash, tables, untracked, elsewhere)


def _status(
    context: RepoContext, branch: str | None, name: str, pin: Pin, *, is_behind: bool
) -> TableStatus:
    try:
        if is_behind:
            context.open(pin)
            why = "the branch was moved; the next writer brings the table there"
            return TableStatus(name, State.UNLANDED, pin, None, why)
        return _compared(context, branch, name, pin)
    except LancewoodError as error:
        return TableStatus(name, State.MISSING, pin, None, error.message)


def _compared(context: RepoContext, branch: str | None, name: str, pin: Pin) -> TableStatus:
    from lancewood.catalog.opening import content_of
    from lancewood.engine.staging import find_landing
    from lancewood.engine.versions import require_newest
    from lancewood.repo.writable import changed_head, working_location

    location = None if branch is None else working_location(context, branch, pin)
    if branch is None or location is None:
        context.open(pin)
        return TableStatus(name, State.CLEAN, pin, None)
    is_pinned_branch = pin.branch == lance_branch(branch)
    if is_pinned_branch and pin.landing is not None:
        found = find_landing(location, pin.landing)
        if found.conflict is not None:
            return TableStatus(name, State.DIVERGED, pin, None, found.conflict.message)
        if not found.versions:
            context.open(pin)
            return TableStatus(name, State.UNLANDED, pin, None, "the next writer lands it")
    newest = require_newest(location.store).version
    if is_pinned_branch and newest == pin.version:
        context.open(pin)  # a table that was made again may have the same number
    changed = changed_head(context, pin, location, newest, is_pinned_branch=is_pinned_branch)
    if changed is None:
        return TableStatus(name, State.CLEAN, pin, newest)
    why = "only its indices" if is_pinned_branch and content_of(changed) == pin.content else ""
    return TableStatus(name, State.MODIFIED, pin, newest, why)


def _elsewhere(context: RepoContext, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The branches that pin tables; without tables whose main has uncommitted writes."""
    try:
        holders = context.holders(names)
    except LancewoodError:  # fsck reports a branch that cannot be read
        return {}
    return {name: tuple(each) for name, each in holders.items() if _is_unwritten(context, name)}


def _is_unwritten(context: RepoContext, name: str) -> bool:
    from lancewood.engine.location import Location
    from lancewood.engine.snapshot import load_snapshot
    from lancewood.repo.writable import is_free

    try:
        return is_free(load_snapshot(Location(context.store_at(own_table_uri(name)))))
    except LancewoodError:
        return False


def _beside(context: RepoContext, pins: dict[str, Pin]) -> list[str]:
    """Tables below the repository that HEAD does not pin."""
    from lancewood.engine.snapshot import is_table

    root = context.root
    if not isinstance(root, Path):
        known = {pin.uri for pin in pins.values()}
        names = (own_table(f"{TABLES_DIR}/{each}") for each in context.git.directories(TABLES_DIR))
        new = [each for each in names if each is not None and own_table_uri(each) not in known]
        return [each for each in new if is_table(context.store_at(own_table_uri(each)))]
    known_paths = {(root / pin.uri).resolve() for pin in pins.values()}
    tables = root / TABLES_DIR
    if tables.is_symlink() or not tables.is_dir():
        return []
    return sorted(
        each.name.removesuffix(".lance")
        for each in tables.iterdir()
        if each.suffix == ".lance"
        and each.resolve() not in known_paths
        and not each.is_symlink()
        and (each / "_versions").is_dir()
    )


def standing_tables(context: RepoContext) -> TableTree:
    """HEAD's tables, with new pins for those that were written since."""
    from lancewood.catalog.opening import pin_of
    from lancewood.engine.snapshot import load_snapshot
    from lancewood.repo.writable import working_location

    status = find_status(context)
    changes: dict[str, Pin | None] = {}
    for each in status.tables:
        if each.state is not State.MODIFIED or status.branch is None:
            continue
        location = working_location(context, status.branch, each.pin)
        if location is not None:
            changes[each.name] = pin_of(load_snapshot(location), each.pin.uri)
    return context.tree(status.hash).with_pins(changes)
