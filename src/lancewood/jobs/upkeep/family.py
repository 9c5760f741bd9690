"""The roots that may share files, and the refs that hold their versions.

A table's main root and its branches below ``tree/`` are one family: a branch reads files of the
root it came from, and may keep new ones there. Reads names and refs, opens no manifest, changes
nothing. Clones elsewhere are not seen here, except by the tags that they leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lancewood.engine.roots import branch_roots
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.format.layout import TREE_DIR, VERSIONS_DIR, ManifestName, parse_manifest_name
from lancewood.format.refs import (
    BRANCHES_DIR,
    TAGS_DIR,
    branch_key,
    decode_branch,
    decode_tag,
    ref_name,
)
from lancewood.jobs.runner import LocalRunner
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, Tag, TagName
from lancewood.store.base import Store
from lancewood.store.locate import open_store


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


@dataclass(frozen=True)
class Family:
    """One root of a table, ``own``, and those it may share files with."""

    main: Store
    own: Store
    branch: BranchName | None
    """The branch that ``own`` is the root of; None for main."""

    @property
    def own_root(self) -> str:
        return "" if self.branch is None else f"{TREE_DIR}/{self.branch}"

    def store(self, root: str) -> Store:
        if root == self.own_root:
            return self.own
        return self.main.at(root) if root else self.main

    def roots(self, refs: Refs) -> list[str]:
        """Every root of the family, with or without a ref.

        Raises FormatError for a branch whose root holds no version: what it needs is not known.
        """
        found = ["", *branch_roots(self.main)]
        known = set(found)
        for each in refs.branches:
            if f"{TREE_DIR}/{each.name}" not in known and self._is_recorded(each.name):
                raise FormatError(
                    f"branch {each.name} of {self.main.uri} is recorded, but {TREE_DIR}/"
                    f"{each.name} holds no version: which files it needs is not known. Bring its "
                    "files back, or delete the branch",
                    branch=str(each.name),
                )
        return found

    def _is_recorded(self, name: BranchName) -> bool:
        try:
            self.main.head(branch_key(name))
        except NotFoundError:
            return False
        return True


def find_family(snapshot: Snapshot) -> Family:
    """The family of the root that a snapshot lives in.

    Raises InvalidInputError for a branch that was opened where no main root can be above it.
    """
    store, branch = snapshot.place.store, snapshot.manifest.branch
    if branch is None:
        return Family(store, store, None)
    name = BranchName.found(branch)
    below = f"/{TREE_DIR}/{name}"
    if not store.uri.endswith(below):
        raise InvalidInputError(
            f"{store.uri} holds branch {name}, but does not lie at {below[1:]} below a main root, "
            "where the refs are; open it at its place",
            branch=branch,
        )
    above = store.uri.removesuffix(below) or "/"
    options = snapshot.place.storage_options
    return Family(open_store(above, storage_options=options), store, name)


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
    for each in LocalRunner().run(partial(_read, main, directory), files, what="reading refs"):
        if each is not None:
            yield each


def manifest_names(store: Store) -> dict[str, ManifestName]:
    """The manifests of a root by the bare names of their files, detached ones included."""
    return {
        name: found for name in store.names(VERSIONS_DIR) if (found := parse_manifest_name(name))
    }


def _read(main: Store, directory: str, file: str) -> tuple[str, Tag | Branch | FormatError] | None:
    try:
        name = ref_name(file)
        if name is None:
            return None
        data = main.get(f"{directory}/{file}")
        if directory == TAGS_DIR:
            return file, decode_tag(TagName.found(name), data)
        return file, decode_branch(BranchName.found(name), data)
    except NotFoundError:
        return None  # deleted since the listing
    except FormatError as damage:
        return file, damage
