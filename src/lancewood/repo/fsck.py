"""Checking whether a repository is whole: refs, commits, pins, and the tables that they lead to.

Nothing is changed. What cannot be read is reported as a problem, with the way out, and the check
goes on. Of what ``git fsck`` checks, only objects that a ref or a log leads to are checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ParamSpec, TypeVar

from lancewood.catalog.files import file_blobs
from lancewood.catalog.membership import REPOSITORY_ID, repositories_of
from lancewood.catalog.names import PROTECTED, pinned_table
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import load_pin, tables_entry
from lancewood.engine.snapshot import load_snapshot
from lancewood.engine.staging import find_landing
from lancewood.engine.versions import load_refs
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.git.names import HEAD, TAGS, real_repository_root
from lancewood.git.objects import Commit
from lancewood.git.repository import open_git
from lancewood.git.values import ZERO, Hash
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName
from lancewood.repo.context import RepoContext
from lancewood.repo.decisions import MERGES, read_decisions
from lancewood.repo.gc.collecting import catch_up_all
from lancewood.repo.gc.needed import TableBranch

RESTORE = "Bring it back from a copy of the repository; git fsck says more"
P = ParamSpec("P")
T = TypeVar("T")
_REFS = "refs/"
_REMOVE = "Move it to a commit that is there, or delete it"
_DECIDE = "commit() takes the table as it stands, reset() brings back what is committed"


class FaultKind(StrEnum):
    """What a problem is about."""

    REF = "ref"
    """A ref, HEAD or a reflog that cannot be read, or leads to no commit."""
    HISTORY = "history"
    """A commit, or a tree or file of one, that cannot be read."""
    PIN = "pin"
    """A pin that cannot be understood."""
    TABLE = "table"
    """A table that is no longer there as a commit pins it."""
    DIVERGED = "diverged"
    """A table whose branch conflicts with a commit."""
    UNSETTLED = "unsettled"
    """Something that the next writer should do, and that cannot be done."""
    UNPROTECTED = "unprotected"
    """A version that a tagged or protected commit pins, and that no tag in the table keeps."""
    DECISION = "decision"
    """Decisions on the conflicts of a merge that cannot be read."""
    STRANGER = "stranger"
    """A table elsewhere that does not know that commits of this repository pin it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a repository."""

    kind: FaultKind
    where: str
    why: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}. {self.way_out}"


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What was checked, and what is wrong with it."""

    deep: bool
    refs: int
    commits: int
    pins: int
    """Distinct pins that were decoded."""
    opened: int
    """Number of pins that were opened in their tables: those of the tips, or with ``deep`` all."""
    waiting: tuple[TableBranch, ...]
    """Tables that do not hold yet what a commit pins; the next writer, or gc, lands it."""
    problems: tuple[Problem, ...]

    @property
    def is_ok(self) -> bool:
        return not self.problems


def check_repository(context: RepoContext, *, deep: bool) -> FsckReport:
    """What is wrong with a repository now; does not rely on anything kept in memory."""
    options = context.storage_options
    git = open_git(context.root, storage_options=options, fsync=context.fsync)
    try:
        here, findings = replace(context, git=git), ProblemsFound()
        return _Check(here, deep, findings, RefCheck(here, findings)).run()
    finally:
        git.close()


