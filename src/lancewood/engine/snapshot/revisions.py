"""Resolving what a caller asks for, a branch, version, tag or time, to a version.

Refs are looked up in the main root, wherever one starts. The grammar of texts such as ``exp:12`` is
in ``model.refs``. Changes nothing.
"""

from __future__ import annotations

import os
from datetime import datetime
from typing import TypeAlias

from lancewood.engine.base import check_number
from lancewood.engine.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import (
    before_the_fork,
    gone_version,
    is_recorded,
    load_tag,
    newest_version,
    no_branch,
    no_ref,
    no_tag,
)
from lancewood.errors import FormatError, InvalidInputError, NotFoundError, UnsupportedError
from lancewood.format.layout import TREE_DIR
from lancewood.model.refs import (
    AtTag,
    BranchName,
    ByName,
    OnBranch,
    Revision,
    Tag,
    branch_name,
    parse_revision,
    tag_name,
)
from lancewood.store.base import Store

At: TypeAlias = int | str | datetime | None
"""A version number, a text as ``model.refs`` parses it, or a time."""

TAG = "tag"
"""The key in ``derived`` for the name of the tag by which a snapshot was found."""
NUMBERED = "numbered"
"""The key in ``derived`` of a snapshot that was found by its number, or by a moment."""


def resolve(snapshot: Snapshot, at: At) -> Snapshot:
    """The version that ``at`` means relative to a snapshot.

    None is the snapshot itself; a number or a time is looked up on its branch, a text in the refs
    of the table.
    """
    if at is None:
        return snapshot
    if isinstance(at, datetime):
        return load_snapshot(snapshot.location, as_of=at)
    if isinstance(at, str):
        return _Names(main_location(snapshot)).load(parse_revision(at))
    return same_branch(snapshot, _version(at))


def same_branch(snapshot: Snapshot, version: int) -> Snapshot:
    """Another version of a snapshot's branch."""
    unlanded = snapshot.unlanded(version)
    if unlanded is not None:
        return unlanded
    main = snapshot.location.main(snapshot.manifest)
    return _load(snapshot.location, main, _branch_of(snapshot), version)


def open_revision(
    location: Location,
    *,
    branch: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    as_of: datetime | str | None = None,
    at: At = None,
    in_uri: str | None = None,
) -> Snapshot:
    """Open a version of the table at a location: main's root, or the root of a branch.

    Without ``branch``, ``tag`` or a text, the versions of that root are meant. At most one of
    version, tag, as_of and at may be given, only a version or a time together with a branch, and
    nothing besides ``in_uri``, the revision that came with the uri.
    """
    check_contradictions(branch, version, tag, as_of, at, in_uri)
    at = in_uri if at is None else at
    if isinstance(at, datetime):
        as_of = at
    elif isinstance(at, str):
        return _Names(_main_of(location)).load(parse_revision(at))
    elif at is not None:
        version = _version(at)
    if tag is not None:
        asked = tag_name(tag)
        return _Names(_main_of(location)).load(AtTag(asked))
    if branch is not None:
        found = branch_name(branch)
        return _Names(_main_of(location)).load_branch(found, version=version, as_of=as_of)
    return load_snapshot(location, version=version, as_of=as_of)


def check_contradictions(
    branch: object,
    version: object,
    tag: object,
    as_of: object,
    at: object,
    in_uri: str | None = None,
) -> None:
    """Raise InvalidInputError where a caller names the version in two ways."""
    given = {"version": version, "tag": tag, "as_of": as_of, "at": at}
    said = [f"{name}=" for name, value in given.items() if value is not None]
    if len(said) > 1:
        raise InvalidInputError(f"{' and '.join(said)} each say which version is meant; give one")
    if branch is not None and (tag is not None or at is not None):
        raise InvalidInputError(
            f"{said[0]} says which branch is meant, and so does branch=; give one of them"
        )
    if in_uri is not None and (said or branch is not None):
        also = " and ".join(["branch="] * (branch is not None) + said)
        raise InvalidInputError(
            f"the uri carries the revision {in_uri!r}, and {also} says one, too; give one of them"
        )


def main_location(snapshot: Snapshot) -> Location:
    """The main root of the table that a version belongs to, where the refs are.

    Raises InvalidInputError for a branch that was moved out of its table.
    """
    head = snapshot.manifest
    if head.branch is None:
        return snapshot.location
    main = snapshot.location.main(head)
    if main is None:
        raise InvalidInputError(
            f"{snapshot.location.uri} holds branch {head.branch}, but does not lie at "
            f"{TREE_DIR}/{head.branch} below a main root, where the refs are; open it at its place",
            branch=head.branch,
        )
    return snapshot.location.at(main)


