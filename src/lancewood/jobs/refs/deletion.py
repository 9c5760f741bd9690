"""The files of a branch, what needs the branch, and deleting it: its record first, then its files.

Roots nest: that of ``p/q`` lies inside that of ``p``, and names that other writers allow put it
even inside the directories of ``p``. So a file belongs to a branch only if it lies where the format
puts a file of its kind, and nothing else is touched.

A branch is needed by branches made from it, tags on it and base paths into it. To find them, the
refs and one manifest of main are read. Manifests of other branches are not opened, for there may be
ten thousand; a reader that was not made from the branch leaves a tag there.

1. An intent is left in its root; whoever makes a tag or a branch of it from here on steps back.
2. Who needs it is looked up again: what was made before the intent is seen now.
3. The record goes. From here on the branch does not exist, and its root is one that nobody names.
4. Its files go, the manifests first; then the intent, and the directories that are empty now.

Data files that the branch wrote into the main root are left to the cleanup of main, which no longer
finds a version that names them. A deletion that is cut off after the third step is finished by the
next one with ``force``, or by whoever makes a branch of that name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lancewood.catalog.membership import REPOSITORY_ID
from lancewood.engine.location import Location
from lancewood.engine.snapshot import Snapshot, main_location
from lancewood.engine.upkeep import CLONE_PROPERTY
from lancewood.engine.versions import (
    TableRefs,
    is_recorded,
    load_version,
    newest_version,
    read_refs,
)
from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    OWNED_DIRS,
    TRANSACTIONS_DIR,
    TREE_DIR,
    VERSIONS_DIR,
    is_data_key,
    parse_manifest_name,
)
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, branch_key, tag_key
from lancewood.jobs.job import chunks
from lancewood.jobs.refs.records import (
    INTENT_KEY,
    Intent,
    Standing,
    declare,
    is_moving,
    load_standing,
    no_branch,
    withdraw,
)
from lancewood.jobs.refs.tags import is_guard
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import MAIN, Branch, BranchName, Tag, branch_name
from lancewood.store.base import Store
from lancewood.store.retry import LOST_RACES

_DIRECTORIES = (VERSIONS_DIR, TRANSACTIONS_DIR, DELETIONS_DIR, INDICES_DIR, DATA_DIR)
MOST_KEYS = 1_000
"""Keys in one call, or in one task."""
_FLAT = re.compile(rf"(?:{VERSIONS_DIR}|{TRANSACTIONS_DIR}|{DELETIONS_DIR})/[^/]+")
_INDEX = re.compile(rf"{INDICES_DIR}/[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}/(.+)")
_HEARTBEAT = 60.0
"""Seconds between signs of life while many files are removed."""
_SHOWN = 5


def root_of(main: Store, name: BranchName) -> Store:
    """Where a branch lives."""
    return main.at(f"{TREE_DIR}/{name}")


@dataclass(frozen=True, slots=True)
class RootFiles:
    """The keys of a branch's files, below its root."""

    manifests: tuple[str, ...]
    others: tuple[str, ...]


def find_files(root: Store) -> RootFiles:
    """Every file of a branch except the intent."""
    manifests: list[str] = []
    others: list[str] = []
    for directory in _DIRECTORIES:
        for each in root.list(directory):
            if each.key == INTENT_KEY or not _is_own(each.key):
                continue
            _, _, name = each.key.partition("/")
            is_manifest = directory == VERSIONS_DIR and parse_manifest_name(name) is not None
            (manifests if is_manifest else others).append(each.key)
    return RootFiles(tuple(manifests), tuple(others))


def _is_own(key: str) -> bool:
    if key.startswith(f"{DATA_DIR}/"):
        return is_data_key(key)
    index = _INDEX.fullmatch(key)
    if index:
        return index[1].partition("/")[0] not in OWNED_DIRS
    return _FLAT.fullmatch(key) is not None


def remove_files(
    root: Store, files: RootFiles, still_mine: Callable[[], None] = lambda: None
) -> None:
    """Remove the files, the manifests first: without them it is no longer a root.

    ``still_mine`` is called about once a minute and can raise to stop.
    """
    told = time.monotonic()
    for some in chunks([*files.manifests, *files.others], MOST_KEYS):
        if time.monotonic() - told > _HEARTBEAT:
            still_mine()
            told = time.monotonic()
        root.delete(some)


