"""Which states of tables the commits of a repository pin, and which of them have not landed yet.

A commit counts as long as a ref, HEAD or a reflog entry leads to it. Commits share most of their
trees, and each tree and pin is read once: a commit that changed no table costs one read.

The writer of a commit lands what it pins; if it is interrupted, the next writer does. So what has
not landed is near the tip: for each table, everything above the newest commit that has landed or
that pins an ordinary version. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TypeVar

from lancewood.catalog.membership import Membership
from lancewood.catalog.names import ID, SECTION, pin_entry, pinned_table
from lancewood.catalog.opening import TableStores, location_of
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import load_pin, tables_entry
from lancewood.engine.location import Location
from lancewood.engine.staging import LandingState, find_landing
from lancewood.engine.versions import newest_version
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.git.names import HEAD, RepositoryRoot
from lancewood.git.objects import Commit, Objects, TreeEntry
from lancewood.git.repository import GitRepository, open_git
from lancewood.git.values import ZERO, Hash
from lancewood.model.lines import Landing

T = TypeVar("T")

_REFS = "refs/"
_SKEW = 24 * 60 * 60
"""How many seconds clocks may differ."""
_OLD_IN_A_ROW = 32
"""How many commits in a row must look old to be believed: a clock may have been off by more."""


def open_member(
    member: Membership,
    storage_options: Mapping[str, str] | None,
    lost: Callable[[Membership, str], NotFoundError],
) -> GitRepository:
    """The repository that a table belongs to; raises what ``lost`` makes of the reason why it
    cannot be opened, or is another one by now."""
    try:
        git = open_git(member.repository, storage_options=storage_options)
        found = git.get(SECTION, ID)
    except (LancewoodError, OSError) as cause:
        raise lost(member, str(cause)) from cause
    if member.id is not None and found != member.id:
        raise lost(member, f"the one that is there now is {found or 'another one'}")
    return git


@dataclass(frozen=True, slots=True)
class Pinned:
    """One pin, and a commit that has it."""

    pin: Pin
    commit: Hash
    name: str
    """The commit's name for the table."""


def pinned(git: GitRepository, name: str) -> tuple[Pinned, ...]:
    """The distinct pins of a table in all reachable commits."""
    return PinWalk(git, name).more()


class PinWalk:
    """The pins of one table, or of all, each returned once; later calls return those that are new.

    ``since``, in seconds, leaves out commits that are older, and everything only they lead to.
    Clocks may differ by a day, and a few commits in a row may have any time. What refs lead to is
    always seen.
    """

    def __init__(
        self, git: GitRepository, name: str | None = None, *, since: int | None = None
    ) -> None:
        self._git = git
        self._name = name
        self._since = None if since is None else since - _SKEW
        self._commits: set[Hash] = set()
        self._trees: set[Hash] = set()
        self._blobs: set[tuple[str, Hash]] = set()

    def more(self) -> tuple[Pinned, ...]:
        """The pins that were not returned before.

        Raises NotFoundError, FormatError or UnsupportedError, naming the commit, if one cannot be
        read: what it needs is not known.
        """
        return tuple(self._found())

    def _found(self) -> Iterator[Pinned]:
        """Goes in waves from commits to their parents: a bucket reads each wave concurrently."""
        since, objects = self._since, self._git.objects
        wave = [(each, 0) for each in tips(self._git, since) if each not in self._commits]
        self._commits.update(each for each, _ in wave)
        while wave:
            commits = self._all_of([(at, partial(objects.commit, at)) for at, _ in wave])
            kept, parents = [], []
            for commit, (_, old) in zip(commits, wave, strict=True):
                old = 0 if since is None or commit.committer.seconds >= since else old + 1
                if old > _OLD_IN_A_ROW:
                    continue
                kept.append(commit)
                for parent in commit.parents:
                    if parent not in self._commits:
                        self._commits.add(parent)
                        parents.append((parent, old))
            yield from self._new_in(kept)
            wave = parents

    def _new_in(self, commits: Sequence[Commit]) -> Iterator[Pinned]:
        """The pins of these commits that were not seen before."""
        objects = self._git.objects
        roots = {each.tree: each.hash for each in commits if each.tree not in self._trees}
        inner = {}
        for tree, at in zip(self._unseen(roots), roots.values(), strict=True):
            found = self._told(at, partial(tables_entry, tree))
            if found is not None and found not in self._trees:
                inner[found] = at
        new = []
        for below, at in zip(self._unseen(inner), inner.values(), strict=True):
            for entry in below if self._name is None else (pin_entry(self._name),):
                pin = below.get(entry)
                name = pinned_table(entry)
                if pin is None or name is None or (entry, pin.hash) in self._blobs:
                    continue
                self._blobs.add((entry, pin.hash))
                new.append((name, pin.hash, at))
        pins = self._all_of(
            [(at, partial(load_pin, objects, name, blob)) for name, blob, at in new]
        )
        for found_pin, (name, _, at) in zip(pins, new, strict=True):
            yield Pinned(found_pin, at, name)

    def _unseen(self, trees: Mapping[Hash, Hash]) -> list[dict[str, TreeEntry]]:
        """Read trees, given with a commit that has each, and mark them as seen."""
        self._trees.update(trees)
        objects = self._git.objects
        return self._all_of([(at, partial(objects.tree, each)) for each, at in trees.items()])

    def _all_of(self, works: Sequence[tuple[Hash, Callable[[], T]]]) -> list[T]:
        """Read things on behalf of commits; errors name the commit."""
        return self._git.all_of([partial(self._told, *each) for each in works])

    def _told(self, at: Hash, work: Callable[[], T]) -> T:
        try:
            return work()
        except LancewoodError as error:
            tables = "its tables" if self._name is None else f"table {self._name!r}"
            raise type(error)(
                f"commit {at[:12]} of {self._git.root} cannot be read, and which versions of "
                f"{tables} it pins is not known: {error.message}",
                **{**error.facts, "commit": at},
            ) from error


