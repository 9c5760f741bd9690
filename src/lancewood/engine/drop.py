"""Removing a table: the directories that the format owns, and nothing else."""

from __future__ import annotations

from lancewood.engine.versions import list_versions, newest_version
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import (
    DATA_DIR,
    OWNED_DIRS,
    REFS_DIR,
    VERSIONS_DIR,
    manifest_key,
)
from lancewood.store.base import Store


def drop_table(store: Store, *, force: bool) -> None:
    """Delete what the format owns below the root: manifests first, the newest of them last.

    So a reader, or whoever comes after a crash, finds the newest version or no table. Base paths
    elsewhere are never touched. Raises NotFoundError if there is no table, InvalidInputError if
    branches or tags name its versions and ``force`` is not given.
    """
    if newest_version(store) is None:
        raise NotFoundError(f"no table at {store.uri}, nothing was dropped")
    if not force:
        named = [
            f"{kind} {name.removesuffix('.json')}"
            for kind, folder in (("branch", "branches"), ("tag", "tags"))
            for name in store.names(f"{REFS_DIR}/{folder}")
        ]
        if named:
            raise InvalidInputError(
                f"{store.uri} still has {', '.join(sorted(named)[:5])}"
                f"{' and more' if len(named) > 5 else ''}; drop them first, or use force=True"
            )
    found = list_versions(store)
    oldest_first = [manifest_key(each, found.scheme) for each in reversed(found.versions)]
    others = {each.key for each in store.list(VERSIONS_DIR)} - set(oldest_first)
    store.delete([*others, *oldest_first])
    for directory in OWNED_DIRS:
        store.delete(each.key for each in store.list(directory) if _is_ours(each.key))
        store.prune(directory)
    store.prune("")


def _is_ours(key: str) -> bool:
    """Whether the format put it there: in ``data/``, which may be shared, only data files."""
    directory, _, name = key.partition("/")
    return directory != DATA_DIR or ("/" not in name and name.endswith(".lance"))
