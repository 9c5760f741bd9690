"""Commits in order: walking, common ancestors, who descends from whom, and the graph of a log.

Knows parents and the committer's clock, and reads commits one by one through ``commit(hash)``.
Knows nothing of refs, trees or disks. A clock that runs ahead or behind makes the work longer,
but no answer of ``merge_base`` or ``is_ancestor`` wrong; what it may do to ``walk`` is said there.

A graph draws commits in the order in which they are given; ``walk`` gives the right one. Each line
of descent has a column two characters wide, and moves by at most one column per row. Lines meet on
the left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice, zip_longest
from typing import Protocol

from lancewood.errors import InvalidInputError
from lancewood.git.objects import Commit
from lancewood.git.values import Hash

LOOKAHEAD = 1024


class Commits(Protocol):
    """Where commits are read: ``Objects``, or a dict in a test."""

    def commit(self, hash: Hash, /) -> Commit: ...


def walk(
    objects: Commits,
    tips: Iterable[Hash],
    *,
    limit: int | None = None,
    skip: int = 0,
    first_parent: bool = False,
) -> Iterator[Commit]:
    """What the tips reach, each commit once, newest first, no parent before its child.

    The order is that of ``git log --date-order``. Only what the order needs is read: on a straight
    line ``limit`` commits, beside merges as far as their lines meet again, but at most
    ``LOOKAHEAD`` commits beyond the one that is due. So a parent can come before its child only if
    the child's clock ran behind and more than ``LOOKAHEAD`` commits hide it. With
    ``first_parent`` a commit has no other parents, for the order either.
    """
    if limit is not None and limit < 0:
        raise InvalidInputError(f"limit {limit} is below 0: leave it out to get all commits")
    if skip < 0:
        raise InvalidInputError(f"skip {skip} is below 0: it counts commits to leave out")
    return islice(
        _in_order(objects, dict.fromkeys(tips), 1 if first_parent else None),
        skip,
        None if limit is None else skip + limit,
    )


def reachable(objects: Commits, tips: Iterable[Hash]) -> Iterator[Commit]:
    """What the tips reach, each commit once, in no promised order: the cheapest way to see all."""
    seen = set(tips)
    stack = list(seen)
    while stack:
        commit = objects.commit(stack.pop())
        for parent in commit.parents:
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
        yield commit


def merge_base(objects: Commits, a: Hash, b: Hash) -> Hash | None:
    """The newest of ``merge_bases``: what ``git merge-base`` prints. None: nothing in common."""
    return next(iter(merge_bases(objects, a, b)), None)


def merge_bases(objects: Commits, a: Hash, b: Hash) -> list[Hash]:
    """The common ancestors of two commits that no other common ancestor descends from.

    Newest first. Two near tips are settled near them: the history below is not read.
    """
    if a == b:
        return [objects.commit(a).hash]
    paint = _Paint(objects, a, b)
    paint.run()
    found = paint.common()
    if len(found) > 1:
        found = [
            each
            for each in found
            if not any(
                is_ancestor(objects, each.hash, other.hash) for other in found if other is not each
            )
        ]
    return [each.hash for each in sorted(found, key=_age)]


def is_ancestor(objects: Commits, old: Hash, new: Hash) -> bool:
    """Whether ``new`` descends from ``old``. A commit is its own ancestor, as for git."""
    if old == new:
        return objects.commit(old).hash == new
    return _Paint(objects, old, new).run(until=old)


def _age(commit: Commit) -> tuple[int, Hash]:
    return -commit.committer.seconds, commit.hash


_LEFT, _RIGHT, _BELOW = 1, 2, 4
_BOTH = _LEFT | _RIGHT


class _Paint:
    """Colours flow from two commits to their ancestors, newest first.

    Where both colours meet is a common ancestor, and all under it is *below*. The work ends when
    only commits that are below wait: whatever lies deeper is older than a common ancestor by
    descent, whatever the clocks say. A commit may be called common that later proves to be below.
    """

    def __init__(self, objects: Commits, left: Hash, right: Hash) -> None:
        self._read = objects.commit
        self._colours: dict[Hash, int] = {}
        self._queue: list[tuple[int, Hash]] = []
        self._waiting: dict[Hash, Commit] = {}
        self._open = 0
        self._met: list[Commit] = []
        self._add(left, _LEFT)
        self._add(right, _RIGHT)

    def run(self, until: Hash | None = None) -> bool:
        """Paint to the end, or until both colours are on ``until``; whether they are."""
        colours, queue = self._colours, self._queue
        while self._open:
            if until is not None and colours[until] & _BOTH == _BOTH:
                return True
            commit = self._waiting.pop(heappop(queue)[1])
            colour = colours[commit.hash]
            if not colour & _BELOW:
                self._open -= 1
                if colour == _BOTH:
                    self._met.append(commit)
                    colour |= _BELOW
            for parent in commit.parents:
                self._add(parent, colour)
        return until is not None and colours[until] & _BOTH == _BOTH

    def common(self) -> list[Commit]:
        return [each for each in self._met if not self._colours[each.hash] & _BELOW]

    def _add(self, hash: Hash, colour: int) -> None:
        old = self._colours.get(hash, 0)
        new = old | colour
        if new == old:
            return
        self._colours[hash] = new
        if hash in self._waiting:
            if new & _BELOW and not old & _BELOW:
                self._open -= 1
            return
        commit = self._read(hash)
        self._waiting[hash] = commit
        heappush(self._queue, (-commit.committer.seconds, hash))
        if not new & _BELOW:
            self._open += 1


def _in_order(objects: Commits, tips: Iterable[Hash], parents: int | None) -> Iterator[Commit]:
    """The walk, with as much of ``_Order`` as there is to order: none on a straight line."""
    read = objects.commit
    order = _Order(objects, parents)
    for tip in tips:
        order.add(tip)
    seen = order.seen
    while True:
        lone = order.lone()
        while lone is not None:
            yield lone
            onward = lone.parents[:parents]
            if len(onward) == 1 and onward[0] not in seen:
                seen.add(onward[0])
                lone = read(onward[0])
            else:
                lone = None
                for parent in onward:
                    order.add(parent)
        commit = order.next()
        if commit is None:
            return
        yield commit


class _Order:
    """Commits that were found and not yet given out, and which of them is due.

    *Shut* commits are read, their parents not looked at; of *open* ones the parents are known too.
    What was never seen hides behind shut ones. The newest commit without a waiting child is due
    when no shut one can hide a child of it.
    """

    def __init__(self, objects: Commits, parents: int | None) -> None:
        self.seen: set[Hash] = set()
        self._read = objects.commit
        self._parents = parents
        self._waiting: dict[Hash, Commit] = {}
        self._children: dict[Hash, int] = {}
        self._ready: list[tuple[int, int, Commit]] = []
        self._shut: list[tuple[int, int, Commit]] = []
        self._count = 0
        self._open = 0
        self._ends: set[Hash] = set()

    def add(self, hash: Hash) -> None:
        """A commit that no waiting commit is known to be a child of."""
        if hash not in self.seen:
            self._find(hash)
            self._put(self._ready, hash)

    def lone(self) -> Commit | None:
        """Take out the only commit that waits, if there is just one, unopened."""
        if self._open or len(self._shut) != 1:
            return None
        commit = self._shut.pop()[2]
        self._ready.clear()
        self._children.clear()
        self._waiting.clear()
        return commit

    def next(self) -> Commit | None:
        """Take out the commit that is due."""
        while self._ready:
            commit = self._ready[0][2]
            if self._children.get(commit.hash) != 0:
                heappop(self._ready)
            elif self._is_due(commit):
                heappop(self._ready)
                self._give(commit)
                return commit
            else:
                self._look_at_parents(heappop(self._shut)[2])
        return None

    def _is_due(self, commit: Commit) -> bool:
        if not self._shut:
            return True
        newest = self._shut[0][2]
        if len(self._shut) == 1 and not self._ends:
            # Nothing open ends before the one shut commit, so that is an ancestor of all of them.
            return newest is not commit
        return self._open >= LOOKAHEAD and newest.committer.seconds < commit.committer.seconds

    def _look_at_parents(self, commit: Commit) -> None:
        self._open += 1
        ends = True
        for parent in dict.fromkeys(commit.parents[: self._parents]):
            if parent not in self.seen:
                self._find(parent)
            if parent in self._waiting:
                self._children[parent] += 1
                ends = False
        if ends:
            self._ends.add(commit.hash)

    def _give(self, commit: Commit) -> None:
        del self._waiting[commit.hash], self._children[commit.hash]
        self._open -= 1
        self._ends.discard(commit.hash)
        for parent in dict.fromkeys(commit.parents[: self._parents]):
            if parent in self._waiting:
                self._children[parent] -= 1
                if not self._children[parent]:
                    self._put(self._ready, parent)

    def _find(self, hash: Hash) -> None:
        self._waiting[hash] = self._read(hash)
        self.seen.add(hash)
        self._children[hash] = 0
        self._put(self._shut, hash)

    def _put(self, heap: list[tuple[int, int, Commit]], hash: Hash) -> None:
        commit = self._waiting[hash]
        self._count += 1
        heappush(heap, (-commit.committer.seconds, self._count, commit))


def graph_lines(
    commits: Iterable[Commit], text: Callable[[Commit], str], *, first_parent: bool = False
) -> Iterator[str]:
    """The graph of commits: for each a row with ``*`` and the first line of its text, and the rows
    to its parents.

    Further lines of the text stand beside those rows. ``first_parent`` is as in the walk.
    """
    columns: list[Hash] = []
    ended = False
    for commit in commits:
        parents = list(dict.fromkeys(commit.parents[: 1 if first_parent else None]))
        if ended and commit.hash not in columns:
            # Else the last commit of one history would look like a child of the next history.
            yield ("| " * len(columns)).rstrip()
        rows = _rows(columns, commit.hash, parents)
        ended = not parents and len(rows) == 1
        beside = text(commit).split("\n")
        rows.extend("| " * len(columns) for _ in beside[len(rows) :])
        width = max(len(row) + 1 for row in rows) // 2 * 2
        for row, words in zip_longest(rows, beside, fillvalue=""):
            yield f"{row.rstrip():{width}}{words}".rstrip()


def _rows(columns: list[Hash], commit: Hash, parents: list[Hash]) -> list[str]:
    """The rows of one commit; updates ``columns``, the commits that the columns wait for."""
    if commit not in columns:
        columns.append(commit)
    at = columns.index(commit)
    rows = [_bars(len(columns), 2 * at, "*")]
    if not parents:
        del columns[at]
        if at < len(columns):
            rows.append("| " * at + " " + "/ " * (len(columns) - at))
        return rows
    columns[at] = parents[0]
    fresh = []
    for parent in parents[1:]:
        if parent in columns:
            rows.extend(_edge(len(columns), at, columns.index(parent)))
        else:
            fresh.append(parent)
    for parent in reversed(fresh):
        rows.append("| " * at + "|" + "\\ " * (len(columns) - at))
        columns.insert(at + 1, parent)
    rows.extend(_joined(columns, parents[0]))
    return rows


def _joined(columns: list[Hash], parent: Hash) -> Iterator[str]:
    """If two columns wait for the same parent, the right one crosses over to the left one."""
    left = columns.index(parent)
    if parent in columns[left + 1 :]:
        right = columns.index(parent, left + 1)
        yield ("| " * right)[:-1] + "/ " * (len(columns) - right)
        del columns[right]
        yield from _edge(len(columns), right - 1, left)


def _edge(count: int, start: int, end: int) -> Iterator[str]:
    """A line from one column to another, across those in between."""
    if end < start:
        for column in range(start, end, -1):
            yield _bars(count, 2 * column - 1, "/")
    else:
        for column in range(start, end):
            yield _bars(count, 2 * column + 1, "\\")


def _bars(count: int, column: int, mark: str) -> str:
    row = "| " * count
    return row[:column] + mark + row[column + 1 :]