def tips(git: GitRepository, since: int | None = None) -> set[Hash]:
    """Every commit that a ref, HEAD or a reflog entry names, in work trees too; from reflogs only
    entries ``since`` then.

    A commit that only a reflog names may have been removed by git, and is left out then.
    """
    head = git.refs.head().hash
    named = git.refs.names(_REFS)
    checked_out, seen_there = git.refs.of_work_trees()
    held = {*named.values(), *checked_out, *(() if head is None else (head,))}
    names = {HEAD, *named, *git.refs.logged_names()}
    logged = seen_there.union(*git.all_of([partial(_logged, git, each, since) for each in names]))
    seen = {**dict.fromkeys(logged - {ZERO}, False), **dict.fromkeys(held, True)}
    found = git.all_of([partial(_commit_at, git, *each) for each in seen.items()])
    return {each for each in found if each is not None}


def _logged(git: GitRepository, name: str, since: int | None) -> set[Hash]:
    entries = takewhile(
        lambda entry: since is None or entry.by.seconds >= since, git.refs.log(name)
    )
    return {each for entry in entries for each in (entry.old, entry.new)}


def _commit_at(git: GitRepository, at: Hash, must_be_there: bool) -> Hash | None:
    """The commit that a hash leads to; None if it leads to something else."""
    try:
        return git.objects.peel(at)
    except NotFoundError as error:
        if must_be_there and "hash" in error.facts:
            raise
        return None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pinned state that is not on its branch yet."""

    name: str
    pin: Pin
    location: Location
    """The root of the branch."""
    commit: Hash
    state: LandingState


def waiting(
    git: GitRepository,
    tip: Hash,
    repository: RepositoryRoot,
    *,
    names: Iterable[str] | None = None,
    stores: TableStores | None = None,
) -> list[Waiting]:
    """The tables and pins up to ``tip`` that have not landed, oldest first; of the named tables, or
    of all that ``tip`` pins.

    Follows first parents, and each table only as far as its newest pin that has landed or is of an
    ordinary version.
    """
    objects = git.objects
    wanted = None if names is None else frozenset(names)
    found: list[Waiting] = []
    open_tables: dict[str, Hash | None] | None = None
    for commit, below in _first_parents(objects, tip):
        if open_tables is None:
            here = [name for entry in below if (name := pinned_table(entry))]
            open_tables = {each: None for each in here if wanted is None or each in wanted}
        for name, seen in [*open_tables.items()]:
            entry = below.get(pin_entry(name))
            if entry is None:
                del open_tables[name]
                continue
            if entry.hash == seen:
                continue
            open_tables[name] = entry.hash
            pin = load_pin(objects, name, entry.hash)
            if pin.landing is None:
                del open_tables[name]
                continue
            location = location_of(pin, repository, stores or TableStores())
            state = _state(location, pin, pin.landing)
            if state.is_landed:
                del open_tables[name]
            else:
                found.append(Waiting(name, pin, location, commit.hash, state))
        if not open_tables:
            break
    return found[::-1]


def _state(location: Location, pin: Pin, landing: Landing) -> LandingState:
    """How far a landing is. If its base has not landed either, it waits for that."""
    try:
        return find_landing(location, landing)
    except NotFoundError:
        newest = newest_version(location.store)
        if newest is not None and newest.version >= landing.base:
            raise
        location.store.head(pin.manifest)
        return LandingState()


def _first_parents(objects: Objects, tip: Hash) -> Iterator[tuple[Commit, Mapping[str, TreeEntry]]]:
    """The commits from a tip back, with their entries in ``tables``; skips rereading equal
    trees."""
    root, inner, below = None, None, dict[str, TreeEntry]()
    at: Hash | None = tip
    while at is not None:
        commit = objects.commit(at)
        if commit.tree != root:
            root = commit.tree
            now = tables_entry(objects.tree(root))
            if now != inner:
                inner, below = now, {} if now is None else objects.tree(now)
        yield commit, below
        at = commit.parents[0] if commit.parents else None
