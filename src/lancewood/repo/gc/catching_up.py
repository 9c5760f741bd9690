"""Bringing every table up to what the commits of all branches say, as far as that can be done.

What a writer does for one branch and a few tables, before its own work. Each state is looked at
once, however many branches pin it. What cannot be done is reported, and stops nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from lancewood.catalog.reachable import waiting
from lancewood.errors import ConflictError, LancewoodError
from lancewood.git.names import HEADS
from lancewood.git.values import Hash
from lancewood.repo.context import RepoContext
from lancewood.repo.gc.needed import Stays, TableBranch
from lancewood.repo.landing import finish_moves, land_pin, pending_tables
from lancewood.repo.outcome import Divergence


@dataclass
class CaughtUp:
    """Branches of tables whose states landed, or would, and those that could not."""

    landed: list[TableBranch] = field(default_factory=list)
    diverged: list[Divergence] = field(default_factory=list)
    failed: list[Stays] = field(default_factory=list)


def catch_up_all(context: RepoContext, *, dry_run: bool) -> CaughtUp:
    """Land what the commits at the tips of all branches have waiting, the oldest first."""
    found = CaughtUp()
    pins = set[tuple[str, Hash | None]]()
    trees = set[Hash]()
    for branch, tip in _branches(context):
        try:
            names = _to_look_at(context, tip, trees, pins)
        except LancewoodError as error:
            found.failed.append(Stays(f"branch {branch}", error.message))
            continue
        try:
            _finish_moves(context, branch, tip, found, dry_run=dry_run)
        except LancewoodError as error:
            found.failed.append(Stays(f"branch {branch}", error.message))
        for name in names:
            try:
                _land(context, branch, tip, name, found, dry_run=dry_run)
            except LancewoodError as error:
                found.failed.append(Stays(f"table {name} on branch {branch}", error.message))
    return found


def _branches(context: RepoContext) -> Iterator[tuple[str, Hash]]:
    """The branches that can be read, and their commits."""
    refs = context.git.refs
    for ref in refs.every_name(HEADS):
        with suppress(LancewoodError):  # reported where commits are read
            tip = refs.read(ref)
            if tip is not None:
                yield ref.removeprefix(HEADS), tip


def _to_look_at(
    context: RepoContext, tip: Hash, trees: set[Hash], pins: set[tuple[str, Hash | None]]
) -> list[str]:
    """The tables of a commit with a state that may have to land, and that was not met before."""
    root = context.git.objects.commit(tip).tree
    if root in trees:
        return []
    trees.add(root)
    tree = context.tree(tip)
    found = {(name, tree.blob_hash(name)) for name in tree.names()} - pins
    pins |= found
    return sorted(name for name, _ in found if tree.pin(name).landing is not None)


def _finish_moves(
    context: RepoContext, branch: str, tip: Hash, found: CaughtUp, *, dry_run: bool
) -> None:
    """Have the tables follow a branch that was moved."""
    pending = pending_tables(context, branch, tip)
    if not pending:
        return
    left = () if dry_run else finish_moves(context, branch, tip)
    found.diverged += left
    gone = {each.table for each in left}
    found.landed += [TableBranch(name, branch) for name in sorted(pending - gone)]


def _land(
    context: RepoContext, branch: str, tip: Hash, name: str, found: CaughtUp, *, dry_run: bool
) -> None:
    states = waiting(
        context.git,
        tip,
        context.root,
        names=[name],
        storage_options=context.storage_options,
        fsync=context.fsync,
    )
    for each in states:
        try:
            if each.state.conflict is not None:
                raise each.state.conflict
            if not dry_run:
                land_pin(context, each.pin, name)
        except ConflictError as conflict:
            found.diverged.append(Divergence(name, conflict))
            return  # what comes after it rests on it
    if states:
        found.landed.append(TableBranch(name, branch))
