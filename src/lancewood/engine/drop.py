"""Removing a table: the directories that the format owns, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from lancewood.engine.versions import list_versions, newest_version
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import (
    DATA_DIR,
    OWNED_DIRS,
    REFS_DIR,
    TREE_DIR,
    VERSIONS_DIR,
    manifest_key,
    parse_manifest_name,
)
from lancewood.store.base import Store

CLONE_PIN = "lw.clone."
"""A tag whose name begins so says that a clone elsewhere reads this table's files."""
_SUFFIX = ".json"
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
    store.delete([*others, *oldest_first])
    for directory in OWNED_DIRS:
        store.delete(each.key for each in store.list(directory) if _is_ours(each.key))
        store.prune(directory)
    store.prune("")


def _check_unused(store: Store) -> None:
    named = sorted([*_refs(store, "branches", "branch"), *_refs(store, "tags", "tag")])
    if not named:
        named = list(_nameless_branch(store))
    if named:
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        raise InvalidInputError(
            f"{store.uri} still has {', '.join(named[:_SHOWN])}{more}; "
            "remove them first, or force it (force=True, lw table drop --force)",
            holds=named,
        )


def _refs(store: Store, folder: str, kind: str) -> Iterator[str]:
    for file in store.names(f"{REFS_DIR}/{folder}"):
        if not file.endswith(_SUFFIX):
            continue
        name = unquote(file.removesuffix(_SUFFIX))
        if kind == "tag" and name.startswith(CLONE_PIN):
            yield f"a clone (its pin is tag {name})"
        else:
            yield f"{kind} {name}"


def _nameless_branch(store: Store) -> Iterator[str]:
    """The first branch below ``tree/`` that no ref names: one under way, or left behind."""
    middle = f"/{VERSIONS_DIR}/"
    for each in store.list(TREE_DIR):
        root, found, name = each.key.rpartition(middle)
        if found and parse_manifest_name(name):
            yield f"{root}, which has versions but no branch of that name"
            return


def _is_ours(key: str) -> bool:
    """Whether the format put it there: in ``data/``, which may be shared, only data files."""
    directory, _, name = key.partition("/")
    return directory != DATA_DIR or ("/" not in name and name.endswith(".lance"))
