"""The hint that tells readers where to look for the newest version. Nothing rests on it."""

from __future__ import annotations

import contextlib
import json

from lancewood.errors import StorageError
from lancewood.format.layout import HINT_KEY
from lancewood.model.ids import Version
from lancewood.store.base import Store


def leave_hint(store: Store, version: Version) -> None:
    """Write the hint where it can help, best effort.

    It helps where a listing is costly: pylance looks at none on a disk, nor where the first page of
    an ordered listing is enough.
    """
    if "://" not in store.uri or store.lists_in_order:
        return
    with contextlib.suppress(StorageError):
        store.put(HINT_KEY, json.dumps({"version": version}, separators=(",", ":")).encode())
