"""Branches and tags of a table, read and listed, and the roots of branches below ``tree/``.

Refs are kept in the main root. No manifest is opened: a ref may name a version that is gone. If a
branch, tag or version does not exist, the error names what there is instead, or where the version
is; tags that Lancewood keeps for itself are not offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from itertools import chain

from lancewood.engine.base import in_order
from lancewood.engine.versions.finding import newest_version, require_newest
from lancewood.errors import FormatError, NotFoundError
from lancewood.format.layout import TREE_DIR, VERSIONS_DIR, parse_manifest_name
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
from lancewood.model.refs import (
    TAG_PREFIX,
    Branch,
    BranchName,
    BranchPoint,
    OnBranch,
    Tag,
    TagName,
    called,
)
from lancewood.store.base import Store, is_there

_AT_ONCE = 16
"""How many refs are fetched at the same time from a slow store."""
_MOST_IN_A_ROW = 64


@dataclass(frozen=True, slots=True)
class TableRefs:
    """Every tag and branch of a table."""

    tags: tuple[Tag, ...]
    branches: tuple[Branch, ...]

    def held(self, branch: BranchName | None) -> dict[Version, str]:
        """The versions of a branch (None: of main) that refs need, each with the ref that needs
        it."""
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
        """The versions of this branch that other branches descend from."""
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
    """The record of a branch; None if there is none. Raises FormatError."""
    try:
        return decode_branch(name, main.get(branch_key(name)))
    except NotFoundError:
        return None


def is_recorded(main: Store, name: BranchName) -> bool:
    """Whether a branch has a record, in whatever state: opening the branch does not need it."""
    return is_there(main, branch_key(name))


def load_tag(main: Store, name: TagName) -> Tag | None:
    """The record of a tag; None if there is none. Raises FormatError."""
    try:
        return decode_tag(name, main.get(tag_key(name)))
    except NotFoundError:
        return None


def load_refs(main: Store) -> TableRefs:
    """All refs; raises FormatError for one that cannot be read."""
    found: list[Tag | Branch] = []
    for directory in (TAGS_DIR, BRANCHES_DIR):
        for _, each in read_refs(main, directory):
            if isinstance(each, FormatError):
                raise each
            found.append(each)
    return TableRefs(
        tuple(each for each in found if isinstance(each, Tag)),
        tuple(each for each in found if isinstance(each, Branch)),
    )


def read_refs(main: Store, directory: str) -> Iterator[tuple[str, Tag | Branch | FormatError]]:
    """Every ref in a directory by file name: its content, or why it cannot be read."""
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


def branch_roots(store: Store) -> Iterator[str]:
    """Each root below ``tree/`` that holds manifests, with or without a ref that names it.

    Lists everything below ``tree/``, as far as the iterator is consumed.
    """
    seen = set()
    for root, _ in branch_manifests(store):
        if root not in seen:
            seen.add(root)
            yield root


def branch_manifests(store: Store) -> Iterator[tuple[str, str]]:
    """Every manifest below ``tree/``, from one listing: its root, and the name of its file."""
    middle = f"/{VERSIONS_DIR}/"
    for each in store.list(TREE_DIR):
        root, found, name = each.key.rpartition(middle)
        if found and parse_manifest_name(name):
            yield root, name


_SHOWN = 5
"""How many names an error lists."""
_KEPT = "lw."
"""The prefix of Lancewood's own tags."""


def no_branch(main: Store, branch: BranchName) -> NotFoundError:
    """The error for a branch that is not recorded; raises NotFoundError where there is no table."""
    require_newest(main)
    root = main.at(f"{TREE_DIR}/{branch}")
    if newest_version(root) is not None:
        return NotFoundError(
            f"branch {str(branch)!r} of {main.uri} is not recorded, but {root.uri} holds versions: "
            "its creation or deletion was cut off. Create it again to finish it, or open it by "
            "that path",
            branch=str(branch),
        )
    return NotFoundError(
        f"branch {str(branch)!r} of {main.uri} not found: {_branches(main, branch)}",
        branch=str(branch),
    )


def no_tag(main: Store, tag: TagName) -> NotFoundError:
    """The error for a tag that does not exist; raises NotFoundError where there is no table."""
    require_newest(main)
    hint = ""
    if tag.isdigit() and is_recorded(main, BranchName.found(TAG_PREFIX)):
        hint = f"; for a version of the branch 'tag' give branch='tag', version={tag}"
    return NotFoundError(
        f"tag {str(tag)!r} of {main.uri} not found: {_tags(main, tag)}{hint}", tag=str(tag)
    )


def no_ref(main: Store, name: str) -> NotFoundError:
    """The error for a name that is neither a branch nor a tag; raises NotFoundError without a
    table."""
    require_newest(main)
    nothing = f"{main.uri} has no tag or branch called {name!r}"
    if name.isascii() and name.isdigit():
        return NotFoundError(
            f"{nothing}; version {name} is asked for with the number {name} on the branch at hand, "
            f"or with ':{name}' on main",
            name=name,
        )
    return NotFoundError(f"{nothing}: {_branches(main, name)}, {_tags(main, name)}", name=name)


def gone_version(main: Store, tag: Tag, cause: NotFoundError) -> NotFoundError:
    """The error for a tag on a version that is gone."""
    return NotFoundError(
        f"tag {str(tag.name)!r} of {main.uri} names version {tag.version} of "
        f"{called(tag.branch)}, which is gone: {cause}. Move the tag to a version that is there, "
        "or delete it",
        tag=str(tag.name),
        branch=tag.branch,
        version=tag.version,
    )


def before_the_fork(main: Store, branch: BranchName, version: int) -> str | None:
    """Where a version from before a branch was made is found; None for any other version."""
    try:
        made = load_branch(main, branch)
    except FormatError:
        return None
    if made is None or made.parent_version <= version:
        return None
    meant = OnBranch(made.parent_branch, Version(version))
    return (
        f"branch {str(branch)!r} left {called(made.parent_branch)} at version "
        f"{made.parent_version}: ask for {str(meant)!r}"
    )


def _branches(main: Store, asked: str) -> str:
    return listed("branch", "branches", asked, _names(main, BRANCHES_DIR))


def _tags(main: Store, asked: str) -> str:
    return listed("tag", "tags", asked, _names(main, TAGS_DIR))


def listed(one: str, many: str, asked: str, known: Sequence[str]) -> str:
    """What exists instead: names like the one that was asked for, else the first few."""
    if not known:
        return f"there is no {one}"
    shown = get_close_matches(asked, known, _SHOWN) or known[:_SHOWN]
    more = ", …" if len(known) > len(shown) else ""
    verb = f"are {many}" if len(known) > 1 else f"is {one}"
    return f"there {verb} {', '.join(map(repr, shown))}{more}"


def _names(main: Store, directory: str) -> list[str]:
    """The refs in a directory by name; skips what is not a ref."""
    found = []
    for each in main.names(directory):
        try:
            name = ref_name(each)
        except FormatError:
            continue
        if name is not None and not (directory == TAGS_DIR and name.startswith(_KEPT)):
            found.append(name)
    return sorted(found)