@dataclass
class _Check:
    """One check of a repository: from refs to commits, then to pins and tables."""

    context: RepoContext
    deep: bool
    findings: ProblemsFound
    refs: RefCheck
    pins: dict[tuple[str, Hash], tuple[Pin, Hash]] = field(default_factory=dict)
    """Every pin by table and blob, with a commit that has it."""
    trees: dict[Hash, frozenset[tuple[str, Hash]]] = field(default_factory=dict)
    """The pins of the trees of tips."""

    def run(self) -> FsckReport:
        self.refs.run()
        commits = self._check_history()
        opened = self._check_tables()
        waiting = self._check_landings()
        self._check_protection()
        self._check_decisions()
        self._check_membership()
        return FsckReport(
            deep=self.deep,
            refs=len(self.refs.tips.keys() - {HEAD}),
            commits=commits,
            pins=len(self.pins),
            opened=opened,
            waiting=tuple(waiting),
            problems=tuple(dict.fromkeys(self.findings.problems)),
        )

    def _check_history(self) -> int:
        """The number of commits that were read."""
        seen, roots = set[Hash](), set[Hash]()
        inner, files = set[Hash](), set[Hash]()
        stack = [*self.refs.tips.values()]
        if self.deep:
            stack += self.refs.logged_commits()
        tips = {*self.refs.tips.values()}
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            where, load = f"commit {at[:12]}", self.context.git.objects.commit
            commit = self.findings.attempt(FaultKind.HISTORY, where, RESTORE, load, at)
            if commit is None:
                continue
            stack += [each for each in commit.parents if each not in seen]
            if at in tips or commit.tree not in roots:
                roots.add(commit.tree)
                pins = self._check_tree(commit, inner, files)
                if at in tips:
                    self.trees[at] = pins
        return len(seen)

    def _check_tree(
        self, commit: Commit, inner: set[Hash], files: set[Hash]
    ) -> frozenset[tuple[str, Hash]]:
        """The readable pins of a commit; ``inner`` and ``files`` were read already."""
        where, root = f"commit {commit.hash[:12]}", commit.tree
        attempt, kind = self.findings.attempt, FaultKind.HISTORY
        found = attempt(kind, f"tree of {where}", RESTORE, self._pins_of, root, commit.hash, inner)
        if self.deep:
            attempt(kind, f"files of {where}", RESTORE, self._read_files, root, files)
        return found or frozenset()

    def _pins_of(self, root: Hash, commit: Hash, seen: set[Hash]) -> frozenset[tuple[str, Hash]]:
        """The pins of a tree; each is decoded when it is first met."""
        objects = self.context.git.objects
        inner = tables_entry(objects.tree(root))
        if inner is None:
            return frozenset()
        found = frozenset(
            (name, each.hash)
            for entry, each in objects.tree(inner).items()
            if (name := pinned_table(entry))
        )
        if inner not in seen:
            seen.add(inner)
            for name, blob in sorted(each for each in found if each not in self.pins):
                pin = self.findings.attempt(
                    FaultKind.PIN,
                    f"table {name} in commit {commit[:12]}",
                    "Read it with the Lancewood that wrote it, or go on from another commit",
                    self._load_pin,
                    name,
                    blob,
                )
                if pin is not None:
                    self.pins[name, blob] = pin, commit
        return frozenset(each for each in found if each in self.pins)

    def _load_pin(self, name: str, blob: Hash) -> Pin:
        """Reads the text of the pin, even if the decoded pin is cached."""
        objects = self.context.git.objects
        return load_pin(objects, name, blob, objects.blob(blob))

    def _read_files(self, root: Hash, seen: set[Hash]) -> None:
        objects = self.context.git.objects
        for path, blob in file_blobs(objects, root, seen):
            self.findings.attempt(FaultKind.HISTORY, f"file {path}", RESTORE, objects.blob, blob)

    def _at_tips(self) -> set[tuple[str, Hash]]:
        return set[tuple[str, Hash]]().union(*self.trees.values())

    def _check_tables(self) -> int:
        wanted = self.pins.keys() if self.deep else self._at_tips()
        for name, blob in sorted(wanted):
            pin, commit = self.pins[name, blob]
            self.findings.attempt(
                FaultKind.TABLE,
                f"table {name} in commit {commit[:12]}",
                "Bring its files back from a copy, or use another commit",
                self.context.open,
                pin,
            )
        return len(wanted)

    def _check_landings(self) -> list[TableBranch]:
        found = catch_up_all(self.context, dry_run=True)
        for each in found.diverged:
            self.findings.add(
                FaultKind.DIVERGED, f"table {each.table}", each.conflict.message, _DECIDE
            )
        known = {each.why for each in self.findings.problems}
        for failed in found.failed:
            if failed.why.rstrip(".") in known:
                continue
            self.findings.add(
                FaultKind.UNSETTLED, failed.what, failed.why, "Settle that first, then gc()"
            )
        return found.landed

    def _check_protection(self) -> None:
        """Check that every version pinned by a tag of the repository has a tag in its table."""
        kept: dict[str, set[tuple[BranchName | None, Version]] | None] = {}
        for ref, commit in self.refs.tips.items():
            if not ref.startswith((TAGS, PROTECTED)):
                continue
            for name, blob in sorted(self.trees.get(commit, ())):
                pin, _ = self.pins[name, blob]
                where = f"table {name}"
                if pin.uri not in kept:
                    kept[pin.uri] = self.findings.attempt(
                        FaultKind.TABLE, where, "Repair its tags", self._tags_of, pin
                    )
                tags = kept[pin.uri]
                if tags is None or self._is_kept(pin, tags):
                    continue
                self.findings.add(
                    FaultKind.UNPROTECTED,
                    where,
                    f"{ref} pins a state of its {pin.branch or 'main'} that no tag in the table "
                    "keeps from other programs' cleanups",
                    f"protect({ref!r}) makes one",
                )

    def _check_decisions(self) -> None:
        objects = self.context.git.objects
        for ref, commit in self.refs.tips.items():
            if ref.startswith(MERGES):
                way_out = f"Forget them: git update-ref -d {ref}"
                self.findings.attempt(
                    FaultKind.DECISION, ref, way_out, read_decisions, objects, commit
                )

    def _tags_of(self, pin: Pin) -> set[tuple[BranchName | None, Version]]:
        main = self.context.location(pin.on(None))
        mine = self.context.id
        return {
            (each.branch, each.version)
            for each in load_refs(main.store).tags
            if each.metadata.get(REPOSITORY_ID) == mine
        }

    def _is_kept(self, pin: Pin, tags: set[tuple[BranchName | None, Version]]) -> bool:
        """Whether the landed version of a pin has a tag; what has not landed is reported
        elsewhere."""
        if (pin.branch, pin.exact_version) in tags:
            return True
        if pin.landing is None:
            return False
        try:
            versions = find_landing(self.context.location(pin), pin.landing).versions
        except LancewoodError:
            return True
        return not versions or (pin.branch, versions[-1]) in tags

    def _check_membership(self) -> None:
        """Check that tables elsewhere know that they belong to this repository, and where it is."""
        here, seen = real_repository_root(self.context.root), set[str]()
        for name, blob in sorted(self._at_tips()):
            pin, _ = self.pins[name, blob]
            if pin.is_own or pin.uri in seen:
                continue
            seen.add(pin.uri)
            for why in self._strangeness(pin, here):
                self.findings.add(
                    FaultKind.STRANGER,
                    f"table {name}",
                    why,
                    "gc() tells it; until then its cleanup may not know what commits need",
                )

    def _strangeness(self, pin: Pin, here: str) -> Iterator[str]:
        try:
            members = repositories_of(load_snapshot(self.context.location(pin.on(None))))
        except LancewoodError as error:
            yield f"which repositories it belongs to cannot be read: {error.message}"
            return
        mine = [each for each in members if each.id == self.context.id]
        if not mine:
            yield "it does not know that it belongs to this repository"
        elif real_repository_root(mine[0].repository) != here:
            yield f"it belongs, as it says, to this repository at {mine[0].repository}"


