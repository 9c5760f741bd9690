"""Looking whether a repository is whole: refs, commits, pins, and the tables that they lead to.

Reads, and changes nothing. Whatever cannot be read is told, and the rest is looked at all the same.
What git itself can tell of its objects (``git fsck``) is told only as far as somebody leads there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from lancewood.catalog.files import file_blobs
from lancewood.catalog.membership import repositories_of
from lancewood.catalog.names import pinned_table
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import load_pin, tables_entry
from lancewood.catalog.tag_names import REPOSITORY_ID
from lancewood.engine.base_homes import real_path
from lancewood.engine.landing import find_landing
from lancewood.engine.refs import load_refs
from lancewood.engine.snapshot import load_snapshot
from lancewood.errors import LancewoodError
from lancewood.git.hashes import ZERO, Hash
from lancewood.git.repository import GitRepository
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName
from lancewood.repo.catching_up import catch_up
from lancewood.repo.gc_report import Spot
from lancewood.repo.grounds import Grounds
from lancewood.repo.names import HEAD, PROTECTED, TAGS
from lancewood.repo.problems import FsckReport, Kind, Problem

T = TypeVar("T")
_REFS = "refs/"
_RESTORE = "Bring it back from a copy of the repository; git fsck says more"
_REMOVE_REF = "Move it to a commit that is there, or delete it"
_DECIDE = "commit() takes the table as it stands, reset() brings back what is committed"


def check_repository(grounds: Grounds, *, deep: bool) -> FsckReport:
    """What is wrong with a repository, as it is on the disk."""
    git = GitRepository.open(grounds.path, fsync=grounds.fsync)
    try:
        return _Check(replace(grounds, git=git), deep).run()
    finally:
        git.close()


@dataclass
class _Check:
    grounds: Grounds
    deep: bool
    problems: list[Problem] = field(default_factory=list)
    tips: dict[str, Hash] = field(default_factory=dict)
    """The commits that refs lead to, by the names of those."""
    logged: set[Hash] = field(default_factory=set)
    """Commits that only logs of moves name."""
    pins: dict[tuple[str, Hash], tuple[Pin, Hash]] = field(default_factory=dict)
    """Every pin by table and blob, with a commit that has it."""
    trees: dict[Hash, frozenset[tuple[str, Hash]]] = field(default_factory=dict)
    """The pins of the trees of tips."""

    def run(self) -> FsckReport:
        self._check_refs()
        commits = self._check_history()
        opened = self._check_tables()
        waiting = self._check_landings()
        self._check_protection()
        self._check_membership()
        return FsckReport(
            deep=self.deep,
            refs=len(self.tips.keys() - {HEAD}),
            commits=commits,
            pins=len(self.pins),
            opened=opened,
            waiting=tuple(waiting),
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def _tell(self, kind: Kind, where: str, why: str, way_out: str) -> None:
        self.problems.append(Problem(kind, where, why.rstrip("."), way_out))

    def _try(self, kind: Kind, where: str, way_out: str, act: Callable[[], T]) -> T | None:
        """What it gives; None, and a problem more, where it cannot be had."""
        try:
            return act()
        except (LancewoodError, OSError) as error:
            self._tell(kind, where, str(error), way_out)
            return None

    # Refs

    def _check_refs(self) -> None:
        refs = self.grounds.git.refs
        head = self._try(Kind.REF, HEAD, "switch() to a branch", refs.head)
        if head is not None and head.hash is not None:
            self._check_ref(HEAD, head.hash)
        names = self._try(Kind.REF, "packed-refs", _RESTORE, lambda: [*refs.every_name(_REFS)])
        for name in names or ():
            value = self._try(Kind.REF, name, _REMOVE_REF, partial(refs.read, name))
            if value is not None:
                self._check_ref(name, value)
        for name in (HEAD, *(names or ())):
            way_out = f"Remove logs/{name}: it only tells where the ref was before"
            self._try(Kind.REF, f"log of {name}", way_out, partial(self._read_log, name))

    def _check_ref(self, name: str, value: Hash) -> None:
        commit = self._try(
            Kind.REF, name, _REMOVE_REF, partial(self.grounds.git.objects.peel, value)
        )
        if commit is not None:
            self.tips[name] = commit

    def _read_log(self, name: str) -> None:
        for each in self.grounds.git.refs.log(name):
            self.logged |= {each.old, each.new}

    # Commits

    def _check_history(self) -> int:
        """How many commits were read."""
        seen, roots, inner = set[Hash](), set[Hash](), set[Hash]()
        files: set[Hash] = set()
        stack = [*self.tips.values()]
        if self.deep:
            objects = self.grounds.git.objects
            known = self.logged - {ZERO}
            stack += [each for each in known if each in objects]  # git removes old ones
        tips = {*self.tips.values()}
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            where = f"commit {at[:12]}"
            commit = self._try(
                Kind.HISTORY, where, _RESTORE, partial(self.grounds.git.objects.commit, at)
            )
            if commit is None:
                continue
            stack += [each for each in commit.parents if each not in seen]
            if at in tips or commit.tree not in roots:
                roots.add(commit.tree)
                found = self._try(
                    Kind.HISTORY,
                    f"tree of {where}",
                    _RESTORE,
                    partial(self._pins_of, commit.tree, at, inner),
                )
                if at in tips:
                    self.trees[at] = found or frozenset()
                if self.deep:
                    self._try(
                        Kind.HISTORY,
                        f"files of {where}",
                        _RESTORE,
                        partial(self._read_files, commit.tree, files),
                    )
        return len(seen)

    def _pins_of(self, root: Hash, commit: Hash, seen: set[Hash]) -> frozenset[tuple[str, Hash]]:
        """The pins of a tree; each is decoded when it is met for the first time."""
        objects = self.grounds.git.objects
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
                pin = self._try(
                    Kind.PIN,
                    f"table {name} in commit {commit[:12]}",
                    "Read it with the Lancewood that wrote it, or go on from another commit",
                    partial(self._load_pin, name, blob),
                )
                if pin is not None:
                    self.pins[name, blob] = pin, commit
        return frozenset(each for each in found if each in self.pins)

    def _load_pin(self, name: str, blob: Hash) -> Pin:
        """A pin whose text is there: one that was read before may be known without it."""
        objects = self.grounds.git.objects
        return load_pin(objects, name, blob, objects.blob(blob))

    def _read_files(self, root: Hash, seen: set[Hash]) -> None:
        objects = self.grounds.git.objects
        for path, blob in file_blobs(objects, root, seen):
            self._try(Kind.HISTORY, f"file {path}", _RESTORE, partial(objects.blob, blob))

    # Tables

    def _at_tips(self) -> set[tuple[str, Hash]]:
        return set[tuple[str, Hash]]().union(*self.trees.values())

    def _check_tables(self) -> int:
        wanted = self.pins.keys() if self.deep else self._at_tips()
        for name, blob in sorted(wanted):
            pin, commit = self.pins[name, blob]
            self._try(
                Kind.TABLE,
                f"table {name} in commit {commit[:12]}",
                "Bring its files back from a copy, or go on from a commit that reads",
                partial(self.grounds.open, pin),
            )
        return len(wanted)

    def _check_landings(self) -> list[Spot]:
        found = catch_up(self.grounds, dry_run=True)
        for each in found.diverged:
            self._tell(Kind.DIVERGED, f"table {each.table}", each.conflict.message, _DECIDE)
        told = {each.why for each in self.problems}
        for failed in found.failed:
            if failed.why.rstrip(".") in told:
                continue
            self._tell(Kind.UNSETTLED, failed.what, failed.why, "Settle that first, then gc()")
        return found.landed

    def _check_protection(self) -> None:
        """Every version that a tag of the repository pins has a tag of its own."""
        kept: dict[str, set[tuple[BranchName | None, Version]] | None] = {}
        for ref, commit in self.tips.items():
            if not ref.startswith((TAGS, PROTECTED)):
                continue
            for name, blob in sorted(self.trees.get(commit, ())):
                pin, _ = self.pins[name, blob]
                where = f"table {name}"
                if pin.uri not in kept:
                    kept[pin.uri] = self._try(
                        Kind.TABLE, where, "Repair its tags", partial(self._tags_of, pin)
                    )
                tags = kept[pin.uri]
                if tags is None or self._is_kept(pin, tags):
                    continue
                self._tell(
                    Kind.UNPROTECTED,
                    where,
                    f"{ref} pins a state of its {pin.branch or 'main'} that no tag in the table "
                    "keeps from other programs' cleanups",
                    f"protect({ref!r}) makes one",
                )

    def _tags_of(self, pin: Pin) -> set[tuple[BranchName | None, Version]]:
        main = self.grounds.place(pin.on(None))
        mine = self.grounds.id
        return {
            (each.branch, each.version)
            for each in load_refs(main.store).tags
            if each.metadata.get(REPOSITORY_ID) == mine
        }

    def _is_kept(self, pin: Pin, tags: set[tuple[BranchName | None, Version]]) -> bool:
        """Whether a tag is on the version that a pin became; what has none is told elsewhere."""
        landing = pin.landing
        if landing is None:
            return (pin.branch, pin.version) in tags
        if (pin.branch, landing.exact_version(len(landing.steps) - 1)) in tags:
            return True
        try:
            versions = find_landing(self.grounds.place(pin), landing).versions
        except LancewoodError:
            return True
        return not versions or (pin.branch, versions[-1]) in tags

    def _check_membership(self) -> None:
        """Tables elsewhere say that this repository's commits pin them, and where it is."""
        here, seen = real_path(os.fspath(self.grounds.path)), set[str]()
        for name, blob in sorted(self._at_tips()):
            pin, _ = self.pins[name, blob]
            if pin.is_at_home or pin.uri in seen:
                continue
            seen.add(pin.uri)
            for why in self._strangeness(pin, here):
                self._tell(
                    Kind.STRANGER,
                    f"table {name}",
                    why,
                    "gc() tells it; until then its cleanup may not know what commits need",
                )

    def _strangeness(self, pin: Pin, here: str) -> Iterator[str]:
        try:
            members = repositories_of(load_snapshot(self.grounds.place(pin.on(None))))
        except LancewoodError as error:
            yield f"which repositories it belongs to cannot be read: {error.message}"
            return
        mine = [each for each in members if each.id == self.grounds.id]
        if not mine:
            yield "it does not know that it belongs to this repository"
        elif real_path(os.fspath(mine[0].repository)) != here:
            yield f"it belongs, as it says, to this repository at {mine[0].repository}"
