"""A bare git repository in SHA-256 object format in a bucket: made, opened, and checked to be one.

The keys are the paths that git has on a disk, so that a plain download of them is a repository for
stock git, and an upload of one is a repository for us. Knows the layout; knows nothing of tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Self, TypeVar

from lancewood.errors import NotFoundError, UnsupportedError
from lancewood.git.bucket.config import CONFIG, BucketConfig
from lancewood.git.bucket.loose import OBJECTS, BucketLoose
from lancewood.git.bucket.many import at_once
from lancewood.git.bucket.packs import BucketPacks
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.kind import already_there, check_kind, new_config
from lancewood.git.names import HEAD, HEADS, checked_branch
from lancewood.git.objects import Objects
from lancewood.git.repository import GitRepository
from lancewood.store.base import PutOutcome, Store, is_there
from lancewood.store.locate import open_store
from lancewood.store.probe import check_compare_and_swap
from lancewood.store.readback import put_new_settled

T = TypeVar("T")

_OURS = "lancewood"


class BucketRepository(GitRepository):
    """Made by ``init`` and ``open``. What is written is durable when the store has it."""

    def __init__(self, store: Store) -> None:
        self.home = store.uri
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
        """As on a disk. UnsupportedError where the store does not hold to conditions."""
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
        """As on a disk: NotFoundError where there is none, UnsupportedError for another kind."""
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
        """Finish what dead processes left half made, and fold the logs of refs; the keys of the
        first."""
        return self._bucket_refs.tidy(dry_run=dry_run)

    def all_of(self, works: Sequence[Callable[[], T]]) -> list[T]:
        return at_once(works)

    def turn(self) -> AbstractContextManager[None]:
        return self._bucket.turn("refs")

    def _store(self) -> Store:
        return self._bucket
