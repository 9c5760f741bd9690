"""Object stores: S3, Google Cloud Storage and Azure, through obstore.

Reads, lists, plain puts, copies and deletes are sent again after throttling, 5xx, timeouts and
broken connections. ``put_new`` and ``replace`` are sent again only after the store asked for fewer
requests, and even then an answer that could be about our own first attempt is passed on as unclear.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain, islice
from typing import Any, TypeVar

from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError, StorageError
from lancewood.store.answers import FailureAnswer, read_answer
from lancewood.store.base import (
    ObjectInfo,
    PutOutcome,
    ReplaceOutcome,
    Store,
    check_directory,
    check_key,
    check_range,
)
from lancewood.store.calls import (
    PAGE,
    copy_object,
    delete_objects,
    get_object,
    get_part,
    head_object,
    list_directories,
    list_objects,
    put_in_parts,
    put_object,
    rename_object,
)
from lancewood.store.clients import clients_for
from lancewood.store.lockfile import queued
from lancewood.store.options import StorageOptions, is_harmless

T = TypeVar("T")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LAST = "\U0010ffff"
_MOST_IN_ONE_COPY = 5 * 1000**3
_EXPRESS = "--x-s3"


class ObjectStore:
    """Objects of a bucket below ``prefix``. No text shows options or credentials.

    ``unsafe`` says that the user vouches for put-if-absent. Etags are the store's: on S3 they are
    hashes, so restored bytes restore their etag. ``copy`` is done by the store, where one call may
    be limited in size (5 GB on S3).
    """

    is_far = True

    def __init__(
        self,
        scheme: str,
        bucket: str,
        prefix: str,
        options: StorageOptions,
        *,
        unsafe: bool = False,
    ) -> None:
        prefix = check_directory(prefix)
        self._check_text(prefix)
        self._clients = clients_for(scheme, f"{scheme}://{bucket}", options)
        self._clients.check()
        self._prefix = f"{prefix}/" if prefix else ""
        self._unsafe = unsafe

    def __repr__(self) -> str:
        return f"ObjectStore({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._clients.root + f"/{_quoted(self._prefix)}".rstrip("/")

    @property
    def lists_in_order(self) -> bool:
        """True except for S3's directory buckets."""
        return not self._clients.root.endswith(_EXPRESS)

    @property
    def probed_as(self) -> str | None:
        if self._unsafe:
            return None
        options = self._clients.options
        where = [f"{key.lower()}={options[key]}" for key in sorted(options) if is_harmless(key)]
        return " ".join([self._clients.root, *where])

    def get(self, key: str) -> bytes:
        path = self._path(key)
        return self._read("read", key, lambda: get_object(self._clients.patient, path))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        path = self._path(key)
        if not length:
            self.head(key)
            return b""
        answer = self._try(
            "read", key, lambda: get_part(self._clients.patient, path, start, length)
        )
        if isinstance(answer, FailureAnswer):
            if answer.is_beyond:
                return b""
            raise answer.error
        return answer

    def head(self, key: str) -> ObjectInfo:
        path = self._path(key)
        found = self._read("look at", key, lambda: head_object(self._clients.patient, path))
        return _info(key, found)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        directory = check_directory(prefix)
        self._check_text(directory)
        return self._listed(self._prefix + (f"{directory}/" if directory else ""))

    def names(self, directory: str) -> Iterator[str]:
        directory = check_directory(directory)
        self._check_text(directory)
        return self._names(self._prefix + (f"{directory}/" if directory else ""))

    def directories(self, directory: str) -> Iterator[str]:
        directory = check_directory(directory)
        self._check_text(directory)
        inside = self._prefix + (f"{directory}/" if directory else "")
        above = inside.rstrip("/")
        found = self._read(
            "list", directory, lambda: list_directories(self._clients.patient, above)
        )
        return iter([each.rstrip("/")[len(inside) :] for each in found])

    def stamp(self, directory: str) -> None:
        check_directory(directory)

    def put(self, key: str, data: bytes) -> None:
        path = self._path(key)
        self._read("write", key, lambda: put_object(self._clients.patient, path, data))

    def put_together(self, objects: Mapping[str, bytes]) -> None:
        for key in objects:
            check_key(key)
        for key, data in objects.items():
            self.put(key, data)

    def put_parts(self, key: str, parts: Iterable[bytes]) -> None:
        path = self._path(key)
        coming = iter(parts)
        first, second = next(coming, b""), next(coming, None)
        if second is None:
            self.put(key, first)
            return
        self._read(
            "write",
            key,
            lambda: put_in_parts(self._clients.patient, path, chain((first, second), coming)),
        )

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        path = self._path(key)
        created = self._put_if(
            "create", key, lambda: put_object(self._clients.once, path, data, mode="create")
        )
        return PutOutcome.CREATED if created else PutOutcome.EXISTS

    def rename_new(self, source: str, target: str) -> PutOutcome:
        """Rename an object, unless the new name is taken: then both stay as they are.

        Raises UnsupportedError where the store has no such request; S3 has it where the option
        ``copy_if_not_exists`` says how.
        """
        origin, path = self._path(source), self._path(target)
        renamed = self._put_if(
            "create", target, lambda: rename_object(self._clients.once, origin, path)
        )
        return PutOutcome.CREATED if renamed else PutOutcome.EXISTS

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        path = self._path(key)
        mode = {"e_tag": expected_etag}
        if self._clients.scheme == "gs":
            # GCS swaps by generation number; the etag is compared here, the swap stays atomic.
            try:
                found = self._read("look at", key, lambda: head_object(self._clients.patient, path))
            except NotFoundError:
                return ReplaceOutcome.CHANGED
            if _etag(found) != expected_etag:
                return ReplaceOutcome.CHANGED
            mode["version"] = str(found["version"])
        replaced = self._put_if(
            "replace", key, lambda: put_object(self._clients.once, path, data, mode=mode)
        )
        return ReplaceOutcome.REPLACED if replaced else ReplaceOutcome.CHANGED

    def copy(self, source: str, target: str) -> None:
        origin, path = self._path(source), self._path(target)
        if source == target:
            self.head(source)
            return
        answer = self._try(
            "copy to", target, lambda: copy_object(self._clients.patient, origin, path)
        )
        if isinstance(answer, FailureAnswer):
            if isinstance(answer.error, NotFoundError):
                raise NotFoundError(f"{source!r} not found in {self.uri}", key=source, uri=self.uri)
            raise answer.error

    def copy_from(
        self, source: Store, found: ObjectInfo, target: str, *, may_link: bool = False
    ) -> bool:
        path = self._path(target)
        if not isinstance(source, ObjectStore) or found.size > _MOST_IN_ONE_COPY:
            return False
        here, there = self._clients, source._clients
        if (here.root, here.options) != (there.root, there.options):
            return False
        origin = source._path(found.key)
        if origin == path:
            return True
        answer = self._try("copy to", target, lambda: copy_object(here.patient, origin, path))
        if isinstance(answer, FailureAnswer):
            if isinstance(answer.error, NotFoundError):
                raise NotFoundError(
                    f"{found.key!r} not found in {source.uri}", key=found.key, uri=source.uri
                )
            raise answer.error
        return True

    def delete(self, keys: Iterable[str]) -> None:
        pending = iter([(key, self._path(key)) for key in dict.fromkeys(keys)])
        while batch := [*islice(pending, PAGE)]:
            self._delete(batch)

    def prune(self, directory: str) -> None:
        check_directory(directory)

    def sync(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._path(key)

    def turn(self, directory: str) -> AbstractContextManager[None]:
        """A queue among the processes of this user on this machine; the store settles races with
        others."""
        return queued(_queue(f"{self.uri}/{check_directory(directory)}"))

    def at(self, prefix: str) -> ObjectStore:
        prefix = check_directory(prefix)
        self._check_text(prefix)
        deeper = ObjectStore.__new__(ObjectStore)
        deeper.__dict__.update(self.__dict__)
        deeper._prefix = f"{self._prefix}{prefix}/" if prefix else self._prefix
        return deeper

    def location(self, key: str) -> str:
        """The URI that pylance opens, with the same options."""
        return f"{self._clients.root}/{_quoted(self._path(key))}"

    def _path(self, key: str) -> str:
        check_key(key)
        self._check_text(key)
        return self._prefix + key

    @staticmethod
    def _check_text(key: str) -> None:
        if _CONTROL.search(key):
            raise InvalidInputError(
                f"key {key!r} is not allowed: it contains a control character", key=key
            )

    def _listed(self, inside: str) -> Iterator[ObjectInfo]:
        start = len(self._prefix)
        for found in self._pages(inside, None):
            yield _info(found["path"][start:], found)

    def _names(self, inside: str) -> Iterator[str]:
        """The names, lazily. Deeper objects are listed too, so they are skipped: the listing starts
        again behind each subdirectory, where the store lists in order."""
        after: str | None = None
        while True:
            for found in self._pages(inside, after):
                name, slash, _ = found["path"][len(inside) :].partition("/")
                if not slash:
                    yield name
                elif self.lists_in_order:
                    after = f"{inside}{name}/{_LAST}"
                    break
            else:
                return

    def _pages(self, inside: str, after: str | None) -> Iterator[Any]:
        """Objects below ``inside``, behind the path ``after``, one request for each thousand."""
        directory = inside.rstrip("/")
        stream: Any = self._read(
            "list", directory, lambda: list_objects(self._clients.patient, directory, after)
        )
        while True:
            page = self._read("list", directory, lambda: next(stream, None))
            if page is None:
                return
            # Some tools leave a marker for a directory, which has the directory's own name.
            yield from (each for each in page if each["path"].startswith(inside))

    def _delete(self, batch: Sequence[tuple[str, str]]) -> None:
        paths = [path for _, path in batch]
        failure: LancewoodError | None = None
        for _ in self._clients.settings.retry:
            answer = self._try(
                "delete", batch[0][0], lambda: delete_objects(self._clients.patient, paths)
            )
            if not isinstance(answer, FailureAnswer):
                return
            if isinstance(answer.error, NotFoundError):
                if len(batch) > 1:
                    for each in batch:
                        self._delete([each])
                return
            failure = answer.error
            if not answer.is_passing:
                break
        assert failure is not None
        raise failure

    def _put_if(self, verb: str, key: str, action: Callable[[], object]) -> bool:
        """Whether the condition held. Unclear answers raise StorageError."""
        answer: object = None
        for attempt in self._clients.settings.retry:
            answer = self._try(verb, key, action)
            if not isinstance(answer, FailureAnswer):
                if answer or not attempt:
                    return bool(answer)
                raise StorageError(
                    f"cannot {verb} {key!r} in {self.uri}: the store says that it is taken, after "
                    "an attempt that it had turned away; that attempt may have been carried out",
                    key=key,
                    uri=self.uri,
                )
            if not answer.is_throttle:
                break
        assert isinstance(answer, FailureAnswer)
        raise answer.error

    def _read(self, verb: str, key: str, action: Callable[[], T]) -> T:
        answer = self._try(verb, key, action)
        if isinstance(answer, FailureAnswer):
            raise answer.error
        return answer

    def _try(self, verb: str, key: str, action: Callable[[], T]) -> T | FailureAnswer:
        """What the client returned, or the error for its exception. The caller raises that outside
        any handler, so that the client's own exception is not chained."""
        try:
            return action()
        except LancewoodError:
            raise
        except BaseException as error:
            # A panic of the client is a BaseException; everything else of that kind is not ours.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            return read_answer(error, verb, key, self.uri, self._clients.options)


def _info(key: str, found: Any) -> ObjectInfo:
    return ObjectInfo(key, found["size"], found["last_modified"], _etag(found))


def _etag(found: Any) -> str:
    return str(found["e_tag"] or f"{found['last_modified'].isoformat()}-{found['size']}")


def _quoted(path: str) -> str:
    """A path as pylance reads it in a URI: these three characters have a meaning there."""
    return path.replace("%", "%25").replace("#", "%23").replace("?", "%3F")


def _queue(place: str) -> str:
    """A local directory that represents a remote location; only courtesy locks use it."""
    name = hashlib.sha256(place.encode()).hexdigest()[:32]
    directory = f"{tempfile.gettempdir()}/lancewood-{os.getuid()}/turns/{name}"
    with suppress(OSError):
        os.makedirs(directory, mode=0o700, exist_ok=True)
    return directory
