"""The roots of branches: directories below ``tree/`` that hold manifests of their own."""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.format.layout import TREE_DIR, VERSIONS_DIR, parse_manifest_name
from lancewood.store.base import Store


def branch_roots(store: Store) -> Iterator[str]:
    """Each root below ``tree/`` that holds manifests, with or without a ref that names it.

    Lists everything below ``tree/``, as far as the iterator is read.
    """
    seen = set()
    for root, _ in branch_manifests(store):
        if root not in seen:
            seen.add(root)
            yield root


def branch_manifests(store: Store) -> Iterator[tuple[str, str]]:
    """Every manifest below ``tree/``, from one listing: its root, and the name of its file."""
    middle = f"/{VERSIONS_DIR}/"
    for each in store.list(TREE_DIR):
        root, found, name = each.key.rpartition(middle)
        if found and parse_manifest_name(name):
            yield root, name
