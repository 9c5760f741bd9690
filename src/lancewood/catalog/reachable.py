"""Which states of a table the commits of a repository pin: all that anybody can still go back to.

A commit counts as long as a ref, HEAD or an entry of a reflog leads to it. Commits share most of
their trees, so each tree and each pin is read once: a commit that changed no table costs reading
the commit, and nothing more. Looks at no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from lancewood.catalog.names import pin_entry, pinned_table
from lancewood.catalog.pin import Pin
from lancewood.catalog.tables import load_pin, tables_entry
from lancewood.errors import LancewoodError, NotFoundError
from lancewood.git.hashes import ZERO, Hash
from lancewood.git.names import HEAD
from lancewood.git.repository import GitRepository

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
        objects = self._git.objects
        since = self._since
        stack = [(each, 0) for each in tips(self._git, since) if each not in self._commits]
        self._commits.update(each for each, _ in stack)
        while stack:
            at, old = stack.pop()
            try:
                commit = objects.commit(at)
                old = 0 if since is None or commit.committer.seconds >= since else old + 1
                if old > _OLD_IN_A_ROW:
                    continue
                for parent in commit.parents:
                    if parent not in self._commits:
                        self._commits.add(parent)
                        stack.append((parent, old))
                for name, blob in self._new_in(commit.tree):
                    yield Pinned(load_pin(objects, name, blob), at, name)
            except LancewoodError as error:
                tables = "its tables" if self._name is None else f"table {self._name!r}"
                raise type(error)(
                    f"commit {at[:12]} of {self._git.home} cannot be read, and which versions of "
                    f"{tables} it pins is not known: {error.message}",
                    **{**error.facts, "commit": at},
                ) from error

    def _new_in(self, root: Hash) -> Iterator[tuple[str, Hash]]:
        """The pins in a tree that were not seen before, by the names of their tables."""
        inner = None
        if root not in self._trees:
            self._trees.add(root)
            inner = tables_entry(self._git.objects.tree(root))
        if inner is None or inner in self._trees:
            return
        self._trees.add(inner)
        below = self._git.objects.tree(inner)
        for entry in below if self._name is None else (pin_entry(self._name),):
            found = below.get(entry)
            if found is None or (entry, found.hash) in self._blobs:
                continue
            self._blobs.add((entry, found.hash))
            name = pinned_table(entry)
            if name is not None:
                yield name, found.hash


def tips(git: GitRepository, since: int | None = None) -> set[Hash]:
    """Every commit that a ref, HEAD or an entry of a reflog names, those of work trees too; of
    reflogs only what was written ``since``.

    What only a reflog names may have been removed by git; it is left out then.
    """
    head = git.refs.head().hash
    named = git.refs.names(_REFS)
    checked_out, seen_there = git.refs.of_work_trees()
    held = {*named.values(), *checked_out, *(() if head is None else (head,))}
    logged = seen_there | {
        each
        for name in {HEAD, *named, *git.refs.logged_names()}
        for entry in takewhile(
            lambda entry: since is None or entry.by.seconds >= since, git.refs.log(name)
        )
        for each in (entry.old, entry.new)
    }
    found = {_commit_at(git, each, must_be_there=True) for each in held}
    found |= {_commit_at(git, each, must_be_there=False) for each in logged - held - {ZERO}}
    return {each for each in found if each is not None}


def _commit_at(git: GitRepository, at: Hash, *, must_be_there: bool) -> Hash | None:
    """The commit that a hash leads to; None for one that leads to something else."""
    try:
        return git.objects.peel(at)
    except NotFoundError as error:
        if must_be_there and "hash" in error.facts:
            raise
        return None
