"""A store that ignores the condition of a conditional put, as some that speak S3 do.

Knows nothing of what is written. Answers every verb with confidence: that is the trouble with it.
"""

from __future__ import annotations

from uuid import uuid4

from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.testing.faults import WatchedStore


class CarelessStore(WatchedStore):
    """``inner``, where ``put_new`` and ``replace`` always write and always say that they did."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._name = f"careless {uuid4()}"

    @property
    def probed_as(self) -> str | None:
        return self._name

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        self.put(key, data)
        return PutOutcome.CREATED

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        self.put(key, data)
        return ReplaceOutcome.REPLACED
