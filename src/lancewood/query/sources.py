"""From a table's name and revision in a query to one version, resolved once for the whole query.

The grammar of revisions is that of ``lancewood.open`` and of ``Repository.at``. In a repository a
text with a colon is a revision of the table, ``exp:12``; any other is one of the repository, or of
the table if the repository has none of that name. If neither tables nor a repository are given, a
name may be a uri; else a query names only what it was given.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from lancewood.engine.snapshot import TAG, Access, Address, Snapshot, resolve
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.expr.columns import alike, find, folded, path_of
from lancewood.model.refs import ByName, OnBranch, Revision, parse_revision
from lancewood.model.schema import ROW_ADDRESS

if TYPE_CHECKING:  # a plain query loads neither a repository, nor the verbs of a table
    from lancewood.repo.inspect.view import View
    from lancewood.repo.repository import Repository
    from lancewood.table.table import Table

Source: TypeAlias = "str | os.PathLike[str] | Table"
"""The uri of a table, or a handle on a version of it."""

_MOST_LISTED = 20
_OTHER_FILES = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".arrow", ".feather")


class Identifiers:
    """How a dialect compares the names of tables and columns; this one is DuckDB's."""

    def folded(self, name: str) -> str:
        """The form in which a name is compared with others."""
        return folded(name)

    def find(self, name: str, names: Collection[str]) -> str | None:
        """The one name that `name` means; None for no match, and for several."""
        near = alike(name, names, self.folded)
        return near[0] if len(near) == 1 else None

    def column(self, name: str, names: Collection[str], where: str) -> str:
        """The column that `name` means; raises InvalidInputError for none, and for several."""
        return find(name, names, "column", where, self.folded)

    def path(self, path: Sequence[str], table: pa.Schema) -> tuple[str, ...]:
        """A column, or a field with the names that lead to it, in the table's own spelling; raises
        InvalidInputError if there is no such column."""
        return path_of(path, table, self.folded)


class AddressedSnapshot(Snapshot):
    """A version whose rows have their addresses as one more column, for those who change them."""

    @cached_property
    def arrow_schema(self) -> Any:
        """The schema with the column of addresses."""
        return super().arrow_schema.append(pa.field(ROW_ADDRESS, pa.uint64()))


