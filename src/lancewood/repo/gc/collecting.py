"""Removing what no commit leads to: states, branches of tables, and remains of unmade tables.

The order is the safety argument:

1. what commits pin and has not landed lands (``catch_up_all``);
2. what may be removed is listed, with its age;
3. all commits are read, of every repository that a table belongs to: whatever came into being
   before the listing, and is committed by now, is seen;
4. just before something is removed, the commits that came since are read as well.

Files of a writer at work are younger than ``in_flight``. Data files of tables are not
touched: ``Table.cleanup`` takes them once nothing names them. Objects of git are not touched
either: ``git gc`` packs them, and removes those that nothing reaches, as it does anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lancewood.catalog.names import TABLES_DIR, own_table
from lancewood.catalog.opening import TableStores
from lancewood.catalog.reachable import waiting
from lancewood.engine.snapshot import branch_location, is_table, load_snapshot
from lancewood.engine.staging import is_in_place
from lancewood.engine.versions import branch_roots, load_refs
from lancewood.errors import ConflictError, InvalidInputError, LancewoodError, NotFoundError
from lancewood.format.layout import DATA_DIR, OWNED_DIRS, TREE_DIR, VERSIONS_DIR, is_data_key
from lancewood.git.names import HEADS, below
from lancewood.git.values import Hash
from lancewood.jobs.refs.deletion import delete_branch
from lancewood.jobs.refs.records import ABANDONED, load_standing
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.cleanup import CleanupReport, clean_up
from lancewood.jobs.upkeep.retention import Retention
from lancewood.model.ids import Version
from lancewood.model.lines import Landing
from lancewood.model.refs import MAIN, Branch, BranchName
from lancewood.repo.context import RepoContext
from lancewood.repo.gc.needed import (
    Candidate,
    Candidates,
    CommitNeeds,
    GcReport,
    Orphan,
    Stays,
    TableBranch,
    find_orphans,
    is_staged_only,
    noted,
    remove_orphans,
    unneeded_transactions,
)
from lancewood.repo.landing import finish_moves, land_pin, pending_tables
from lancewood.repo.outcome import Divergence
from lancewood.repo.writable import is_ours
from lancewood.store.base import Store
from lancewood.store.clock import time_by


@dataclass
class CaughtUp:
    """Branches of tables whose states landed, or would, and those that could not."""

    landed: list[TableBranch] = field(default_factory=list)
    diverged: list[Divergence] = field(default_factory=list)
    failed: list[Stays] = field(default_factory=list)


def catch_up_all(context: RepoContext, *, dry_run: bool) -> CaughtUp:
    """Land what the commits at the tips of all branches have waiting, the oldest first."""
    found = CaughtUp()
    pins = set[tuple[str, Hash | None]]()
    trees = set[Hash]()
    for branch, tip in _branches(context):
        names = list[str]()
        with noted(found.failed, f"branch {branch}"):
            names = _to_look_at(context, tip, trees, pins)
            _finish_moves(context, branch, tip, found, dry_run=dry_run)
        for name in names:
            with noted(found.failed, f"table {name} on branch {branch}"):
                _land(context, branch, tip, name, found, dry_run=dry_run)
    return found


def _branches(context: RepoContext) -> Iterator[tuple[str, Hash]]:
    """The branches that can be read, and their commits."""
    refs = context.git.refs
    for ref in refs.every_name(HEADS):
        with suppress(LancewoodError):  # reported where commits are read
            tip = refs.read(ref)
            if tip is not None:
                yield ref.removeprefix(HEADS), tip


def _to_look_at(
    context: RepoContext, tip: Hash, trees: set[Hash], pins: set[tuple[str, Hash | None]]
) -> list[str]:
    """The tables of a commit with a state that may have to land, and that was not met before."""
    root = context.git.objects.commit(tip).tree
    if root in trees:
        return []
    trees.add(root)
    tree = context.tree(tip)
    found = {(name, tree.blob_hash(name)) for name in tree.names()} - pins
    pins |= found
    return sorted(name for name, _ in found if tree.pin(name).landing is not None)


def _finish_moves(
    context: RepoContext, branch: str, tip: Hash, found: CaughtUp, *, dry_run: bool
) -> None:
    """Have the tables follow a branch that was moved."""
    pending = pending_tables(context, branch, tip)
    if not pending:
        return
    left = () if dry_run else finish_moves(context, branch, tip)
    found.diverged += left
    gone = {each.table for each in left}
    found.landed += [TableBranch(name, branch) for name in sorted(pending - gone)]


def _land(
    context: RepoContext, branch: str, tip: Hash, name: str, found: CaughtUp, *, dry_run: bool
) -> None:
    stores = TableStores(context.storage_options, context.fsync)
    states = waiting(context.git, tip, context.root, names=[name], stores=stores)
    for each in states:
        try:
            if each.state.conflict is not None:
                raise each.state.conflict
            if not dry_run:
                land_pin(context, each.pin, name)
        except ConflictError as conflict:
            found.diverged.append(Divergence(name, conflict))
            return  # what comes after it rests on it
    if states:
        found.landed.append(TableBranch(name, branch))


def collect_garbage(
    context: RepoContext,
    retention: Retention,
    runner: Runner,
    *,
    dry_run: bool,
    tables: bool,
    now: datetime | None = None,
) -> GcReport:
    """Remove what is not needed; see the module.

    Raises NotFoundError, FormatError or UnsupportedError, before anything is removed, if commits
    cannot be read: what they need is not known then. ``fsck`` says which. What is old is decided by
    the clock of the store, if that is behind; in a dry run, which writes nothing, by ours alone.
    """
    if now is None:
        now = datetime.now(UTC)
        if not dry_run:
            now = min(now, time_by(context.store_at(TABLES_DIR), "_clock"))
    job = _Collection(context, retention, runner, dry_run, now)
    return job.run(tables=tables)


@dataclass
class _Root:
    """States in one root of a table that were not needed when they were listed."""

    table: Candidate
    branch: BranchName | None
    store: Store
    orphans: tuple[Orphan, ...]


@dataclass
class _Collection:
    """One run, and what it has found so far."""

    context: RepoContext
    retention: Retention
    runner: Runner
    dry_run: bool
    now: datetime
    needs: CommitNeeds = field(init=False)
    candidates: Candidates = field(init=False)
    stale: datetime = field(init=False)
    """The time after which whatever was written may belong to a writer at work."""
    stays: list[Stays] = field(default_factory=list)
    young: int = 0
    """Number of things that stay because they are too young."""
    bytes: int = 0

    def __post_init__(self) -> None:
        self.needs = CommitNeeds(self.context)
        self.candidates = Candidates(self.context, self.dry_run)
        self.stale = self.retention.stale(self.now)

    def run(self, *, tables: bool) -> GcReport:
        caught_up = catch_up_all(self.context, dry_run=self.dry_run)
        self.needs.look()
        found = [*self.candidates.find(self.needs)]
        unmade = [each for each in found if each.head is None and self._is_unmade(each)]
        branches = [
            (each, name)
            for each in found
            if each.head is not None
            for name in self._idle_branches(each)
        ]
        doomed = {(table.uri, branch) for table, branch in branches}
        roots = [
            root
            for each in found
            for root in self._roots(each)
            if root.branch is None or (each.uri, root.branch) not in doomed
        ]
        self.needs.look()
        gone_tables = [each.uri for each in unmade if self._remove_location(each)]
        gone_branches = [
            TableBranch(table.name, str(branch))
            for table, branch in branches
            if self._remove_branch(table, branch)
        ]
        removed = [self._remove_states(each) for each in roots if each.table.uri not in gone_tables]
        files = self.context.git.tidy(dry_run=self.dry_run)
        cleaned = [*self._cleaned(found)] if tables else []
        return GcReport(
            dry_run=self.dry_run,
            landed=tuple(caught_up.landed),
            diverged=tuple(caught_up.diverged),
            states=sum(states for states, _ in removed),
            transactions=sum(files for _, files in removed),
            branches=tuple(gone_branches),
            tables=tuple(gone_tables),
            joined=tuple(self.candidates.joined),
            files=tuple(files),
            bytes=self.bytes,
            in_flight=self.young,
            stays=(*caught_up.failed, *self.candidates.stays, *self.stays),
            cleaned=tuple(cleaned),
        )

    # Looking

    def _is_unmade(self, table: Candidate) -> bool:
        """Whether a location below the repository has only what was staged of a table."""
        path = below(self.context.root, table.uri)
        if self.needs.has(table.uri) or own_table(table.uri) is None:
            return False
        if isinstance(path, Path) and path.is_symlink():
            return False
        store = table.main.store
        written = [each.modified for directory in OWNED_DIRS for each in store.list(directory)]
        if isinstance(path, Path) and not written and next(store.list(), None) is None:
            written = [datetime.fromtimestamp(path.stat().st_mtime, UTC)]  # directories only
        if not written or not is_staged_only(store):
            return False
        if max(written) > self.stale:
            self.young += 1
            return False
        return True

    def _idle_branches(self, table: Candidate) -> list[BranchName]:
        """Branches of a table that the repository made, and neither has nor pins; and those whose
        deletion was interrupted."""
        records, found = tuple[Branch, ...](), list[BranchName]()
        with noted(self.stays, f"branches of table {table.name}"):
            there = load_refs(table.main.store).branches
            found = self._half_deleted(table, {each.name for each in there})
            records = there
        for each in records:
            if not is_ours(self.context, each) or self._why_needed(table, each.name) is not None:
                continue
            root = branch_location(table.main, each.name).store
            made = datetime.fromtimestamp(each.created_at_seconds, UTC)
            written = [made, *(file.modified for file in root.list(VERSIONS_DIR))]
            if max(written) > self.stale:
                self.young += 1
            else:
                found.append(each.name)
        return found

    def _half_deleted(self, table: Candidate, recorded: set[BranchName]) -> list[BranchName]:
        """Roots of branches whose deletion has begun: their records are gone."""
        found = []
        for root in branch_roots(table.main.store):
            name = BranchName.found(root.removeprefix(f"{TREE_DIR}/"))
            if name in recorded or self._why_needed(table, name) is not None:
                continue
            standing = load_standing(table.main.store.at(root))
            if standing is None or standing.intent.verb != "delete":
                continue
            if self.now - standing.since >= ABANDONED:
                found.append(name)
        return found

    def _why_needed(self, table: Candidate, branch: BranchName) -> str | None:
        if self.needs.needs_branch(table.uri, branch):
            return "a commit pins it"
        head = self.context.git.refs.head().branch
        if branch == head or self.context.tip(str(branch)) is not None:
            return "the repository has a branch of that name"
        return None

    def _roots(self, table: Candidate) -> Iterator[_Root]:
        """What is not needed in each root of a table."""
        if table.head is None and not self.needs.has(table.uri):
            return  # a location without a table, removed or kept as a whole
        with noted(self.stays, f"states of table {table.name}"):
            refs = load_refs(table.main.store)
            for branch in (None, *(each.name for each in refs.branches)):
                store = branch_location(table.main, branch).store
                tagged = {each.version for each in refs.tags if each.branch == branch}
                in_place = _in_place(table, store)
                found = find_orphans(
                    store, partial(self._is_needed, table, branch, tagged, in_place), self.stale
                )
                self.young += found.young
                self.stays += [Stays("a detached version", each) for each in found.unreadable]
                if found.orphans:
                    yield _Root(table, branch, store, found.orphans)

    def _is_needed(
        self,
        table: Candidate,
        branch: BranchName | None,
        tagged: set[Version],
        in_place: Callable[[Landing], bool],
        version: Version,
    ) -> bool:
        return version in tagged or self.needs.needs_state(table.uri, branch, version, in_place)

    # Removing

    def _remove_location(self, table: Candidate) -> bool:
        store = table.main.store
        if self.needs.has(table.uri) or is_table(store):
            return False
        files = [
            each
            for directory in OWNED_DIRS
            for each in store.list(directory)
            if not each.key.startswith(f"{DATA_DIR}/") or is_data_key(each.key)
        ]
        if any(each.modified > self.stale for each in files):
            return False
        self.bytes += sum(each.size for each in files)
        if not self.dry_run:
            store.delete([each.key for each in files])
            for directory in ("", *OWNED_DIRS)[::-1]:
                store.prune(directory)
        return True

    def _remove_branch(self, table: Candidate, branch: BranchName) -> bool:
        def check() -> None:
            why = self._why_needed(table, branch)
            if why is not None:
                raise InvalidInputError(why)

        try:
            assert table.head is not None
            check()
            if not self.dry_run:
                delete_branch(table.head, str(branch), check=check)
        except NotFoundError:
            return False
        except LancewoodError as error:
            self.stays.append(Stays(f"branch {branch} of table {table.name}", error.message))
            return False
        return True

    def _remove_states(self, root: _Root) -> tuple[int, int]:
        """How many manifests went, and how many transaction files."""
        uri, branch, in_place = root.table.uri, root.branch, _in_place(root.table, root.store)
        orphans = [
            each
            for each in root.orphans
            if not self.needs.needs_state(uri, branch, each.version, in_place)
        ]
        needed = self.needs.uuids(uri)
        self.bytes += sum(each.size for each in orphans)
        if self.dry_run:
            return len(orphans), len(unneeded_transactions(root.store, orphans, needed))
        return len(orphans), remove_orphans(root.store, orphans, needed)

    def _cleaned(self, found: list[Candidate]) -> Iterator[tuple[TableBranch, CleanupReport]]:
        """The tables without what only removed states named."""
        for table in found:
            if table.head is None:
                continue
            with noted(self.stays, f"files of table {table.name}"):
                branches = [each.name for each in load_refs(table.main.store).branches]
                for branch in (None, *branches):
                    head = load_snapshot(branch_location(table.main, branch))
                    done = clean_up(
                        head, self.retention, self.runner, dry_run=self.dry_run, now=self.now
                    )
                    yield TableBranch(table.name, str(branch or MAIN)), done


def _in_place(table: Candidate, store: Store) -> Callable[[Landing], bool]:
    """Says of landings in a root of the table whether their last step is where it belongs."""
    head = table.head
    return lambda landing: head is not None and is_in_place(store, landing, head.scheme)
