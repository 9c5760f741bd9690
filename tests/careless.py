"""A store without conditional writes, as some S3 servers are."""

from __future__ import annotations

from uuid import uuid4

from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.testing.faults import WatchedStore


class CarelessStore(WatchedStore):
    """Ignores the conditions of ``put_new`` and ``replace``, as some S3 servers do: it always
    writes, and reports success."""

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
