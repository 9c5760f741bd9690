"""A manifest store whose calls are steps of the store beside it: hurt, counted or ordered with its.

Knows the verbs of both and nothing of what is written: one script goes through the calls of the
two, so that a test can reach each of them in turn.
"""

from __future__ import annotations

from collections.abc import Mapping

from lancewood.external.base import Entry, Forgetting, ManifestStore
from lancewood.model.ids import Version
from lancewood.testing.faults import WatchedStore


class WatchedManifests:
    """``inner``, whose calls go through a watched store."""

    def __init__(self, inner: ManifestStore, beside: WatchedStore) -> None:
        self._inner, self._beside = inner, beside
        self.kind = str(getattr(inner, "kind", "external"))

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
