"""The repository that a command works in, and the names of its tables.

The repository is that of the current directory, or the nearest one above it. ``lw -C PATH`` starts
at another directory, as in git; ``lw -C URI`` is a repository in a bucket and must name it exactly.
Warnings of the repository become lines on stderr.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TextIO

import lancewood as lw
from lancewood.cli.groups import COMMAND, STARTED_AT
from lancewood.cli.options import StoreOptions
from lancewood.cli.output import note
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.repo import MAIN, NotLandedWarning, is_uri, own_root, written_by_head
from lancewood.repo import TableNames as RepositoryTableNames

_PARTS = {"HEAD": os.path.isfile, "objects": os.path.isdir, "refs": os.path.isdir}


@contextmanager
def repository(storage: Mapping[str, str] | None = None) -> Iterator[lw.Repository]:
    """The repository; its warnings become notes during the block. Raises NotFoundError."""
    found = started_at() or find_repository(Path.cwd())
    with warnings_shown():
        yield lw.Repository.open(found, storage_options=storage)


class InRepository(StoreOptions):
    """The options of a command on a repository."""

    def repository(self) -> AbstractContextManager[lw.Repository]:
        return repository(self.storage)


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


def started_at() -> str | None:
    """The uri that ``-C`` was given; None if it was a directory, or absent."""
    return STARTED_AT.get()


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show warnings of repositories as notes during the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", NotLandedWarning)
        warnings.showwarning = _show_warning
        yield


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    note(f"lw: warning: {message}")


def repository_around(uri: str, storage_options: Mapping[str, str] | None) -> lw.Repository | None:
    """The repository that a table is below, by the main uri of the table; None if there is none.

    In a bucket only a table of the repository's own is recognised, since it says where that is.
    """
    root: str | Path | None = own_root(uri)
    if root is None and not is_uri(uri):
        with suppress(NotFoundError):
            root = find_repository(Path(uri).resolve().parent)
    if root is None:
        return None
    try:
        return lw.Repository.open(root, storage_options=storage_options)
    except LancewoodError:  # a git repository of another kind, or nobody may look into it
        return None


def check_main_is_meant(
    uri: str, table: lw.Table, storage_options: Mapping[str, str] | None
) -> None:
    """Raise InvalidInputError if ``table`` is on main, the repository around it is on another
    branch, and the commit there has the table: what is written would not be seen.

    The error has both commands that could be meant, in which ``uri`` is followed by a branch.
    """
    if table.branch is not None:
        return
    main = table.main_uri if is_uri(table.main_uri) else str(Path(table.main_uri).resolve())
    repo = repository_around(main, storage_options)
    on = None if repo is None else written_by_head(repo, main)
    if on is None:
        return
    name, branch = on
    command = COMMAND.get()
    prepare = "" if branch in table.branches.list() else f"lw prepare {name} and then "
    raise InvalidInputError(
        f"{uri} is in a repository whose HEAD is on branch {branch!r}: a write to main of the "
        f"table would not show up there. Say which of the two is meant: {prepare}"
        f"{command} {uri}@{branch} …, or {command} {uri}@{MAIN} …",
        table=uri,
        branch=branch,
    )


class TableNames(RepositoryTableNames):
    """The names of tables in the repository around a table, or else around the current directory,
    if there is one."""

    def __init__(self, storage_options: Mapping[str, str] | None) -> None:
        around = partial(repository_around, storage_options=storage_options)
        super().__init__(partial(_around_here, storage_options), around)


def _around_here(storage_options: Mapping[str, str] | None) -> lw.Repository | None:
    try:
        root = find_repository(Path.cwd())
    except NotFoundError:
        return None
    return lw.Repository.open(root, storage_options=storage_options)