@dataclass
class ProblemsFound:
    """The problems found so far."""

    problems: list[Problem] = field(default_factory=list)

    def add(self, kind: FaultKind, where: str, why: str, way_out: str) -> None:
        self.problems.append(Problem(kind, where, _without(why, way_out), way_out))

    def attempt(
        self,
        kind: FaultKind,
        where: str,
        way_out: str,
        act: Callable[P, T],
        *args: P.args,
        **more: P.kwargs,
    ) -> T | None:
        """The result of ``act``; None, and one more problem, if it fails."""
        try:
            return act(*args, **more)
        except (LancewoodError, OSError) as error:
            self.add(kind, where, str(error), way_out)
            return None


def _without(why: str, way_out: str) -> str:
    """What is wrong, without a last sentence or clause that the way out says as well."""
    why = why.rstrip(".")
    for mark in (". ", "; "):
        before, _, last = why.rpartition(mark)
        if before and last.lower() in way_out.lower():
            return before
    return why


@dataclass
class RefCheck:
    """Checks that refs, HEAD and their logs can be read and lead to commits."""

    context: RepoContext
    findings: ProblemsFound
    tips: dict[str, Hash] = field(default_factory=dict)
    """The commits that refs lead to, by ref."""
    _logged: set[Hash] = field(default_factory=set)

    def run(self) -> None:
        refs, attempt = self.context.git.refs, self.findings.attempt
        head = attempt(FaultKind.REF, HEAD, "switch() to a branch", refs.head)
        if head is not None and head.hash is not None:
            self._check(HEAD, head.hash)
        names = attempt(FaultKind.REF, "packed-refs", RESTORE, lambda: [*refs.every_name(_REFS)])
        for name in names or ():
            value = attempt(FaultKind.REF, name, _REMOVE, refs.read, name)
            if value is not None:
                self._check(name, value)
        for name in attempt(FaultKind.REF, "logs", RESTORE, refs.logged_names) or ():
            if names is not None and name not in names:
                self._check_lost(name)
        for name in (HEAD, *(names or ())):
            way_out = f"Remove logs/{name}: it only tells where the ref was before"
            attempt(FaultKind.REF, f"log of {name}", way_out, self._read_log, name)

    def logged_commits(self) -> list[Hash]:
        """The commits that reflogs name, without those that git removed."""
        found = []
        for each in self._logged - {ZERO}:
            where = f"object {each[:12]}"
            commit = self.findings.attempt(FaultKind.HISTORY, where, RESTORE, self._peeled, each)
            found += [] if commit is None else [commit]
        return found

    def _check(self, name: str, value: Hash) -> None:
        peel = self.context.git.objects.peel
        commit = self.findings.attempt(FaultKind.REF, name, _REMOVE, peel, value)
        if commit is not None:
            self.tips[name] = commit

    def _check_lost(self, name: str) -> None:
        """Report a ref that has a log but is gone: deleting a ref removes its log. If the log only
        has the creation, the ref may be about to be made."""
        with suppress(LancewoodError):
            moves = [*self.context.git.refs.log(name)]
            if any(each.old != ZERO for each in moves):
                why = f"it is gone, and its log says that it was at {moves[0].new}"
                way_out = f"Make it there again, or remove logs/{name}"
                self.findings.add(FaultKind.REF, name, why, way_out)

    def _read_log(self, name: str) -> None:
        for each in self.context.git.refs.log(name):
            self._logged |= {each.old, each.new}

    def _peeled(self, value: Hash) -> Hash | None:
        with suppress(NotFoundError):
            return self.context.git.objects.peel(value)
        return None
