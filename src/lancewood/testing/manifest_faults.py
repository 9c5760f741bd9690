"""A manifest store that fails, loses an answer or dies, together with the store beside it.

Knows the verbs of both and nothing of what is written: one count goes through the calls of the two,
so that a test can hurt each of them in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.external.base import Entry, Forgetting, ManifestStore
from lancewood.model.ids import Version
from lancewood.testing.faults import FaultyStore


class FaultyManifests:
    """``inner``, whose calls are counted and hurt by the script of a faulty store."""

    kind = "faulty"

    def __init__(self, inner: ManifestStore, beside: FaultyStore) -> None:
        self._inner, self._beside = inner, beside
        self.kind = str(getattr(inner, "kind", self.kind))

    def get(self, base: str, version: Version) -> Entry | None:
        return self._beside._call("entry", str(version), lambda: self._inner.get(base, version))

    def latest(self, base: str) -> Entry | None:
        return self._beside._call("latest", base, lambda: self._inner.latest(base))

    def put_if_not_exists(self, base: str, entry: Entry) -> bool:
        return self._beside._call(
            "put_if_not_exists", entry.path, lambda: self._inner.put_if_not_exists(base, entry)
        )

    def put_if_exists(self, base: str, entry: Entry) -> bool:
        return self._beside._call(
            "put_if_exists", entry.path, lambda: self._inner.put_if_exists(base, entry)
        )

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        inner = self._inner
        assert isinstance(inner, Forgetting)
        self._beside._call("forget", base, lambda: inner.forget(base, gone))
