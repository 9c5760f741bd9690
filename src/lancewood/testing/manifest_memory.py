"""The reference manifest store: a dictionary, with the four verbs and nothing else.

Knows one process. For tests that step through every order of calls, and as what a store of your
own looks like.
"""

from __future__ import annotations

import threading

from lancewood.external.base import Entry
from lancewood.model.ids import Version


class MemoryManifests:
    """Entries for as long as the object lives."""

    kind = "memory"

    def __init__(self) -> None:
        self.entries: dict[tuple[str, Version], Entry] = {}
        self._lock = threading.Lock()

    def get(self, base: str, version: Version) -> Entry | None:
        return self.entries.get((base, version))

    def latest(self, base: str) -> Entry | None:
        with self._lock:
            return max((e for (b, _), e in self.entries.items() if b == base), default=None)

    def put_if_not_exists(self, base: str, entry: Entry) -> bool:
        with self._lock:
            return self.entries.setdefault((base, entry.version), entry) is entry

    def put_if_exists(self, base: str, entry: Entry) -> bool:
        with self._lock:
            is_there = (base, entry.version) in self.entries
            if is_there:
                self.entries[base, entry.version] = entry
            return is_there
