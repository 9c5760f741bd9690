"""Commits whose states are not all on the branches of the tables yet.

The writer of a commit lands what it pins, and if it did not come that far, whoever writes next.
So what is missing is at the tip: per table, everything above the newest commit that has landed, or
that pinned the table as it stood. Reads commits and tables, and lands nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lancewood.catalog.names import pin_entry, pinned_table
from lancewood.catalog.pin import Pin
from lancewood.catalog.places import place_of
from lancewood.catalog.tables import load_pin, tables_entry
from lancewood.engine.landing import LandingState, find_landing
from lancewood.engine.place import Place
from lancewood.engine.versions import newest_version
from lancewood.errors import NotFoundError
from lancewood.git.hashes import Hash
from lancewood.git.homes import Home
from lancewood.git.objects import Commit, Entry, Objects
from lancewood.git.repository import GitRepository
from lancewood.model.landing import Landing
from lancewood.store.base import Store


@dataclass(frozen=True, slots=True)
class Waiting:
    """A state that a commit pins and that is not on its branch."""

    name: str
    pin: Pin
    place: Place
    """The root of the branch."""
    commit: Hash
    state: LandingState


def unlanded(
    git: GitRepository,
    tip: Hash,
    repository: Home,
    *,
    names: Iterable[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> tuple[tuple[str, Pin], ...]:
    """The tables and pins that commits up to ``tip`` have, and that have not landed; the oldest
    first. Of the tables that are named, or of all that ``tip`` pins."""
    found = waiting(
        git,
        tip,
        repository,
        names=names,
        storage_options=storage_options,
        fsync=fsync,
        stores=stores,
    )
    return tuple((each.name, each.pin) for each in found)


def waiting(
    git: GitRepository,
    tip: Hash,
    repository: Home,
    *,
    names: Iterable[str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    fsync: bool | None = None,
    stores: dict[str, Store] | None = None,
) -> list[Waiting]:
    """The same with what is known of each.

    Follows first parents, and for each table only as far as its newest pin that has landed or was
    of an ordinary version.
    """
    objects = git.objects
    wanted = None if names is None else frozenset(names)
    found: list[Waiting] = []
    open_tables: dict[str, Hash | None] | None = None
    for commit, below in _first_parents(objects, tip):
        if open_tables is None:
            here = [name for entry in below if (name := pinned_table(entry))]
            open_tables = {each: None for each in here if wanted is None or each in wanted}
        for name, seen in [*open_tables.items()]:
            entry = below.get(pin_entry(name))
            if entry is None:
                del open_tables[name]
                continue
            if entry.hash == seen:
                continue
            open_tables[name] = entry.hash
            pin = load_pin(objects, name, entry.hash)
            if pin.landing is None:
                del open_tables[name]
                continue
            place = place_of(
                pin, repository, storage_options=storage_options, fsync=fsync, stores=stores
            )
            state = _state(place, pin, pin.landing)
            if state.is_landed:
                del open_tables[name]
            else:
                found.append(Waiting(name, pin, place, commit.hash, state))
        if not open_tables:
            break
    return found[::-1]


def _state(place: Place, pin: Pin, landing: Landing) -> LandingState:
    """How far a landing is. One whose base has not landed either waits for that."""
    try:
        return find_landing(place, landing)
    except NotFoundError:
        newest = newest_version(place.store)
        if newest is not None and newest.version >= landing.base:
            raise
        place.store.head(pin.manifest)
        return LandingState()


def _first_parents(objects: Objects, tip: Hash) -> Iterator[tuple[Commit, Mapping[str, Entry]]]:
    """The commits from a tip back, with what each has in ``tables``; trees are not read twice in
    a row."""
    root, inner, below = None, None, dict[str, Entry]()
    at: Hash | None = tip
    while at is not None:
        commit = objects.commit(at)
        if commit.tree != root:
            root = commit.tree
            now = tables_entry(objects.tree(root))
            if now != inner:
                inner, below = now, {} if now is None else objects.tree(now)
        yield commit, below
        at = commit.parents[0] if commit.parents else None