@dataclass(eq=False)
class Sources:
    """The tables that a query may name."""

    tables: Mapping[str, Source] | None
    """What names mean; None for those of the repository alone, or else for any uri."""
    at_repository: Repository | str | os.PathLike[str] | None
    revision: str | None
    """The commit of the repository, or without one the version of tables that are given by uri."""
    access: Access | None
    identifiers: Identifiers
    repository: Repository | None = field(init=False)
    _views: dict[str, View] = field(default_factory=dict, init=False)
    _pinned: dict[tuple[str, int], View] = field(default_factory=dict, init=False)
    """The commits by the versions that they pin."""
    _found: dict[tuple[str, str | None, int | str | datetime | None], Snapshot] = field(
        default_factory=dict, init=False
    )
    _put: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.tables = _checked(self.tables)
        found = self.at_repository
        if found is not None:
            from lancewood.repo.repository import Repository

            if not isinstance(found, Repository):
                options = None if self.access is None else self.access.storage_options
                found = Repository.open(found, storage_options=options)
        self.repository = self.at_repository = found
        revision = self.revision
        if revision is not None and not (isinstance(revision, str) and revision):
            raise InvalidInputError(f"revision takes a text such as 'v1.0', got {revision!r}")

    @property
    def takes_uris(self) -> bool:
        """Whether a name may be a path or uri."""
        return self.tables is None and self.repository is None

    @property
    def named(self) -> Mapping[str, Source]:
        """The tables that were given by names."""
        return self.tables or {}

    def put(self, name: str, revision: str | None, found: Snapshot) -> None:
        """Have a name and revision mean this state from now on."""
        name = self.known_as(name) or name
        self._put.add(name)
        self._found[name, revision, None] = found

    def known_as(self, name: str, revision: str | None = None) -> str | None:
        """Our name of a table that a query names, at a revision; None if it is not ours.

        Raises InvalidInputError where several names differ only in case, and none matches exactly.
        """
        for known in (self._put, self.named, self._in_repository, self._only_at(revision)):
            near = alike(name, known, self.identifiers.folded)
            if len(near) > 1:
                raise InvalidInputError(
                    f"table {name!r} may be {' or '.join(map(repr, near))}: write one of them "
                    "exactly so",
                    table=name,
                )
            if near:
                return near[0]
        return name if self.takes_uris and is_uri(name) else None

    def unknown(self, name: str) -> NotFoundError:
        """The error for an unknown name."""
        known = list(dict.fromkeys((*self.named, *self._in_repository)))
        if name.lower().endswith(_OTHER_FILES):
            return _no_lance(name)
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        more = f" and {len(known) - _MOST_LISTED} more" if len(known) > _MOST_LISTED else ""
        listed = ", ".join(known[:_MOST_LISTED]) or "no tables"
        if is_uri(name):
            hint = "; a path is given a name, with tables= or lw sql --table NAME=PATH"
        return NotFoundError(
            f"table {name!r} not found: there are {listed}{more} here{hint}",
            name=name,
        )

    def version(
        self, name: str, revision: str | None, at: int | str | datetime | None = None
    ) -> Snapshot:
        """The version of a table; the same each time it is asked for.

        ``at`` is the value of AS OF: a number or a time applies to the branch that is meant. Raises
        NotFoundError, InvalidInputError where the version is given twice.
        """
        key = name, revision, at
        if key not in self._found:
            self._found[key] = self._load(name, revision, at)
        return self._found[key]

    def landed(self, name: str, at: int | str | None = None) -> Snapshot:
        """The version of a table in its own history, if what a commit pins has landed there, where
        it can be compared with others by where both come from. Raises what ``version`` raises."""
        found = self.version(name, None, at)
        view = self._pinned.get((name, found.manifest.version))
        landed = None if view is None else view.landed(name)
        return found if landed is None else landed._snapshot

    def _load(self, name: str, revision: str | None, at: int | str | datetime | None) -> Snapshot:
        if isinstance(at, str) and revision is None:
            return self.version(name, at)
        if at is not None:
            is_twice = revision is not None and not self._is_branch(name, revision)
            if is_twice or isinstance(at, str):
                raise InvalidInputError(
                    f"{name}@{revision} says which version is meant, and so does AT or AS OF: only "
                    "a branch can stand before the number of a version or a moment"
                )
            return resolve(self.version(name, revision), at)
        is_given = name in self.named or self.takes_uris
        if revision is not None and (is_given or ":" in revision):
            return resolve(self.version(name, None), revision)
        if is_given:
            return self._open(name)
        try:
            view = self._at(revision or self.revision or "HEAD")
            found = view.table(name)._snapshot
        except NotFoundError as missing:
            if revision is None or _of_a_table(revision) is None:  # main~9 is of a repository
                raise
            try:
                return resolve(self.version(name, None), revision)
            except NotFoundError:
                raise missing from None
        self._pinned[name, found.manifest.version] = view
        return found

    def _open(self, name: str) -> Snapshot:
        """A table that was given, or is named by its uri."""
        source = self.named.get(name, name)
        if not isinstance(source, str | os.PathLike):
            return source._snapshot
        try:
            found = Address(source, self.access).open()
        except NotFoundError:
            if source is name and name.lower().endswith(_OTHER_FILES):
                raise _no_lance(name) from None
            raise
        if self.revision is not None and self.repository is None:
            return resolve(found, self.revision)
        return found

    def _is_branch(self, name: str, revision: str) -> bool:
        """Whether a text after an @ leaves the version open; one that was found in the repository
        has to be a branch there."""
        found = self.version(name, revision)
        if name not in self.named and revision in self._views:
            assert self.repository is not None
            return revision == "HEAD" or revision in self.repository.branches.list()
        meant = _of_a_table(revision)
        if isinstance(meant, OnBranch):
            return meant.version is None
        return isinstance(meant, ByName) and TAG not in found.derived

    def _at(self, revision: str) -> View:
        """A commit of the repository, resolved once."""
        assert self.repository is not None
        if revision not in self._views:
            self._views[revision] = self.repository.at(revision)
        return self._views[revision]

    def _only_at(self, revision: str | None) -> Collection[str]:
        """The tables of another commit, which may have some that the default one lacks."""
        if revision is not None and self.repository is not None:
            with suppress(NotFoundError, InvalidInputError):  # one of a table alone
                return tuple(self._at(revision).tables)
        return ()

    @cached_property
    def _in_repository(self) -> tuple[str, ...]:
        """The tables of the default commit; none if there is no commit yet."""
        repository = self.repository
        if repository is None or (self.revision is None and repository.head.hash is None):
            return ()
        return tuple(self._at(self.revision or "HEAD").tables)


def _checked(tables: Mapping[str, Source] | None) -> dict[str, Source] | None:
    if tables is None:
        return None
    if not isinstance(tables, Mapping):
        raise InvalidInputError(
            "tables takes a mapping from names to uris or tables, such as "
            f"{{'photos': 'photos.lance'}}, got a {type(tables).__name__}"
        )
    for name, source in tables.items():
        if not isinstance(name, str) or not name or "@" in name or "`" in name:
            raise InvalidInputError(
                f"{name!r} cannot name a table in a query: give a text without '@' and backticks"
            )
        if not isinstance(source, str | os.PathLike):
            from lancewood.table.table import Table

            if not isinstance(source, Table):  # the value may hold a secret, and is not repeated
                raise InvalidInputError(
                    f"table {name!r} is a {type(source)}: give its uri, or a lancewood.Table"
                )
    return dict(tables)


def _of_a_table(revision: str) -> Revision | None:
    """What a text means for a table by itself; None for what is no revision of one."""
    try:
        return parse_revision(revision)
    except InvalidInputError:
        return None


def is_uri(name: str) -> bool:
    """Whether a name can be a path or uri, and not one word."""
    return "/" in name or name.endswith(".lance")


def _no_lance(name: str) -> NotFoundError:
    return NotFoundError(
        f"{name!r} is no table: only Lance tables are read here; make one of the file with "
        f"lw table import {Path(name).stem}.lance {name}",
        name=name,
    )
