"""Claiming a run: the same id does not run twice at once in one repository.

A file with a lock of the operating system on it, which goes with the process, however that ends.
What the file says is for people. Knows nothing of what a run does.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from lancewood.errors import RetryableConflictError
from lancewood.store.disk_root import refuse_links

_CLAIMS = "lancewood/runs/.claims"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MOST_BYTES = 1024


@contextmanager
def claimed(repository: Path, run: str) -> Iterator[None]:
    """Hold a run id while the block runs; raises RetryableConflictError if somebody does."""
    file = _file(repository, run)
    refuse_links(str(repository), f"{_CLAIMS}/{run}")
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _locked(file)
    if descriptor is None:
        raise RetryableConflictError(
            f"run {run!r} of {repository} is at work already: {_holder(file)}. Wait for it, or "
            "choose another run id",
            run=run,
        )
    try:
        now = datetime.now(UTC)
        text = f"process {os.getpid()} on {socket.gethostname()} since {now:%Y-%m-%d %H:%M:%S} UTC"
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
        yield
    finally:
        # While the lock is held: who waits for this very file sees that it has no name any more.
        file.unlink(missing_ok=True)
        os.close(descriptor)


def is_claimed(repository: Path, run: str) -> bool:
    """Whether somebody holds a run id at this moment."""
    try:
        descriptor = os.open(_file(repository, run), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _locked(file: Path) -> int | None:
    """The file, locked by us; None if another has it."""
    while True:
        descriptor = os.open(file, _FLAGS, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass  # who had it has just let go
        os.close(descriptor)


def _file(repository: Path, run: str) -> Path:
    return repository / _CLAIMS / run


def _holder(file: Path) -> str:
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read(_MOST_BYTES) or "somebody has just begun"
    except OSError:
        return "somebody"
