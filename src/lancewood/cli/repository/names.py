"""The repository that a command works in, and the names of its tables.

The repository is that of the current directory, or the nearest one above it. ``lw -C PATH`` starts
at another directory, as in git; ``lw -C URI`` is a repository in a bucket and must name it exactly.
Warnings of the repository become lines on stderr.

Commands that read take names of tables: ``orders`` is the table in HEAD, ``orders@shop-d1`` and
``tables/orders.lance@shop-d1`` the one in a commit. A path alone is the table itself at its newest
version. A path with a branch of the table is the newest version of that branch, where a command
that writes would continue. Any other revision is looked up in the repository first, then in the
table; one with a colon belongs to the table.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TextIO

import lancewood as lw
from lancewood.catalog.pin import Pin
from lancewood.cli import options
from lancewood.cli.groups import STARTED_AT
from lancewood.cli.output import note
from lancewood.engine.staging import find_landing
from lancewood.engine.versions import is_recorded, listed
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import VERSIONS_DIR
from lancewood.git.names import below
from lancewood.model.refs import called
from lancewood.model.revision import branch_name
from lancewood.repo.looking.view import View
from lancewood.repo.outcome import NotLandedWarning
from lancewood.store.locate import open_store

_PARTS = {"HEAD": os.path.isfile, "objects": os.path.isdir, "refs": os.path.isdir}
_SUFFIX = ".lance"


@contextmanager
def repository(storage_options: Sequence[str] | None = None) -> Iterator[lw.Repository]:
    """The repository; its warnings become notes during the block. Raises NotFoundError."""
    found = started_at() or find_repository(Path.cwd())
    with warnings_told():
        yield lw.Repository.open(found, storage_options=options.storage(storage_options))


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


def location_of(repo: lw.Repository, pin: Pin) -> str:
    """Where a table is, for ``lw table``: relative to the current directory, or a uri."""
    if not pin.is_own:
        return pin.uri
    where = below(repo.root, pin.uri)
    return where if isinstance(where, str) else os.path.relpath(where)


@contextmanager
def warnings_told() -> Iterator[None]:
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


class TableNames:
    """The names of tables in the repository around the current directory, if there is one."""

    def __init__(self, storage_options: Mapping[str, str] | None) -> None:
        self._storage_options = storage_options

    @cached_property
    def _repo(self) -> lw.Repository | None:
        try:
            root = find_repository(Path.cwd())
        except NotFoundError:
            return None
        return lw.Repository.open(root, storage_options=self._storage_options)

    def read_as(self, uri: str, at: str | None = None) -> str | None:
        """The uri of exactly the version that a name means; None if it is not a name there.

        ``at`` is a revision that was given besides.
        """
        return None if _is_branch(uri, at) else self._found(uri, at, is_compared=False)

    def compared_as(self, uri: str, at: str | None = None) -> str | None:
        """The same for the version that landed on the table's branch: only those can be compared.

        Raises InvalidInputError if it has not landed.
        """
        return None if at is None and _is_branch(uri) else self._found(uri, at, is_compared=True)

    def whole(self, uri: str) -> str | None:
        """The place of the table that a name means, on the pinned branch."""
        name, at, text = uri.partition("@")
        if _is_table(uri) or _is_branch(uri) or "://" in uri or self._repo is None:
            return None
        pin = self._pin(name, text if at else "HEAD")
        if pin is not None:
            return _on_branch(location_of(self._repo, pin), pin)
        pin = None if _is_table(name) else self._pin(name, "HEAD")
        return None if pin is None else f"{location_of(self._repo, pin)}@{text}"

    @contextmanager
    def told(self) -> Iterator[None]:
        """Add the repository's names to an error about a name that the table does not have."""
        try:
            yield
        except NotFoundError as error:
            asked = error.facts.get("name")
            if asked is not None and self._repo is not None:
                branches = listed("branch", "branches", asked, sorted(self._repo.branches))
                tags = listed("tag", "tags", asked, sorted(self._repo.tags.list()))
                error.add_note(f"in the repository {branches}, {tags}")
            raise

    def _found(self, uri: str, at: str | None, *, is_compared: bool) -> str | None:
        name, parted, text = (uri, "", "") if _is_table(uri) else uri.partition("@")
        if parted and at is not None:
            return None  # given twice: opening the table itself reports it
        revision = text if parted else at
        is_path = _is_table(name)
        if "://" in uri or (is_path and (revision is None or ":" in revision)):
            return None
        if revision is None or ":" not in revision:
            pin = self._pin(name, revision or "HEAD")
            if pin is not None:
                return self._uri(pin, is_compared)
        pin = None if is_path else self._pin(name, "HEAD")
        if pin is None or self._repo is None:
            return None
        return f"{location_of(self._repo, pin)}@{revision}"

    def _pin(self, name: str, revision: str) -> Pin | None:
        """What a commit says about a table; None if either does not exist."""
        if self._repo is None:
            return None
        try:
            view = self._repo.at(revision)
        except (NotFoundError, InvalidInputError):
            return None
        known = name if name in view else self._at_path(name, view)
        return None if known is None else view.pin(known)

    def _at_path(self, path: str, view: View) -> str | None:
        """The name of the table at a path."""
        assert self._repo is not None
        guess = os.path.basename(os.path.normpath(path)).removesuffix(_SUFFIX)
        if guess in view and os.path.exists(path):
            there = location_of(self._repo, view.pin(guess))
            if os.path.exists(there) and os.path.samefile(path, there):
                return guess
        return None

    def _uri(self, pin: Pin, is_compared: bool) -> str:
        assert self._repo is not None
        location, version = location_of(self._repo, pin), int(pin.version)
        if is_compared and pin.landing is not None:
            table = lw.open(_on_branch(location, pin), storage_options=self._storage_options)
            found = find_landing(table._snapshot.location, pin.landing)
            if not found.versions or not found.is_exact:
                raise InvalidInputError(
                    f"what the commit pins of {location} is not there on {called(pin.branch)} of "
                    "the table, or others wrote in between, and only versions there can be "
                    "compared: lw status tells more"
                )
            version = int(found.versions[-1])
        return f"{location}@{pin.branch or ''}:{version}"


def _on_branch(location: str, pin: Pin) -> str:
    return location if pin.branch is None else f"{location}@{pin.branch}:"


def _is_branch(uri: str, at: str | None = None) -> bool:
    """Whether a revision, after a path or given besides, is a branch of the table there."""
    path, _, text = (uri, "", at or "") if _is_table(uri) else uri.partition("@")
    if not text or not _is_table(path):
        return False
    try:
        branch = branch_name(text)
    except InvalidInputError:
        return False
    return branch is None or is_recorded(open_store(path), branch)


def _is_table(path: str) -> bool:
    return os.path.isdir(os.path.join(path, VERSIONS_DIR))
