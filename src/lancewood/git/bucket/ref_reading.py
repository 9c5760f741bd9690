"""Reading refs in a bucket, packed ones included, and finding names that exclude each other.

A ref is an object of its own, or a line in ``packed-refs`` of a repository that was uploaded; a
marker object hides a packed ref. In a bucket, one ref could be a directory of another. Nobody makes
such refs, since a copy on a disk could not hold both. The only write is to take a deleted ref out
of ``packed-refs``, by a conditional put; refs are never packed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from io import BytesIO

from dulwich.errors import PackedRefsException
from dulwich.refs import read_packed_refs, read_packed_refs_with_peeled

from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.git.bucket.loose import at_once
from lancewood.git.bucket.ref_objects import (
    ABANDONED,
    MARKER_SIZE,
    RefObjects,
    Seen,
    is_making,
)
from lancewood.git.names import HEAD, HEADS, is_ref
from lancewood.git.ref_files import (
    SYMBOLIC,
    WORK_TREES,
    decode_ref,
    followed,
    in_the_way,
    is_marker,
    standing_value,
    without,
)
from lancewood.git.values import Hash, is_hash
from lancewood.store.retry import BUCKET_RACES

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
        for value in found.values():
            if not is_hash(value):
                raise FormatError(
                    f"{self.file}: {value[:100]!r} is not a hash of 64 digits", file=self.file
                )
        return {name: Hash(value) for name, value in found.items()}


def _pairs(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    first = data.partition(b"\n")[0]
    if first.startswith(b"# pack-refs") and b" peeled" in first:
        for value, name, _ in read_packed_refs_with_peeled(BytesIO(data)):
            yield value, name
    else:
        yield from read_packed_refs(BytesIO(data))


class BucketRefReader:
    """Looks for an object first, then into ``packed-refs``."""

    def __init__(self, objects: RefObjects) -> None:
        self._objects = objects
        self._store = objects.store
        self.packed = BucketPackedRefs(objects)

    def look(self, name: str) -> tuple[Seen, Hash | None]:
        """What is at the key of a ref, in order to replace it, and the ref's value; raises
        InvalidInputError for a symbolic ref."""
        seen = self._objects.look(name)
        if seen.data is None:
            return seen, None if name == HEAD else self.packed.get(name)
        if seen.is_marker:
            return seen, None
        return seen, standing_value(name, decode_ref(seen.data, name, self._file(name)))

    def follow(self, name: str) -> Hash | None:
        return followed(name, self.text, self._file(name))

    def text(self, name: str) -> str | None:
        """A hash, or ``ref: `` and another name; None where there is no ref."""
        data = self._objects.read(name)
        if data is None:
            return None if name == HEAD or name.startswith(WORK_TREES) else self.packed.get(name)
        return None if is_marker(data) else decode_ref(data, name, self._file(name))

    def loose(self, name: str) -> str | None:
        """A hash, or ``ref: `` and another name, of a ref that is not packed; None where there is
        none."""
        data = self._objects.read(name)
        if data is None or is_marker(data):
            return None
        return decode_ref(data, name, self._file(name))

    def head(self) -> tuple[str | None, str]:
        """The branch that HEAD names and its ref; if detached, None and the hash."""
        text = self.loose(HEAD)
        if text is None:
            raise NotFoundError(f"{self._store.uri} has no HEAD: it is not a git repository")
        if not text.startswith(SYMBOLIC):
            return None, text
        target = text.removeprefix(SYMBOLIC)
        if not target.startswith(HEADS):
            raise FormatError(f"{self._file(HEAD)} names {target!r}, which is not a branch")
        return target.removeprefix(HEADS), target

    def head_before(self, seen: Seen) -> tuple[str | None, Hash | None]:
        """What HEAD says and where it leads; None if unreadable, since it is replaced anyway."""
        text, leads_to = None, None
        with suppress(FormatError):
            if seen.data is not None:
                text = decode_ref(seen.data, HEAD, self._file(HEAD))
                leads_to = self.follow(HEAD)
        return text, leads_to

    def names(self, prefix: str) -> dict[str, Hash]:
        """The refs whose full names start with the prefix, sorted, and their values."""
        listed = self._listed(prefix)
        values = dict(
            zip(listed, at_once([partial(self.follow, each) for each in listed]), strict=True)
        )
        for name, value in self.packed.starting_with(prefix):
            values.setdefault(name, value)
        return {name: value for name, value in sorted(values.items()) if value is not None}

    def every_name(self, prefix: str) -> list[str]:
        """The full names of refs that start with the prefix, readable or not."""
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

    def _file(self, name: str) -> str:
        return f"{self._store.uri}/{name}"


def _above(name: str) -> list[str]:
    """The names that would have to be directories for this one."""
    parts = name.split("/")
    found = ["/".join(parts[:count]) for count in range(2, len(parts))]
    return [each for each in found if each not in _PLAIN]
