"""Refs in a bucket: names for commits, each an object with a hash in it, and HEAD.

A ref is an object of its own, or a line in ``packed-refs`` of a repository that was uploaded; a
marker object hides a packed ref. Refs are never packed here. In a bucket, one ref could be a
directory of another. Nobody makes such refs, since a copy on a disk could not hold both.

The contract is that of ``Refs`` on a disk, kept by other means. A ref moves by a conditional put on
the etag of the value that it had. The order is: objects are written; then the line in the log; then
the ref has its value. There are no locks. An answer that is lost is settled by reading, see
``ref_objects``, which also says how refs are made and deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from io import BytesIO

from dulwich.errors import PackedRefsException
from dulwich.refs import read_packed_refs, read_packed_refs_with_peeled

from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.bucket.loose import at_once
from lancewood.git.bucket.ref_objects import (
    ABANDONED,
    MARKER_SIZE,
    LogLines,
    Moves,
    RefObjects,
    Seen,
    deleted,
    is_making,
    making,
)
from lancewood.git.names import HEAD, is_ref
from lancewood.git.ref_files import without
from lancewood.git.ref_store import (
    SYMBOLIC,
    WORK_TREES,
    LogEntry,
    RefReader,
    RefStore,
    already_moved,
    checked_name,
    checked_packed,
    decode_ref,
    encode_entry,
    in_the_way,
    is_marker,
    standing_value,
)
from lancewood.git.syncing import Unsettled
from lancewood.git.values import ZERO, Hash, Signature
from lancewood.store.base import Store
from lancewood.store.probe import check_compare_and_swap
from lancewood.store.retry import BUCKET_RACES, REF_RACES, UNCLEAR_PUTS, Retry

_KEY = "packed-refs"
_PLAIN = ("refs/heads", "refs/tags")


class BucketPackedRefs:
    """Read anew each time: without packed refs that is one small request."""

    def __init__(self, objects: RefObjects) -> None:
        self._objects = objects
        self._store = objects.store
        self.file = f"{self._store.uri}/{_KEY}"

    def get(self, name: str) -> Hash | None:
        """The value of one ref, or None; raises FormatError."""
        return self._parsed().get(name)

    def starting_with(self, prefix: str) -> Iterator[tuple[str, Hash]]:
        """Names and values, in no order. Raises FormatError."""
        return ((name, each) for name, each in self._parsed().items() if name.startswith(prefix))

    def remove(self, name: str) -> None:
        """Take one ref out; every other line stays as it is."""
        for attempt in range(1, BUCKET_RACES.attempts + 1):
            try:
                etag = self._store.head(_KEY).etag
                data = self._store.get(_KEY)
            except NotFoundError:
                return
            kept = without(data, name)
            if kept == data or self._objects.swap(_KEY, Seen(data, etag), kept):
                return
            self._objects.pause(attempt)
        raise RetryableConflictError(
            f"cannot take {name} out of {self.file}: others changed it {BUCKET_RACES.attempts} "
            "times; try again"
        )

    def _parsed(self) -> Mapping[str, Hash]:
        try:
            data = self._store.get(_KEY)
        except NotFoundError:
            return {}
        try:
            found = {
                name.decode("utf-8", "surrogateescape"): value.decode("ascii", "replace")
                for value, name in _pairs(data)
            }
        except (PackedRefsException, ValueError) as cause:
            raise FormatError(f"{self.file}: {cause}", file=self.file) from cause
        return {name: checked_packed(value, self.file) for name, value in found.items()}


def _pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    first = data.partition(b"\n")[0]
    if first.startswith(b"# pack-refs") and b" peeled" in first:
        for value, name, _ in read_packed_refs_with_peeled(BytesIO(data)):
            yield value, name
    else:
        yield from read_packed_refs(BytesIO(data))


class BucketRefReader(RefReader):
    """Reads the objects of refs."""

    def __init__(self, objects: RefObjects) -> None:
        self._objects = objects
        self._store = objects.store
        self.root = self._store.uri
        self.packed = BucketPackedRefs(objects)

    def data(self, name: str) -> bytes | None:
        return self._objects.read(name)

    def packed_value(self, name: str) -> Hash | None:
        return self.packed.get(name)

    def look(self, name: str) -> tuple[Seen, Hash | None]:
        """What is at the key of a ref, in order to replace it, and the ref's value; raises
        InvalidInputError for a symbolic ref."""
        seen = self._objects.look(name)
        if seen.data is None:
            return seen, None if name == HEAD else self.packed.get(name)
        if seen.is_marker:
            return seen, None
        return seen, standing_value(name, decode_ref(seen.data, name, self.file(name)))

    def head_before(self, seen: Seen) -> tuple[str | None, Hash | None]:
        """What HEAD says and where it leads; None if unreadable, since it is replaced anyway."""
        text, leads_to = None, None
        with suppress(FormatError):
            if seen.data is not None:
                text = decode_ref(seen.data, HEAD, self.file(HEAD))
                leads_to = self.follow(HEAD)
        return text, leads_to

    def names(self, prefix: str) -> dict[str, Hash]:
        listed = self._listed(prefix)
        values = dict(
            zip(listed, at_once([partial(self.follow, each) for each in listed]), strict=True)
        )
        for name, value in self.packed.starting_with(prefix):
            values.setdefault(name, value)
        return {name: value for name, value in sorted(values.items()) if value is not None}

    def every_name(self, prefix: str) -> list[str]:
        found = self._read_all(self._listed(prefix))
        packed = {name for name, _ in self.packed.starting_with(prefix)}
        there = {name for name, data in found.items() if data is not None and not is_marker(data)}
        gone = {name for name, data in found.items() if data is not None and is_marker(data)}
        return sorted(there | (packed - gone))

    def work_trees(self) -> list[str]:
        return sorted(f"{WORK_TREES}/{each}" for each in self._store.directories(WORK_TREES))

    def made_around(self, name: str) -> list[str]:
        """The names above and below at which a ref is being made right now.

        Raises AlreadyExistsError if a ref is where this one needs a directory, or below it.
        """
        above = _above(name)
        found = self._read_all(
            [*above, *(each.key for each in self._store.list(name) if is_ref(each.key))]
        )
        for other, data in found.items():
            if data is not None and not is_marker(data):
                raise in_the_way(name, other)
        for other, _ in self.packed.starting_with("refs/"):
            if found.get(other) is None and (other in above or other.startswith(f"{name}/")):
                raise in_the_way(name, other)
        return [each for each, data in found.items() if data is not None and is_making(data)]

    def abandoned(self) -> Iterator[str]:
        """The names of markers that were left behind."""
        for each in self._store.list("refs"):
            is_old = datetime.now(UTC) - each.modified > ABANDONED
            if is_old and each.size == MARKER_SIZE and is_ref(each.key):
                data = self._objects.read(each.key)
                if data is not None and is_marker(data):
                    yield each.key

    def _read_all(self, names: Sequence[str]) -> dict[str, bytes | None]:
        """What is at each key, markers included."""
        found = at_once([partial(self._objects.read, each) for each in names])
        return dict(zip(names, found, strict=True))

    def _listed(self, prefix: str) -> list[str]:
        directory = prefix.rpartition("/")[0]
        keys = (each.key for each in self._store.list(directory))
        return [each for each in keys if each.startswith(prefix) and is_ref(each)]


def _above(name: str) -> list[str]:
    """The names that would have to be directories for this one."""
    parts = name.split("/")
    found = ["/".join(parts[:count]) for count in range(2, len(parts))]
    return [each for each in found if each not in _PLAIN]


_LONGER = 4
_PROBES = "lancewood"
_FOLDED_EVERY = 64
"""One move in this many folds the log of its ref; which, its hash says."""


class BucketRefs(RefStore):
    """The refs of the repository at a store. Safe to use from threads and processes.

    ``write_objects`` is called before any ref moves.
    """

    def __init__(
        self,
        store: Store,
        *,
        write_objects: Callable[[], Unsettled] = Unsettled,
        retry: Retry = UNCLEAR_PUTS,
    ) -> None:
        self._store = store
        self._write_objects = write_objects
        self._objects = RefObjects(store, retry)
        self._reader = BucketRefReader(self._objects)
        super().__init__(self._reader)
        self._moves = Moves(self._objects)

    # Reading

    def log(self, name: str) -> Iterator[LogEntry]:
        return self._log(checked_name(name))

    def _log(self, name: str) -> Iterator[LogEntry]:
        value = None
        with suppress(FormatError):
            value = self._reader.follow(name)
        yield from self._moves.read(name, value)

    def logged_names(self) -> list[str]:
        return self._moves.names()

    def _log_file(self, key: str) -> Iterator[LogEntry]:
        return self._moves.folded(key)

    # Moving

    def _move(self, name: str, old: Hash | None, new: Hash | None, line: bytes) -> bool:
        seen, value = self._reader.look(name)
        done = already_moved(name, value, old, new)
        if done is not None:
            return done
        check_compare_and_swap(self._store, _PROBES)
        self._write_objects()
        if old is None:
            done = new is not None and self._make(name, seen, new, line)
        else:
            done = self._set(name, seen, old, new, line)
        if done and new is not None and int(new[:4], 16) % _FOLDED_EVERY == 0:
            self._fold(name)
        return done

    def _set(self, name: str, seen: Seen, old: Hash, new: Hash | None, line: bytes) -> bool:
        """The log of a ref that is deleted goes with it; only HEAD's has a line about it."""
        logs = [each for each in self._logs_of(name) if new is not None or each != name]
        written, value = self._moves.write(logs, line), old
        for attempt in range(1, REF_RACES.attempts + 1):
            if value != old:
                written.take_back()
                return False
            since = time.monotonic()
            with _or_taken_back(written):
                if self._objects.swap(name, seen, deleted() if new is None else _text(new)):
                    if new is None:
                        with suppress(LancewoodError):  # it is deleted; gc does what is left
                            self._clear(name, since)
                    return True
                self._objects.pause(attempt)
                seen, found = self._reader.look(name)
            value = found or ZERO
        written.take_back()
        raise _crowded(name)

    def _make(self, name: str, seen: Seen, new: Hash, line: bytes) -> bool:
        """A marker first, then a look around, then the value: of two names that exclude each other
        the second one sees the marker or the value of the first."""
        met = value = None
        for attempt in range(1, REF_RACES.attempts + 1):
            if value is not None:
                return False
            if seen.is_marker and seen.data != met and not seen.is_abandoned:
                # Somebody is about to be done: who overwrites each other at once gets nowhere.
                met = seen.data
                self._objects.pause(attempt + _LONGER)
            elif not seen.is_deleted or seen.is_abandoned:
                if seen.is_deleted:
                    self._reader.packed.remove(name)
                mark = making()
                if self._objects.swap(name, seen, mark):
                    mine = self._objects.look(name)
                    if mine.data == mark and self._fill(name, mine, new, line):
                        return True
            self._objects.pause(attempt)
            seen, value = self._reader.look(name)
        raise _crowded(name)

    def _fill(self, name: str, mine: Seen, new: Hash, line: bytes) -> bool:
        try:
            self._make_room(name)
        except AlreadyExistsError:
            self._unmake(name, mine)
            raise
        written = self._moves.write(self._logs_of(name), line)
        with _or_taken_back(written):
            if self._objects.swap(name, mine, _text(new)):
                return True
        written.take_back()
        return False

    def _make_room(self, name: str) -> None:
        """Raises AlreadyExistsError for a ref that is in the way; who only makes one there loses
        its marker, and with it the race."""
        for attempt in range(1, REF_RACES.attempts + 1):
            others = self._reader.made_around(name)
            if all(self._unmake(each, self._objects.look(each)) for each in others):
                return
            self._objects.pause(attempt)
        raise _crowded(name)

    def _unmake(self, name: str, seen: Seen) -> bool:
        """Turn the marker of a ref in the making into that of a deleted one, and remove it;
        whether no process makes one there any more."""
        if not seen.is_marker or seen.is_deleted:
            return seen.data is None or seen.is_deleted
        since = time.monotonic()
        if not self._objects.swap(name, seen, deleted()):
            return False
        self._objects.remove(name, since)
        return True

    def _clear(self, name: str, since: float) -> None:
        """Remove what a deleted ref leaves behind, and the marker at last."""
        self._moves.clear(name)
        self._reader.packed.remove(name)
        self._objects.remove(name, since)

    def _set_head(
        self, text: str, find: Callable[[], Hash | None], why: str, by: Signature
    ) -> None:
        encode_entry(LogEntry(ZERO, ZERO, by, why))
        check_compare_and_swap(self._store, _PROBES)
        self._write_objects()
        for attempt in range(1, REF_RACES.attempts + 1):
            seen = self._objects.look(HEAD)
            before, old = self._reader.head_before(seen)
            if before == text:
                return
            new = find()
            line = encode_entry(LogEntry(old or ZERO, new or ZERO, by, why))
            written = self._moves.write([HEAD] if new is not None else [], line)
            with _or_taken_back(written):
                if self._objects.swap(HEAD, seen, _text(text)):
                    return
            written.take_back()
            self._objects.pause(attempt)
        raise _crowded(HEAD)

    def _logs_of(self, name: str) -> list[str]:
        """Which logs record a move: the ref's, and HEAD's if it names the ref."""
        return [name, HEAD] if self._reader.loose(HEAD) == SYMBOLIC + name else [name]

    # Keeping

    def _fold(self, name: str) -> None:
        for each in self._logs_of(name):
            with suppress(LancewoodError):  # the next one does it
                self._fold_one(each)

    def tidy(self, *, dry_run: bool) -> list[str]:
        """Fold every log, and finish what dead processes left half made or half deleted; the keys
        of that. ``dry_run`` only finds it."""
        left = [*self._reader.abandoned()]
        if dry_run:
            return [f"{self._store.uri}/{each}" for each in left]
        for name in left:
            seen, since = self._objects.look(name), time.monotonic()
            if seen.is_marker and seen.is_abandoned and self._objects.swap(name, seen, deleted()):
                self._clear(name, since)
        at_once([partial(self._fold_one, each) for each in self._moves.unfolded()])
        return [f"{self._store.uri}/{each}" for each in left]

    def _fold_one(self, name: str) -> None:
        self._moves.fold(name, self._reader.follow(name))


@contextmanager
def _or_taken_back(written: LogLines) -> Iterator[None]:
    """Take lines back if the block fails, unless it is unknown whether the ref moved."""
    try:
        yield
    except CommitUnknownError:
        raise
    except LancewoodError:
        written.take_back()
        raise


def _text(value: str) -> bytes:
    return value.encode() + b"\n"


def _crowded(name: str) -> RetryableConflictError:
    return RetryableConflictError(
        f"{name} was changed by others {REF_RACES.attempts} times, or somebody is just deleting "
        "it; try again. A deletion that was cut off is finished by gc() half an hour later",
        ref=name,
    )
