"""A bare git repository in SHA-256 object format in a bucket.

The keys are the paths that git uses on a disk: a plain download is a repository for stock git, and
an upload of one is a repository for us. git's ``config`` is replaced by conditional puts, and what
was read of it is valid as long as its etag is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Self, TypeVar

from lancewood.errors import (
    CommitUnknownError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedError,
)
from lancewood.git.bucket.loose import OBJECTS, BucketLoose, BucketPacks, at_once
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.config import GitSettings
from lancewood.git.names import HEAD, HEADS, checked_branch
from lancewood.git.objects import Objects
from lancewood.git.repository import GitRepository, already_there, check_kind, new_config
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store, is_there
from lancewood.store.locate import open_store
from lancewood.store.probe import check_compare_and_swap
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import BUCKET_RACES

CONFIG = "config"
T = TypeVar("T")
_OURS = "lancewood"


class BucketConfig(GitSettings):
    """The ``config`` of the repository, with the user's and the machine's as fallback."""

    def __init__(self, store: Store) -> None:
        super().__init__(f"{store.uri}/{CONFIG}")
        self._store = store

    def set(self, section: str, key: str, value: str) -> None:
        """Write a setting. Raises CommitUnknownError if the store did not say whether it was
        written, RetryableConflictError if others were always faster."""
        unclear: StorageError | None = None
        for _ in BUCKET_RACES:
            etag, data = str(self._stamp()), self._read()
            after = self._changed(data, section, key, value)
            if after == data:
                return
            try:
                if self._store.replace(CONFIG, after, etag) is ReplaceOutcome.REPLACED:
                    return
                unclear = None
            except StorageError as error:
                if error.facts.get("final"):
                    raise
                unclear = error
        if unclear is not None:
            raise CommitUnknownError(
                f"whether {section}.{key} was written to {self.file} is unknown: {unclear}; write "
                "it again, which does no harm"
            ) from unclear
        raise RetryableConflictError(
            f"{self.file} was changed by others {BUCKET_RACES.attempts} times while "
            f"{section}.{key} was to be written; try again"
        )

    def _stamp(self) -> object:
        try:
            return self._store.head(CONFIG).etag
        except NotFoundError as cause:
            raise self._missing() from cause

    def _read(self) -> bytes:
        try:
            return self._store.get(CONFIG)
        except NotFoundError as cause:
            raise self._missing() from cause


class BucketRepository(GitRepository):
    """Made by ``init`` and ``open``. What is written is durable once the store has it."""

    def __init__(self, store: Store) -> None:
        self.root = store.uri
        self._bucket = store
        self.objects = Objects(
            f"{store.uri}/{OBJECTS}",
            fsync=False,
            loose=BucketLoose(store),
            packs=BucketPacks(store),
        )
        self._bucket_refs = BucketRefs(store, write_objects=self.objects.write)
        self.refs = self._bucket_refs
        self.config = BucketConfig(store)

    @classmethod
    def init(
        cls,
        path: str | os.PathLike[str],
        *,
        branch: str = "main",
        settings: Mapping[str, str] | None = None,
        fsync: bool | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """A new repository without a commit, whose HEAD names ``branch``. Raises UnsupportedError
        if the store does not honour conditional puts."""
        target = HEADS + checked_branch(branch)
        config = new_config(settings)
        store = open_store(path, fsync=fsync, storage_options=storage_options)
        if is_there(store, HEAD):
            raise already_there(store.uri)
        check_compare_and_swap(store, _OURS)
        if put_new_settled(store, CONFIG, config) is PutOutcome.EXISTS:
            check_kind(store.uri, BucketConfig(store))
        if put_new_settled(store, HEAD, f"ref: {target}\n".encode()) is PutOutcome.EXISTS:
            raise already_there(store.uri)
        return cls(store)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        fsync: bool | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """The repository at a uri; NotFoundError without one, UnsupportedError for another kind."""
        store = open_store(path, fsync=fsync, storage_options=storage_options)
        if not is_there(store, HEAD):
            if is_there(store, f".git/{HEAD}"):
                raise UnsupportedError(
                    f"{store.uri} is a git repository with a work tree; Lancewood's is bare, and "
                    "its tables are the work tree: make one elsewhere"
                )
            raise NotFoundError(
                f"there is no repository at {store.uri}: HEAD not found; init makes one",
                path=store.uri,
            )
        found = cls(store)
        check_kind(store.uri, found.config)
        return found

    def tidy(self, *, dry_run: bool = False) -> list[str]:
        """Finish what dead processes left half done, and return the keys; also compacts logs."""
        return self._bucket_refs.tidy(dry_run=dry_run)

    def all_of(self, works: Sequence[Callable[[], T]]) -> list[T]:
        return at_once(works)

    def turn(self) -> AbstractContextManager[None]:
        return self._bucket.turn("refs")

    def _store(self) -> Store:
        return self._bucket
