"""Removing the pins of a clone that has become independent of its sources.

A pin goes when no version of the clone, on none of its branches, reads from the source any more:
old versions may, long after the newest does not. Reads manifests, the oldest first, because they
settle it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lancewood.engine.base_homes import find_trace
from lancewood.engine.family import Family, find_family, manifest_names
from lancewood.engine.pins import Pin, PinRecord, Unpinned, find_pins, read_record, remove_pins
from lancewood.engine.place import Place
from lancewood.engine.refs import load_refs
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.format.layout import TREE_DIR, VERSIONS_DIR
from lancewood.format.manifest_file import decode_manifest_file
from lancewood.jobs.packing import shares
from lancewood.jobs.runner import Runner
from lancewood.model.ids import BaseId

_AT_ONCE = 1_000
"""Manifests in one task at most."""


@dataclass(frozen=True, slots=True)
class Released:
    """What became of a clone's pins."""

    removed: tuple[Pin, ...] = ()
    kept: tuple[Unpinned, ...] = ()
    """Tables that still have a pin, and why."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Manifests of one root that may read from other tables."""

    place: Place
    names: tuple[str, ...]
    roots: frozenset[str]


def release_pins(snapshot: Snapshot, runner: Runner) -> Released:
    """Remove the pins that no version of the table needs; best effort, nothing is raised for a
    source that cannot be reached."""
    record = read_record(snapshot.manifest.config)
    if record is None:
        return Released()
    place = snapshot.place
    try:
        family = find_family(snapshot)
        found, doubtful = find_pins(place, record, family.main.uri)
        there = [pin for _, pin in found]
        needed = _needed(place, family, frozenset(each.root for each in there), runner)
    except LancewoodError as error:
        return Released(kept=tuple(Unpinned(each.root, error.message) for each in record.pins))
    free = tuple(each for each in there if each.root not in needed)
    kept = [*doubtful, *(Unpinned(root, why) for root, why in needed.items())]
    kept += remove_pins(place, PinRecord(record.clone, free), family.main.uri)
    stay = {each.root for each in kept}
    return Released(tuple(each for each in free if each.root not in stay), tuple(kept))


def _needed(place: Place, family: Family, roots: frozenset[str], runner: Runner) -> dict[str, str]:
    """Those of the roots that a version reads from, and which version does."""
    if not roots:
        return {}
    needed: dict[str, str] = {}
    tasks = []
    for root in family.roots(load_refs(family.main)):
        store = family.store(root)
        manifests = manifest_names(store)
        oldest_first = sorted(manifests, key=lambda name: manifests[name].version)
        here = place if store.uri == place.uri else place.at(store)
        needed |= _reading(_Task(here, tuple(oldest_first[:1]), roots))
        tasks += [
            _Task(here, some, roots) for some in shares(oldest_first[1:], runner.slots, _AT_ONCE)
        ]
    if needed.keys() != roots:
        for each in runner.run(_reading, tasks, what="reading manifests"):
            needed |= each
    return needed


def _reading(task: _Task) -> dict[str, str]:
    """Which of the roots the versions of a task read from; stops when all are known."""
    found: dict[str, str] = {}
    for name in task.names:
        for root, why in _reads_from(task, name):
            found.setdefault(root, why)
        if found.keys() == task.roots:
            break
    return found


def _reads_from(task: _Task, name: str) -> Iterator[tuple[str, str]]:
    key = f"{VERSIONS_DIR}/{name}"
    try:
        manifest = decode_manifest_file(task.place.store.get(key), name=key)
    except NotFoundError:
        return
    for base in manifest.base_paths:
        uri = task.place.base_store(base).uri
        for root in task.roots:
            if uri != root and not uri.startswith(f"{root}/{TREE_DIR}/"):
                continue
            if find_trace(manifest, BaseId(base.id)) is not None:
                why = f"version {manifest.version} of {task.place.uri} reads from it"
                yield root, f"{why}; the pin goes after a cleanup of that version"
