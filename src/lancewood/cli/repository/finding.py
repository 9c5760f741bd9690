"""The repository that a command is about: that of the current directory, or the nearest above it.

``lw -C PATH`` begins at another directory, as git does; ``lw -C URI`` is a repository in a bucket,
which has to be named itself: nothing is looked for above it. Warnings of the repository become
lines on stderr here.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import lancewood as lw
from lancewood.catalog.pin import Pin
from lancewood.cli import options
from lancewood.cli.output import note
from lancewood.cli.repo import STARTED_AT
from lancewood.errors import NotFoundError
from lancewood.git.homes import below
from lancewood.repo.outcome import NotLandedWarning

_PARTS = {"HEAD": os.path.isfile, "objects": os.path.isdir, "refs": os.path.isdir}


def find_repository(start: Path) -> Path:
    """The nearest directory, from ``start`` upwards, that is a git repository.

    Raises NotFoundError.
    """
    for each in (start, *start.parents):
        if all(is_there(each / name) for name, is_there in _PARTS.items()):
            return each
    raise NotFoundError(
        f"there is no repository in {start}, nor above it: lw init makes one, and lw -C PATH works "
        "in another one",
        path=str(start),
    )


@contextmanager
def repository(storage_options: Sequence[str] | None = None) -> Iterator[lw.Repository]:
    """The repository, and while it is used its warnings as notes. Raises NotFoundError."""
    found = started_at() or find_repository(Path.cwd())
    with warnings_told():
        yield lw.Repository.open(found, storage_options=options.storage(storage_options))


def started_at() -> str | None:
    """The uri that ``-C`` was given; None where it was a directory, or nothing."""
    return STARTED_AT.get()


def place_of(repo: lw.Repository, pin: Pin) -> str:
    """Where a table is, as ``lw table`` takes it: seen from the current directory, or a uri."""
    if not pin.is_at_home:
        return pin.uri
    where = below(repo.home, pin.uri)
    return where if isinstance(where, str) else os.path.relpath(where)


@contextmanager
def warnings_told() -> Iterator[None]:
    """Show warnings of repositories as notes while the block runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotLandedWarning)
        warnings.showwarning = _told
        yield


def _told(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    note(f"lw: warning: {message}")
