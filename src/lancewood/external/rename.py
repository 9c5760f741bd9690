"""Committing by renaming: for a store that can rename, or copy, only if nothing is there.

An object is put under a name of its own, and renamed; that fails where the new name is taken.
Whether the store means it is found out by the same probe as put-if-absent.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol, runtime_checkable
from uuid import uuid4

from lancewood.errors import StorageError, UnsupportedError
from lancewood.external.around import StoreAround
from lancewood.store.base import PutOutcome, Store


@runtime_checkable
class Renaming(Protocol):
    """A store that can rename if absent."""

    def rename_new(self, source: str, target: str) -> PutOutcome:
        """Give an object another name, unless that is taken: then both stay as they are."""


class RenamingStore(StoreAround):
    """``inner``, where ``put_new`` is a put and a rename-if-absent."""

    def __init__(self, inner: Store) -> None:
        if not isinstance(inner, Renaming):
            raise UnsupportedError(
                f"{inner.uri} cannot rename if absent; it needs no help to commit safely"
            )
        super().__init__(inner)

    @property
    def probed_as(self) -> str | None:
        place = self.inner.probed_as
        return None if place is None else f"renaming in {place}"

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        staged = f"{key}-{uuid4()}"
        inner = self.inner
        assert isinstance(inner, Renaming)
        try:
            inner.put(staged, data)
        except StorageError as error:
            raise StorageError(error.message, **{**error.facts, "landed": False}) from error
        outcome = inner.rename_new(staged, key)  # what is unclear leaves the staged one alone
        if outcome is PutOutcome.EXISTS:
            with suppress(StorageError):
                inner.delete([staged])
        return outcome
