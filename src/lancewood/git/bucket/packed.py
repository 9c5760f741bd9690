"""The refs in ``packed-refs`` of a repository that was uploaded.

Reads them, and takes one out when it is deleted, by a conditional put. Never packs any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO

from dulwich.errors import PackedRefsException
from dulwich.refs import read_packed_refs, read_packed_refs_with_peeled

from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.git.bucket.ref_objects import RefObjects, Seen
from lancewood.git.hashes import Hash, is_hash
from lancewood.git.packed import without

_KEY = "packed-refs"
_ATTEMPTS = 10


class BucketPackedRefs:
    """Read anew each time: where there are none, that is one small request."""

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
        for attempt in range(1, _ATTEMPTS + 1):
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
            f"cannot take {name} out of {self.file}: others changed it {_ATTEMPTS} times; try again"
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