def prune(main: Store, name: BranchName) -> None:
    """Remove the empty directories of a branch and the empty ones above them."""
    root = f"{TREE_DIR}/{name}"
    for directory in _DIRECTORIES:
        main.prune(f"{root}/{directory}")
    while next(main.list(root), None) is None:
        main.prune(root)
        above, _, _ = root.rpartition("/")
        if not above:
            return
        root = above


@dataclass(frozen=True, slots=True)
class BranchNeeds:
    """Everything that needs a branch."""

    children: tuple[str, ...]
    tags: tuple[Tag, ...]
    guards: tuple[Tag, ...]
    """Tags of a clone, of a publication by reference, or of a repository."""
    bases: tuple[str, ...]

    def check_none(self, name: BranchName, what: str, *, force: bool = False) -> None:
        """Raise InvalidInputError if there are any; ``force`` ignores ordinary tags."""
        said = [f"branch {each!r} came from it" for each in self.children]
        for each in self.guards:
            clone = each.metadata.get(CLONE_PROPERTY)
            reader = f"the clone at {clone}" if clone else "a clone or another branch"
            if REPOSITORY_ID in each.metadata:
                reader = f"repository {each.metadata[REPOSITORY_ID]}"
            said.append(f"tag {str(each.name)!r} says that {reader} reads its files")
        said += [f"{each} has a base path there" for each in self.bases]
        firm = bool(said)
        if not force:
            said += [
                f"tag {str(each.name)!r} names its version {each.version}" for each in self.tags
            ]
        if not said:
            return
        more = f" and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
        way = "remove those first"
        if what == "deleted" and not firm:
            way += ", or let force=True delete the tags with it"
        raise InvalidInputError(
            f"branch {str(name)!r} cannot be {what}: {', '.join(said[:_SHOWN])}{more}; {way}",
            branch=str(name),
            needed_by=said,
        )


def load_other_refs(main: Store, name: BranchName) -> TableRefs:
    """All refs; raises FormatError for a damaged one, unless it is the record of this branch."""
    tags: list[Tag] = []
    branches: list[Branch] = []
    for directory in (TAGS_DIR, BRANCHES_DIR):
        for file, each in read_refs(main, directory):
            if isinstance(each, Tag):
                tags.append(each)
            elif isinstance(each, Branch):
                branches.append(each)
            elif f"{directory}/{file}" != branch_key(name):
                raise each
    return TableRefs(tuple(tags), tuple(branches))


def find_needs(
    main: Location, refs: TableRefs, name: BranchName, also: Iterable[ManifestHead] = ()
) -> BranchNeeds:
    """What needs a branch, recorded or not; ``also`` are manifests known already."""
    own = next((each.identifier for each in refs.branches if each.name == name), None)
    children = {each.name for each in refs.branches if each.parent_branch == name}
    if own:
        children |= {
            each.name
            for each in refs.branches
            if len(each.identifier or ()) > len(own) and (each.identifier or ())[: len(own)] == own
        }
    on_it = [each for each in refs.tags if each.branch == name]
    return BranchNeeds(
        children=tuple(sorted(children - {name})),
        tags=tuple(each for each in on_it if not is_guard(each.name)),
        guards=tuple(each for each in on_it if is_guard(each.name)),
        bases=tuple(_bases_into(main, name, also)),
    )


def _bases_into(main: Location, name: BranchName, also: Iterable[ManifestHead]) -> list[str]:
    heads = [each for each in also if each.branch != name]
    if newest_version(main.store) is not None:
        heads.append(load_version(main.store)[0])
    root = root_of(main.store, name)
    found = {each.branch or MAIN for each in heads if _leads_to(main, each, root)}
    return sorted(found)


def _leads_to(main: Location, head: ManifestHead, root: Store) -> bool:
    """Whether a version has a base path into a root; on main also to the place of that root before
    the table was moved."""
    if head.branch is not None:
        return any(main.is_at(each, root) for each in head.base_paths)
    main.settle(head)
    return any(main.leads_to(each, root) for each in head.base_paths)


