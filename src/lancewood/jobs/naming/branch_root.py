"""The files of one branch, below ``tree/<name>``: which they are, and removing them.

Roots nest: that of ``p/q`` lies inside that of ``p``, and names that other writers allow put it
even inside ``p``'s own directories. So a file belongs to a branch only if it lies where the format
puts a file of its kind, and nothing else is touched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    OWNED_DIRS,
    TRANSACTIONS_DIR,
    TREE_DIR,
    VERSIONS_DIR,
    is_data_key,
    parse_manifest_name,
)
from lancewood.jobs.naming.intent import INTENT_KEY
from lancewood.jobs.packing import chunks
from lancewood.model.refs import BranchName
from lancewood.store.base import Store

_DIRECTORIES = (VERSIONS_DIR, TRANSACTIONS_DIR, DELETIONS_DIR, INDICES_DIR, DATA_DIR)
MOST_KEYS = 1_000
"""Keys in one call, or in one task."""
_FLAT = re.compile(rf"(?:{VERSIONS_DIR}|{TRANSACTIONS_DIR}|{DELETIONS_DIR})/[^/]+")
_INDEX = re.compile(rf"{INDICES_DIR}/[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}/(.+)")
_HEARTBEAT = 60.0
"""Seconds after which whoever removes many files says that he is still at it."""


def root_of(main: Store, name: BranchName) -> Store:
    """Where a branch lives."""
    return main.at(f"{TREE_DIR}/{name}")


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The keys of a branch's files, below its root."""

    manifests: tuple[str, ...]
    others: tuple[str, ...]


def find_files(root: Store) -> RootFiles:
    """Every file of a branch but the intent."""
    manifests: list[str] = []
    others: list[str] = []
    for directory in _DIRECTORIES:
        for each in root.list(directory):
            if each.key == INTENT_KEY or not _is_own(each.key):
                continue
            _, _, name = each.key.partition("/")
            is_manifest = directory == VERSIONS_DIR and parse_manifest_name(name) is not None
            (manifests if is_manifest else others).append(each.key)
    return RootFiles(tuple(manifests), tuple(others))


def _is_own(key: str) -> bool:
    if key.startswith(f"{DATA_DIR}/"):
        return is_data_key(key)
    index = _INDEX.fullmatch(key)
    if index:
        return index[1].partition("/")[0] not in OWNED_DIRS
    return _FLAT.fullmatch(key) is not None


def remove_files(
    root: Store, files: RootFiles, still_mine: Callable[[], None] = lambda: None
) -> None:
    """Remove them, the manifests first: what has none is no longer a root.

    ``still_mine`` is called about once a minute, and stops it by raising.
    """
    told = time.monotonic()
    for some in chunks([*files.manifests, *files.others], MOST_KEYS):
        if time.monotonic() - told > _HEARTBEAT:
            still_mine()
            told = time.monotonic()
        root.delete(some)


def prune(main: Store, name: BranchName) -> None:
    """Remove the directories of a branch that hold nothing any more, and those above likewise."""
    root = f"{TREE_DIR}/{name}"
    for directory in _DIRECTORIES:
        main.prune(f"{root}/{directory}")
    while next(main.list(root), None) is None:
        main.prune(root)
        above, _, _ = root.rpartition("/")
        if not above:
            return
        root = above