def history_location(
    location: Location, *, branch: str | None = None, in_uri: str | None = None
) -> Location:
    """The root whose versions are meant, even where the newest of them cannot be read."""
    check_contradictions(branch, None, None, None, None, in_uri)
    if in_uri is not None:
        meant = parse_revision(in_uri)
        if not isinstance(meant, OnBranch) or meant.version is not None:
            return open_revision(location, in_uri=in_uri).location
        asked = meant.branch
    elif branch is not None:
        asked = branch_name(branch)
    else:
        return location
    return _Names(_main_of(location)).root(asked)


def branch_location(main: Location, branch: BranchName | None) -> Location:
    """The root of a branch; None is main itself."""
    return main if branch is None else main.at(main.store.at(f"{TREE_DIR}/{branch}"))


def has_revision(location: Location, text: str) -> bool:
    """Whether such a version exists, in whatever state. Raises InvalidInputError for a text that is
    invalid or ambiguous."""
    revision = parse_revision(text)
    try:
        _Names(_main_of(location)).load(revision)
    except NotFoundError:
        return False
    except (FormatError, UnsupportedError):
        return True
    return True


def _main_of(location: Location) -> Location:
    """The main root; only below a ``tree/`` does that take reading a manifest."""
    if f"/{TREE_DIR}/" not in location.uri:
        return location
    return main_location(load_snapshot(location))


def _branch_of(snapshot: Snapshot) -> BranchName | None:
    branch = snapshot.manifest.branch
    return None if branch is None else BranchName.found(branch)


def _version(at: object) -> int:
    try:
        return check_number("at", at, least=1)
    except InvalidInputError:
        raise InvalidInputError(
            f"at takes a version number, a tag, branch:version or a datetime, got {at!r}"
        ) from None


class _Names:
    """The refs of a table, by its main root, and the versions that they lead to."""

    def __init__(self, main: Location) -> None:
        self._main = main

    def load(self, revision: Revision) -> Snapshot:
        if isinstance(revision, OnBranch):
            return self.load_branch(revision.branch, version=revision.version)
        if isinstance(revision, AtTag):
            return self._load_tag(revision)
        return self._load_by_name(revision)

    def root(self, branch: BranchName | None) -> Location:
        """The root of a recorded branch; raises NotFoundError."""
        if branch is not None and not is_recorded(self._main.store, branch):
            raise no_branch(self._main.store, branch)
        return branch_location(self._main, branch)

    def load_branch(
        self,
        branch: BranchName | None,
        *,
        version: int | None = None,
        as_of: datetime | str | None = None,
    ) -> Snapshot:
        """A version of a recorded branch; raises NotFoundError."""
        location = self.root(branch)
        try:
            if as_of is not None:
                found = load_snapshot(location, version=version, as_of=as_of)
            else:
                found = _load(location, self._main.store, branch, version)
            if as_of is not None or version is not None:
                found.derived[NUMBERED] = True
            return found
        except NotFoundError as cause:
            if branch is None or newest_version(location.store) is not None:
                raise
            raise NotFoundError(
                f"branch {str(branch)!r} of {self._main.uri} is recorded, but its root "
                f"{location.uri} holds no version: bring its files back, or delete the branch",
                branch=str(branch),
            ) from cause

    def _load_by_name(self, revision: ByName) -> Snapshot:
        tag = None if revision.tag is None else load_tag(self._main.store, revision.tag)
        is_branch = revision.branch is None or is_recorded(self._main.store, revision.branch)
        if tag is not None and is_branch:
            raise InvalidInputError(
                f"{str(revision)!r} is a branch and a tag of {self._main.uri}: write "
                f"'{revision}:' for the branch, '{AtTag(tag.name)}' for the tag"
            )
        if tag is not None:
            return self._load_tagged(tag)
        if is_branch:
            return self.load_branch(revision.branch)
        raise no_ref(self._main.store, str(revision))

    def _load_tag(self, revision: AtTag) -> Snapshot:
        tag = load_tag(self._main.store, revision.tag)
        if tag is not None:
            return self._load_tagged(tag)
        raise no_tag(self._main.store, revision.tag)

    def _load_tagged(self, tag: Tag) -> Snapshot:
        location = branch_location(self._main, tag.branch)
        try:
            found = load_snapshot(location, version=tag.version)
            found.derived[TAG] = str(tag.name)
            return found
        except NotFoundError as cause:
            raise gone_version(self._main.store, tag, cause) from cause


def _load(
    location: Location, main: Store | None, branch: BranchName | None, version: int | None
) -> Snapshot:
    """A version of a root; for one from before a branch was made the error says where it is."""
    try:
        return load_snapshot(location, version=version)
    except NotFoundError as error:
        if main is None or branch is None or version is None:
            raise
        where = before_the_fork(main, branch, version)
        if where is None:
            raise
        raise NotFoundError(f"{error}; {where}", **error.facts) from error


Uri: TypeAlias = str | os.PathLike[str]


def is_table(store: Store) -> bool:
    """Whether there is a table, in whatever state; no manifest is opened."""
    try:
        return newest_version(store) is not None
    except FormatError:
        return True
