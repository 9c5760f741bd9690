"""Removing a table: the directories that the format owns, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from lancewood.engine.roots import branch_roots
from lancewood.engine.versions import list_versions, newest_version
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import (
    DATA_DIR,
    OWNED_DIRS,
    VERSIONS_DIR,
    is_data_key,
    manifest_key,
)
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, ref_name
from lancewood.store.base import Store

CLONE_PIN = "lw.clone."
"""A tag whose name begins so says that a clone elsewhere reads this table's files."""
_SHOWN = 5


def drop_table(store: Store, *, force: bool) -> None:
    """Delete what the format owns below the root: manifests first, the newest of them last.

    So a reader, or whoever comes after a crash, finds the newest version or no table. Base paths
    elsewhere are never touched. Raises NotFoundError if there is no table, InvalidInputError if
    branches, tags or clones rest on its versions and ``force`` is not given, or if one of its
    directories is a link.
    """
    if newest_version(store) is None:
        raise NotFoundError(f"no table at {store.uri}, nothing was dropped")
    if not force:
        _check_unused(store)
    for directory in OWNED_DIRS:
        for _ in store.list(directory):
            pass  # what cannot be listed, as behind a link, stops it before anything is gone
    found = list_versions(store)
    oldest_first = [manifest_key(each, found.scheme) for each in reversed(found.versions)]
    others = {each.key for each in store.list(VERSIONS_DIR)} - set(oldest_first)
    store.delete([*others, *oldest_first[:-1]])
    store.delete(oldest_first[-1:])
    for directory in OWNED_DIRS:
        store.delete(each.key for each in store.list(directory) if _is_ours(each.key))
        store.prune(directory)
    store.prune("")


def _check_unused(store: Store) -> None:
    named = sorted([*_refs(store, BRANCHES_DIR, "branch"), *_refs(store, TAGS_DIR, "tag")])
    if not named:
        nameless = islice(branch_roots(store), 1)
        named = [f"{each}, which has versions but no branch of that name" for each in nameless]
    if named:
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        raise InvalidInputError(
            f"{store.uri} still has {', '.join(named[:_SHOWN])}{more}; "
            "remove them first, or force it (force=True, lw table drop --force)",
            holds=named,
        )


def _refs(store: Store, directory: str, kind: str) -> Iterator[str]:
    for file in store.names(directory):
        name = ref_name(file)
        if name is None:
            continue
        if kind == "tag" and name.startswith(CLONE_PIN):
            yield f"a clone (its pin is tag {name})"
        else:
            yield f"{kind} {name}"


def _is_ours(key: str) -> bool:
    """Whether the format put it there: ``data/`` may be shared with others."""
    return not key.startswith(f"{DATA_DIR}/") or is_data_key(key)
