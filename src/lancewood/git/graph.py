"""The drawing of ``log --graph``.

Commits are drawn in the order in which they are given; ``walk`` gives the right one. Each line of
descent has a column two characters wide, and moves by at most one column per row. Lines meet on the
left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest

from lancewood.git.objects import Commit
from lancewood.git.values import Hash


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
