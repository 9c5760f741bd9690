"""Whether a table is committed to as its configuration says: through its manifest store.

Knows kinds, not addresses: two stores of one kind are not told apart.
"""

from __future__ import annotations

from lancewood.engine.place import Place
from lancewood.errors import UnsupportedError
from lancewood.external.store import ExternalStore
from lancewood.model.manifest import ManifestHead
from lancewood.model.manifest_store import MANIFEST_STORE_KEY, manifest_store_of
from lancewood.store.base import Store


def manifest_store_mark(store: Store) -> dict[str, str]:
    """What the configuration of a new table says of the store that it is committed through."""
    return {MANIFEST_STORE_KEY: store.kind} if isinstance(store, ExternalStore) else {}


def check_manifest_store(place: Place, head: ManifestHead) -> None:
    """Raise UnsupportedError, before any work is done, where a commit would go past the manifest
    store of a table."""
    wanted = manifest_store_of(head)
    found = manifest_store_mark(place.store).get(MANIFEST_STORE_KEY)
    if wanted is None or wanted == found:
        return
    opened = "without one" if found is None else f"with one of kind {found!r}"
    raise UnsupportedError(
        f"{place.uri} is committed to through a manifest store of kind {wanted!r}, and was opened "
        f"{opened}: a commit from here could be lost, or lose another. Open it with that "
        "manifest_store. If this is a copy that nobody else writes to, "
        f"set_config({{{MANIFEST_STORE_KEY!r}: None}}) frees it",
        manifest_store=wanted,
    )
