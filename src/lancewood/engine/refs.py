"""The refs of a table: branches and tags, read and listed. They are kept in the main root.

Opens no manifest: a ref may name a version that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from lancewood.engine.fanout import in_order
from lancewood.errors import FormatError, NotFoundError
from lancewood.format.refs import (
    BRANCHES_DIR,
    TAGS_DIR,
    branch_key,
    decode_branch,
    decode_tag,
    ref_name,
    tag_key,
)
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, Tag, TagName
from lancewood.store.base import Store, is_there

_AT_ONCE = 16
"""Refs that are fetched at the same time where a store is slow to answer."""
_MOST_IN_A_ROW = 64


@dataclass(frozen=True, slots=True)
class Refs:
    """Every tag and branch of a table."""

    tags: tuple[Tag, ...]
    branches: tuple[Branch, ...]

    def held(self, branch: BranchName | None) -> dict[Version, str]:
        """The versions of a branch (None: of main) that a ref needs, and which one does."""
        found = {
            each.parent_version: f"branch {each.name} begins there"
            for each in self.branches
            if each.parent_branch == branch
        }
        for name, version in self._ancestors(branch):
            found.setdefault(version, f"branch {name} descends from it")
        for tag in self.tags:
            if tag.branch == branch:
                found[tag.version] = f"tag {tag.name}"
        return found

    def _ancestors(self, branch: BranchName | None) -> Iterator[tuple[str, Version]]:
        """Where the descent of other branches passes through this one."""
        way: tuple[BranchPoint, ...] | None = () if branch is None else None
        for each in self.branches:
            if each.name == branch:
                way = each.identifier
        if way is None:
            return
        for each in self.branches:
            steps = each.identifier or ()
            if len(steps) > len(way) and steps[: len(way)] == way:
                yield each.name, steps[len(way)].version


def load_branch(main: Store, name: BranchName) -> Branch | None:
    """What is recorded about a branch; None if nothing is. Raises FormatError."""
    try:
        return decode_branch(name, main.get(branch_key(name)))
    except NotFoundError:
        return None


def is_recorded(main: Store, name: BranchName) -> bool:
    """Whether there is a record of a branch, in whatever state: it is not needed to open it."""
    return is_there(main, branch_key(name))


def load_tag(main: Store, name: TagName) -> Tag | None:
    """What is recorded about a tag; None if nothing is. Raises FormatError."""
    try:
        return decode_tag(name, main.get(tag_key(name)))
    except NotFoundError:
        return None


def load_refs(main: Store) -> Refs:
    """All refs; raises FormatError for one that cannot be read."""
    found: list[Tag | Branch] = []
    for directory in (TAGS_DIR, BRANCHES_DIR):
        for _, each in read_refs(main, directory):
            if isinstance(each, FormatError):
                raise each
            found.append(each)
    return Refs(
        tuple(each for each in found if isinstance(each, Tag)),
        tuple(each for each in found if isinstance(each, Branch)),
    )


def read_refs(main: Store, directory: str) -> Iterator[tuple[str, Tag | Branch | FormatError]]:
    """Every ref in a directory by the name of its file: what it says, or why it cannot be read."""
    files = sorted(main.names(directory))
    if "://" not in main.uri:
        return chain.from_iterable(_read(main, directory, each) for each in files)
    size = max(1, min(len(files) // (4 * _AT_ONCE), _MOST_IN_A_ROW))
    tasks = (
        partial(_read_some, main, directory, files[at : at + size])
        for at in range(0, len(files), size)
    )
    return chain.from_iterable(in_order(tasks, workers=_AT_ONCE))


def _read_some(
    main: Store, directory: str, files: Sequence[str]
) -> Iterator[list[tuple[str, Tag | Branch | FormatError]]]:
    yield [found for each in files for found in _read(main, directory, each)]


def _read(
    main: Store, directory: str, file: str
) -> Iterator[tuple[str, Tag | Branch | FormatError]]:
    try:
        name = ref_name(file)
        if name is None:
            return
        data = main.get(f"{directory}/{file}")
        if directory == TAGS_DIR:
            yield file, decode_tag(TagName.found(name), data)
        else:
            yield file, decode_branch(BranchName.found(name), data)
    except NotFoundError:
        return  # deleted since the listing
    except FormatError as damage:
        yield file, damage
