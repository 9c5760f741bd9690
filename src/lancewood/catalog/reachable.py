"""Which states of a table the commits of a repository pin: all that anybody can still go back to.

A commit counts as long as a ref, HEAD or an entry of a reflog leads to it. Commits share most of
their trees, so each tree and each pin is read once: a commit that changed no table costs reading
the commit, and nothing more. Looks at no table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TypeVar

from lancewood.catalog.names import pin_entry, pinned_table
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import load_pin, tables_entry
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.git.hashes import ZERO, Hash
from lancewood.git.names import HEAD
from lancewood.git.objects import Commit, Entry
from lancewood.git.repository import GitRepository

T = TypeVar("T")

_REFS = "refs/"
_SKEW = 24 * 60 * 60
"""So many seconds may clocks differ."""
_OLD_IN_A_ROW = 32
"""So many commits have to look old, one before the other, until that is believed: a clock may have
been wrong by more than that."""


@dataclass(frozen=True, slots=True)
class Pinned:
    """One pin, and a commit that has it."""

    pin: Pin
    commit: Hash
    name: str
    """What the commit calls the table."""


def pinned(git: GitRepository, name: str) -> tuple[Pinned, ...]:
    """The distinct pins of a table in all commits that can be reached."""
    return PinWalk(git, name).more()


class PinWalk:
    """The pins of one table, or of all, each given once; asked again, those that came into being
    since.

    ``since``, in seconds, leaves out commits that were made before, and what only those lead to:
    for who looks for pins that cannot be older. Clocks may differ by a day, and a few commits in a
    row may bear any time: what refs lead to is always seen.
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
        """The pins that were not given before.

        Raises NotFoundError, FormatError or UnsupportedError, naming the commit, for what cannot
        be read: what it needs is not known then.
        """
        return tuple(self._found())

    def _found(self) -> Iterator[Pinned]:
        """In waves, from commits to their parents: in a bucket each wave is read at once."""
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
        """The pins of commits that were not seen before."""
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

    def _unseen(self, trees: Mapping[Hash, Hash]) -> list[dict[str, Entry]]:
        """Some trees, each with a commit that has it; they count as seen from now on."""
        self._trees.update(trees)
        objects = self._git.objects
        return self._all_of([(at, partial(objects.tree, each)) for each, at in trees.items()])

    def _all_of(self, works: Sequence[tuple[Hash, Callable[[], T]]]) -> list[T]:
        """What is read for commits; errors name the commit."""
        return self._git.all_of([partial(self._told, *each) for each in works])

    def _told(self, at: Hash, work: Callable[[], T]) -> T:
        try:
            return work()
        except LancewoodError as error:
            tables = "its tables" if self._name is None else f"table {self._name!r}"
            raise type(error)(
                f"commit {at[:12]} of {self._git.home} cannot be read, and which versions of "
                f"{tables} it pins is not known: {error.message}",
                **{**error.facts, "commit": at},
            ) from error


def tips(git: GitRepository, since: int | None = None) -> set[Hash]:
    """Every commit that a ref, HEAD or an entry of a reflog names, those of work trees too; of
    reflogs only what was written ``since``.

    What only a reflog names may have been removed by git; it is left out then.
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
    """The commit that a hash leads to; None for one that leads to something else."""
    try:
        return git.objects.peel(at)
    except NotFoundError as error:
        if must_be_there and "hash" in error.facts:
            raise
        return None
