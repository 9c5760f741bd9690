"""The refs that git packed into one file, ``packed-refs``.

Reads them with dulwich's container, which keeps what it read until the file changes. Removes one,
under git's own lock. Never packs any: a ref that moves becomes a file of its own again.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import cast

from dulwich.errors import PackedRefsException
from dulwich.refs import DiskRefsContainer

from lancewood.errors import FormatError, StorageError
from lancewood.git.hashes import Hash, is_hash
from lancewood.git.locks import locked
from lancewood.store.disk_root import refuse_links
from lancewood.store.wholefile import move_over, read_file, stage, sync_directory


class PackedRefs:
    """What ``packed-refs`` of the repository at ``root`` says. Safe to use from threads."""

    def __init__(self, root: str, *, fsync: bool, patience: float) -> None:
        self.file = f"{root}/packed-refs"
        self._root = root
        self._fsync = fsync
        self._patience = patience
        self._container = DiskRefsContainer(root)
        self._lock = threading.Lock()

    def get(self, name: str) -> Hash | None:
        """The value of one ref, or None; raises FormatError."""
        value = self._read().get(_bytes(name))
        return None if value is None else self._checked(value)

    def starting_with(self, prefix: str) -> Iterator[tuple[str, Hash]]:
        """Names and values, in no order; one loop over all of them. Raises FormatError."""
        start = _bytes(prefix)
        for name, value in self._read().items():
            if name.startswith(start):
                yield name.decode("utf-8", "surrogateescape"), self._checked(value)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the file: nobody packs refs while the block runs."""
        self._refuse_link()
        with locked(self.file, self._root, self._patience):
            yield

    def remove(self, name: str) -> None:
        """Take one ref out, durably, under the lock; every other line stays as it is.

        Raises OSError.
        """
        if self.get(name) is None:
            return
        kept = without(read_file(self.file), name)
        move_over(stage(self._root, kept, sync=self._fsync), self.file)
        if self._fsync:
            sync_directory(self._root)

    def _read(self) -> Mapping[bytes, bytes]:
        self._refuse_link()
        try:
            self._check_regular()
            with self._lock:
                # Its container drops what it kept when the file is another one, and never
                # changes a mapping that it gave away.
                return cast("Mapping[bytes, bytes]", self._container.get_packed_refs())
        except (PackedRefsException, ValueError) as cause:
            raise FormatError(f"{self.file}: {cause}", file=self.file) from cause
        except StopIteration:  # an empty file holds no refs
            return {}
        except OSError as cause:
            raise StorageError(f"cannot read {self.file}: {cause.strerror}") from cause

    def _refuse_link(self) -> None:
        refuse_links(self._root, os.path.basename(self.file))

    def _check_regular(self) -> None:
        """To open a pipe would be to wait for ever."""
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(self.file).st_mode):
                raise FormatError(f"{self.file} is no file; bring it back", file=self.file)

    def _checked(self, value: bytes) -> Hash:
        text = value.decode("ascii", "replace")
        if not is_hash(text):
            raise FormatError(
                f"{self.file}: {text[:100]!r} is not a hash of 64 digits", file=self.file
            )
        return Hash(text)


def without(data: bytes, name: str) -> bytes:
    """The bytes of ``packed-refs`` without one ref; every other line stays as it is."""
    wanted = b" " + _bytes(name)
    kept: list[bytes] = []
    is_ours = False
    for line in data.splitlines(keepends=True):
        # a line that starts so belongs to the one before: what that tag stands for
        is_ours = is_ours if line[:1] == b"^" else line.rstrip(b"\r\n")[64:] == wanted
        if not is_ours:
            kept.append(line)
    return b"".join(kept)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
