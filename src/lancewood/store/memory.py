"""The reference store: a dictionary in this process, short enough to read in a minute.

A store that is unpickled in another process finds its name, but not its objects.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.store.base import (
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    check_directory,
    check_key,
    check_range,
)

_writes = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    modified: datetime = field(default_factory=lambda: datetime.now(UTC))
    etag: str = field(default_factory=lambda: f"{next(_writes):x}")

    def info(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.data), self.modified, self.etag)


@dataclass(frozen=True, slots=True)
class _Bucket:
    objects: dict[str, _Object] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)


_buckets: dict[str, _Bucket] = {}


class MemoryStore:
    """``memory://name``: the same name is the same data for as long as the process lives."""

    lists_in_order = True
    is_far = False
    probed_as = None

    def __init__(self, name: str | None = None, prefix: str = "") -> None:
        self._name = uuid4().hex if name is None else name
        check_key(self._name)
        if "/" in self._name:
            raise InvalidInputError(f"memory store name {name!r} is not allowed: it contains '/'")
        prefix = check_directory(prefix)
        self._prefix = f"{prefix}/" if prefix else ""
        self._bucket = _buckets.setdefault(self._name, _Bucket())
        self.uri = f"memory://{self._name}/{prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"MemoryStore({self.uri!r})"

    def __reduce__(self) -> tuple[type[MemoryStore], tuple[str, str]]:
        return MemoryStore, (self._name, self._prefix)

    def get(self, key: str) -> bytes:
        return self._find(key).data

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        return self._find(key).data[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        return self._find(key).info(key)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        start = len(self._prefix)
        return iter([each.info(key[start:]) for key, each in self._below(prefix)])

    def names(self, directory: str) -> Iterator[str]:
        start = len(self._prefix) + len(f"{check_directory(directory)}/".lstrip("/"))
        return iter([key[start:] for key, _ in self._below(directory) if "/" not in key[start:]])

    def directories(self, directory: str) -> Iterator[str]:
        start = len(self._prefix) + len(f"{check_directory(directory)}/".lstrip("/"))
        deeper = (key[start:].split("/") for key, _ in self._below(directory))
        return iter(dict.fromkeys(each[0] for each in deeper if len(each) > 1))

    def stamp(self, directory: str) -> None:
        check_directory(directory)

    def put(self, key: str, data: bytes) -> None:
        check_key(key)
        with self._bucket.lock:
            self._bucket.objects[self._prefix + key] = _Object(bytes(data))

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        for key in objects:
            check_key(key)
        for key, data in objects.items():
            self.put(key, data)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        check_key(key)
        self.put(key, b"".join(parts))

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        check_key(key)
        with self._bucket.lock:
            if self._prefix + key in self._bucket.objects:
                return PutOutcome.EXISTS
            self._bucket.objects[self._prefix + key] = _Object(bytes(data))
            return PutOutcome.CREATED

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        check_key(key)
        with self._bucket.lock:
            found = self._bucket.objects.get(self._prefix + key)
            if found is None or found.etag != expected_etag:
                return ReplaceOutcome.CHANGED
            self._bucket.objects[self._prefix + key] = _Object(bytes(data))
            return ReplaceOutcome.REPLACED

    def copy(self, source: str, target: str) -> None:
        self.put(target, self.get(source))

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        check_key(target)
        if not isinstance(source, MemoryStore):
            return False
        self.put(target, source.get(found.key))
        return True

    def delete(self, keys: Iterable[str]) -> None:
        targets = [*keys]
        for key in targets:
            check_key(key)
        with self._bucket.lock:
            for key in targets:
                self._bucket.objects.pop(self._prefix + key, None)

    def prune(self, directory: str) -> None:
        check_directory(directory)

    def sync(self, keys: Sequence[str]) -> None:
        for key in keys:
            check_key(key)

    def turn(self, directory: str) -> AbstractContextManager[None]:
        check_directory(directory)
        return nullcontext()

    def at(self, prefix: str) -> MemoryStore:
        return MemoryStore(self._name, self._prefix + check_directory(prefix))

    def location(self, key: str) -> None:
        check_key(key)

    def _find(self, key: str) -> _Object:
        check_key(key)
        found = self._bucket.objects.get(self._prefix + key)
        if found is None:
            raise NotFoundError(f"{key!r} not found in {self.uri}", key=key, uri=self.uri)
        return found

    def _below(self, directory: str) -> Iterable[tuple[str, _Object]]:
        inside = self._prefix + f"{check_directory(directory)}/".lstrip("/")
        with self._bucket.lock:
            return sorted(
                each for each in self._bucket.objects.items() if each[0].startswith(inside)
            )
