"""The bytes of one blob, as a file that is open for reading.

Reads a range of one object of a store, and no more of it than is asked for.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from lancewood.errors import FormatError
from lancewood.store.base import Store

if TYPE_CHECKING:
    from typing_extensions import Buffer


class BlobFile(io.RawIOBase):
    """A read-only file over ``size`` bytes from ``start`` on; None means to the end.

    Every read is a request to the store: wrap it in ``io.BufferedReader`` for many small ones.
    Raises NotFoundError where the object is gone and FormatError where it is too small, both when
    the first byte is requested. Not thread-safe.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        start: int,
        size: int | None,
        *,
        object_size: int | None = None,
    ) -> None:
        """``object_size`` saves a request where the whole object's size is known already."""
        super().__init__()
        self._store = store
        self._key = key
        self._start = start
        self._size = size
        self._object_size = object_size
        self._is_checked = False
        self._at = 0

    @property
    def name(self) -> str:
        """The location of the bytes."""
        return f"{self._store.uri}/{self._key}"

    def size(self) -> int:
        """Number of bytes in the blob."""
        self._check_open()
        return self._known_size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_open()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence must be 0, 1 or 2, got {whence!r}")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence)
        at = (self._known_size() if base is None else base) + offset
        if at < 0:
            raise ValueError(f"cannot seek to {at}, before the blob begins")
        self._at = at
        return at

    def read(self, size: int | None = -1, /) -> bytes:
        self._check_open()
        left = max(0, self._known_size() - self._at)
        length = left if size is None or size < 0 else min(size, left)
        if not length:
            return b""
        self._check_bounds()
        data = self._store.get_range(self._key, self._start + self._at, length)
        if len(data) != length:
            raise FormatError(
                f"{self.name} became shorter while blob bytes were read from it", file=self.name
            )
        self._at += length
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def __repr__(self) -> str:
        return f"<BlobFile {self._size} bytes from {self._start} of {self.name}>"

    def _known_size(self) -> int:
        if self._size is None:
            self._size = max(0, self._known_object_size() - self._start)
        return self._size

    def _check_bounds(self) -> None:
        """Check the descriptor's range against the size of the object."""
        if self._is_checked:
            return
        found = self._known_object_size()
        if self._start + self._known_size() > found:
            raise FormatError(
                f"{self.name} has {found} bytes, a blob in it would take {self._size} from "
                f"{self._start}",
                file=self.name,
            )
        self._is_checked = True

    def _known_object_size(self) -> int:
        if self._object_size is None:
            self._object_size = self._store.head(self._key).size
        return self._object_size

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the blob is closed")
