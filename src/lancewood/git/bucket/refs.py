"""Refs in a bucket: names for commits, each an object with a hash in it, and HEAD.

The contract is that of ``Refs`` on a disk, kept by other means. A ref moves by a conditional put on
the etag of the value that it had. The order is: objects are written; then the line in the log; then
the ref has its value. There are no locks. An answer that is lost is settled by reading, see
``ref_objects``, which also says how refs are made and deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    InvalidInputError,
    LancewoodError,
    RetryableConflictError,
)
from lancewood.git.bucket.loose import at_once
from lancewood.git.bucket.moves import LogLines, Moves
from lancewood.git.bucket.ref_objects import RefObjects, Seen, deleted, making
from lancewood.git.bucket.ref_reading import BucketRefReader
from lancewood.git.names import HEAD, HEADS, checked_branch, checked_ref
from lancewood.git.protocols import Head
from lancewood.git.ref_files import SYMBOLIC
from lancewood.git.reflog import LogEntry, encode_entry
from lancewood.git.signature import Signature
from lancewood.git.syncing import Unsettled
from lancewood.git.values import ZERO, Hash, checked_hash
from lancewood.store.base import Store
from lancewood.store.probe import check_compare_and_swap
from lancewood.store.retry import REF_RACES, UNCLEAR_PUTS, Retry

_LONGER = 4
_PROBES = "lancewood"
_FOLDED_EVERY = 64
"""One move in this many folds the log of its ref; which, its hash says."""


class BucketRefs:
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
        self._moves = Moves(self._objects)

    # Reading

    def read(self, name: str) -> Hash | None:
        return self._reader.follow(_checked(name))

    def head(self) -> Head:
        branch, text = self._reader.head()
        return Head(branch, Hash(text) if branch is None else self._reader.follow(text))

    def current(self) -> str | None:
        return self._reader.head()[0]

    def names(self, prefix: str = "refs/") -> dict[str, Hash]:
        if prefix != "refs/":
            checked_ref(prefix.removesuffix("/"))
        return self._reader.names(prefix)

    def every_name(self, prefix: str = "refs/") -> list[str]:
        return self._reader.every_name(prefix)

    def log(self, name: str) -> Iterator[LogEntry]:
        return self._log(_checked(name))

    def _log(self, name: str) -> Iterator[LogEntry]:
        value = None
        with suppress(FormatError):
            value = self._reader.follow(name)
        yield from self._moves.read(name, value)

    def logged_names(self) -> list[str]:
        return self._moves.names()

    def of_work_trees(self) -> tuple[set[Hash], set[Hash]]:
        named, logged = set[Hash](), set[Hash]()
        for name in self._reader.work_trees():
            value = self._reader.follow(f"{name}/{HEAD}")
            if value is not None:
                named.add(value)
            for each in self._moves.folded(f"{name}/logs/{HEAD}"):
                logged |= {each.old, each.new}
        return named, logged

    # Moving

    def move(
        self, name: str, old: Hash | None, new: Hash | None, *, why: str, by: Signature
    ) -> bool:
        """Give a ref the value ``new`` if it has ``old``, with the arguments and errors of
        ``Refs.move``; CommitUnknownError where the store did not say whether it moved."""
        _checked(name)
        if old is None and new is None:
            raise InvalidInputError(f"moving {name!r} from nothing to nothing is no move")
        old, new = old and checked_hash(old), new and checked_hash(new)
        line = encode_entry(LogEntry(old or ZERO, new or ZERO, by, why))
        seen, value = self._reader.look(name)
        if value != old:
            return False
        if old == new:
            return True
        if new is None and name == HEAD:
            raise InvalidInputError("HEAD cannot be deleted: a repository has one")
        check_compare_and_swap(self._store, _PROBES)
        self._write_objects()
        if old is None:
            done = new is not None and self._make(name, seen, new, line)
        else:
            done = self._set(name, seen, old, new, line)
        if done and new is not None and int(new[:4], 16) % _FOLDED_EVERY == 0:
            self._fold(name)
        return done

    def switch_head(self, branch: str, *, why: str, by: Signature) -> None:
        name = HEADS + checked_branch(branch)
        self._set_head(SYMBOLIC + name, lambda: self._reader.follow(name), why, by)

    def detach_head(self, hash: Hash, *, why: str, by: Signature) -> None:
        new = checked_hash(hash)
        self._set_head(new, lambda: new, why, by)

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


def _checked(name: str) -> str:
    return name if name == HEAD else checked_ref(name)