def delete_branch(
    snapshot: Snapshot,
    name: str,
    *,
    force: bool = False,
    dry_run: bool = False,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Remove a branch that nobody needs.

    ``force`` also removes the tags on it, and what is left of a branch that is no longer recorded.
    ``check`` is asked for others who may need it, once everybody can see that it is leaving, and
    stops it with InvalidInputError. A dry run only checks.
    Raises NotFoundError; InvalidInputError if somebody needs it, who is named;
    RetryableConflictError while somebody else makes, deletes or renames it.
    """
    asked = branch_name(name)
    if asked is None:
        raise InvalidInputError("main cannot be deleted: it is the table; lw.drop removes that")
    if snapshot.manifest.branch == asked:
        raise InvalidInputError(
            f"branch {name!r} cannot be deleted through a handle that is on it; take one on main "
            "or on another branch",
            branch=name,
        )
    deletion = _Deletion(snapshot, main_location(snapshot), asked, force, check)
    if dry_run:
        deletion.plan()
    else:
        deletion.run()


@dataclass
class _Deletion:
    snapshot: Snapshot
    main: Location
    name: BranchName
    force: bool
    check: Callable[[], None]

    @property
    def store(self) -> Store:
        return self.main.store

    @property
    def root(self) -> Store:
        return root_of(self.store, self.name)

    def plan(self) -> None:
        """Raise what stands in the way now; write nothing."""
        self._needs().check_none(self.name, "deleted", force=self.force)
        self._check_standing()
        self.check()

    def run(self) -> None:
        self._needs().check_none(self.name, "deleted", force=self.force)
        self._declare()
        try:
            needs = self._needs()
            needs.check_none(self.name, "deleted", force=self.force)
            self.check()
        except InvalidInputError:
            withdraw(self.root)
            raise
        self.store.delete([tag_key(each.name) for each in needs.tags])
        self.store.delete([branch_key(self.name)])
        remove_files(self.root, find_files(self.root), self._stay)
        # Whoever was about to commit while they were listed has left something since.
        remove_files(self.root, find_files(self.root), self._stay)
        withdraw(self.root)
        prune(self.store, self.name)

    def _needs(self) -> BranchNeeds:
        refs = load_other_refs(self.store, self.name)
        return find_needs(self.main, refs, self.name, [self.snapshot.manifest])

    def _declare(self) -> None:
        for _ in LOST_RACES:
            if declare(self.root, Intent("delete"), self._check_standing()):
                return
        raise self._busy("others keep creating or deleting it")

    def _check_standing(self) -> Standing | None:
        """What others are about to do with the branch, unless that stands in the way."""
        standing = load_standing(self.root)
        if not is_recorded(self.store, self.name):
            self._check_leftover(standing)
            return standing
        # Whoever made the branch is done when it is recorded; others may be at work.
        self._check_not_moving(standing)
        if standing is None or standing.intent.verb in ("create", "move in"):
            return standing
        if not (standing.is_abandoned or self.force):
            raise self._busy(f"it {standing.intent} by somebody; force=True does it all the same")
        return standing

    def _check_not_moving(self, standing: Standing | None) -> None:
        if standing is not None and is_moving(self.store, self.name, standing):
            raise self._busy(f"it {standing.intent}; rename it again to finish that")

    def _check_leftover(self, standing: Standing | None) -> None:
        files = find_files(self.root)
        if standing is None and not files.manifests and not files.others:
            raise no_branch(self.store, self.name)
        self._check_not_moving(standing)
        if self.force or (standing is not None and standing.is_abandoned):
            return
        why = f"it {standing.intent}, or that was cut off" if standing else "no branch names them"
        raise NotFoundError(
            f"branch {str(self.name)!r} of {self.store.uri} not found, but {self.root.uri} holds "
            f"files: {why}; force=True removes them",
            branch=str(self.name),
        )

    def _stay(self) -> None:
        """Say that somebody is still at work; raises if another has taken over."""
        standing = load_standing(self.root)
        if standing is None or not declare(self.root, standing.intent, standing):
            raise self._busy("somebody else has taken over")

    def _busy(self, why: str) -> RetryableConflictError:
        return RetryableConflictError(
            f"branch {str(self.name)!r} of {self.store.uri} cannot be deleted now: {why}",
            branch=str(self.name),
        )
