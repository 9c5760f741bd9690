"""Where tables are made: a RAM disk if one has room, and a real disk; both are left empty."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RAM_DISK = Path("/dev/shm")
ROOM_NEEDED = 3_000_000_000


@dataclass(frozen=True, slots=True)
class Places:
    """Two directories of this run, and what to call the first one."""

    fast: Path
    disk: Path
    fast_name: str


@contextlib.contextmanager
def temporary_places() -> Iterator[Places]:
    """The places; whatever is in them is removed at the end, also after an error."""
    has_ram_disk = _has_room(RAM_DISK)
    with (
        tempfile.TemporaryDirectory(prefix="lancewood-bench-") as disk,
        tempfile.TemporaryDirectory(
            prefix="lancewood-bench-", dir=RAM_DISK if has_ram_disk else None
        ) as fast,
    ):
        name = f"RAM disk ({RAM_DISK})" if has_ram_disk else f"disk ({Path(fast).parent})"
        yield Places(Path(fast), Path(disk), name)


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory for one benchmark, removed as soon as that is done."""
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def twin(table: Path) -> Path:
    """The same table once more beside it, as hard links: no file of a table is ever changed."""
    copy = table.with_name(f"{table.name}-twin")
    shutil.copytree(table, copy, copy_function=os.link)
    return copy


def _has_room(directory: Path) -> bool:
    try:
        return os.access(directory, os.W_OK) and shutil.disk_usage(directory).free >= ROOM_NEEDED
    except OSError:
        return False
