"""The names by which commands read the tables of a repository.

For a table at a path it is the repository around that, else the one around the current directory.
``orders`` is the table in HEAD, ``orders@shop-d1`` and ``tables/orders.lance@shop-d1`` the one in a
commit. A path alone is the table itself at its newest version. A path with a branch of the table is
the newest version of that branch, where a command that writes would continue. Any other revision is
looked up in the repository first, then in the table; one with a colon belongs to the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from lancewood.catalog.names import TABLES_DIR, lance_branch, own_table
from lancewood.catalog.pin import Pin
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import VERSIONS_DIR
from lancewood.git.names import below, is_uri
from lancewood.model.refs import BranchName, branch_name, called

if TYPE_CHECKING:
    from lancewood.repo.inspect.view import View
    from lancewood.repo.repository import Repository

_SUFFIX = ".lance"


def location_of(repo: Repository, pin: Pin) -> str:
    """Where a table is: relative to the current directory, or a uri."""
    if not pin.is_own:
        return pin.uri
    where = below(repo.root, pin.uri)
    return where if isinstance(where, str) else os.path.relpath(where)


def own_root(uri: str) -> str | None:
    """Where the repository is of which a uri in a bucket can be an own table; None for others."""
    root, _, name = uri.rstrip("/").rpartition(f"/{TABLES_DIR}/")
    is_own = is_uri(uri) and own_table(f"{TABLES_DIR}/{name}") is not None
    return root if is_own else None


def written_by_head(repo: Repository, uri: str) -> tuple[str, BranchName] | None:
    """The name of the table at ``uri``, and the branch on which it is written where HEAD is.

    None if that is main, if HEAD is detached, or if the commit has no such own table.
    """
    branch = repo.head.branch
    wanted = None if branch is None else lance_branch(branch)
    if wanted is None or repo.head.hash is None:
        return None
    name = os.path.basename(uri.rstrip("/")).removesuffix(_SUFFIX)
    view = repo.at()
    if name not in view or not view.pin(name).is_own:
        return None
    there = str(below(repo.root, view.pin(name).uri))
    is_it = there == uri if is_uri(uri) else os.path.realpath(there) == os.path.realpath(uri)
    return (name, wanted) if is_it else None


class TableNames:
    """The names of the tables of a repository, which is looked for when it is first needed."""

    def __init__(
        self,
        find: Callable[[], Repository | None],
        find_around: Callable[[str], Repository | None],
    ) -> None:
        """``find`` returns the repository whose names count, ``find_around`` the one around the
        table at a path, which comes first; None if there is none, and then there are no names."""
        self._find = find
        self._find_around = find_around
        self._path: str | None = None

    @cached_property
    def _repo(self) -> Repository | None:
        around = None if self._path is None else self._find_around(self._path)
        return around or self._find()

    def _look_from(self, uri: str) -> None:
        """Look for the repository around the table that a uri names, if it is at a path."""
        path = uri if _is_table(uri) else uri.partition("@")[0]
        self._path = path if _is_table(path) else None

    def read_as(self, uri: str, at: str | None = None) -> str | None:
        """The uri of exactly the version that a name means; None if it is not a name there.

        ``at`` is a revision that was given besides.
        """
        self._look_from(uri)
        return None if _is_branch(uri, at) else self._found(uri, at, is_compared=False)

    def compared_as(self, uri: str, at: str | None = None) -> str | None:
        """The uri of the version that a name means and that landed on the table's branch: only
        landed versions can be compared. None if it is not a name there.

        Raises InvalidInputError if it has not landed.
        """
        self._look_from(uri)
        return None if at is None and _is_branch(uri) else self._found(uri, at, is_compared=True)

    def whole(self, uri: str) -> str | None:
        """The location of the table that a name means, on the pinned branch."""
        self._look_from(uri)
        name, at, text = uri.partition("@")
        if _is_table(uri) or _is_branch(uri) or "://" in uri or self._repo is None:
            return None
        found = self._pinned(name, text if at else "HEAD")
        if found is not None:
            pin = found[0].pin(found[1])
            location = location_of(self._repo, pin)
            return location if pin.branch is None else f"{location}@{pin.branch}:"
        return None if _is_table(name) else self._in_head(name, text)

    @contextmanager
    def shown_in_errors(self) -> Iterator[None]:
        """Add the repository's names to an error about a name that the table does not have."""
        from lancewood.engine.versions import listed

        try:
            yield
        except NotFoundError as error:
            asked = error.facts.get("name")
            if asked is not None and self._repo is not None:
                branches = listed("branch", "branches", asked, sorted(self._repo.branches))
                tags = listed("tag", "tags", asked, sorted(self._repo.tags))
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
            found = self._pinned(name, revision or "HEAD")
            if found is not None:
                return self._uri(*found, is_compared=is_compared)
        return None if is_path else self._in_head(name, revision)

    def _in_head(self, name: str, revision: str | None) -> str | None:
        """The table that HEAD has by a name, at a revision of the table itself."""
        found = self._pinned(name, "HEAD")
        if found is None or self._repo is None:
            return None
        return f"{location_of(self._repo, found[0].pin(found[1]))}@{revision}"

    def _pinned(self, name: str, revision: str) -> tuple[View, str] | None:
        """The commit, and its name for a table; None if either does not exist."""
        if self._repo is None:
            return None
        try:
            view = self._repo.at(revision)
        except (NotFoundError, InvalidInputError):
            return None
        known = name if name in view else self._at_path(name, view)
        return None if known is None else (view, known)

    def _at_path(self, path: str, view: View) -> str | None:
        """The name of the table at a path."""
        assert self._repo is not None
        guess = os.path.basename(os.path.normpath(path)).removesuffix(_SUFFIX)
        if guess in view and os.path.exists(path):
            there = location_of(self._repo, view.pin(guess))
            if os.path.exists(there) and os.path.samefile(path, there):
                return guess
        return None

    def _uri(self, view: View, name: str, *, is_compared: bool) -> str:
        assert self._repo is not None
        pin = view.pin(name)
        location, version = location_of(self._repo, pin), int(pin.version)
        landed = None if pin.landing is None else view.landed(name)
        if landed is not None:
            version = landed.version
        elif is_compared and pin.landing is not None:
            raise InvalidInputError(
                f"what the commit pins of {location} is not there on {called(pin.branch)} of the "
                "table, or others wrote in between, and only versions there can be compared: lw "
                f"status tells more, and lw diff --rows --table {name} compares what commits pin"
            )
        return f"{location}@{pin.branch or ''}:{version}"


def _is_branch(uri: str, at: str | None = None) -> bool:
    """Whether a revision, after a path or given besides, is a branch of the table there."""
    from lancewood.engine.versions import is_recorded
    from lancewood.store.locate import open_store

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
