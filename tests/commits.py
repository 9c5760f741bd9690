"""Histories in memory: made-up commits with chosen parents and clocks, and a count of reads.

No disk and no git: hashes are made from names.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from lancewood.errors import NotFoundError
from lancewood.git.objects import Commit, Signature
from lancewood.git.values import Hash

TREE = Hash(hashlib.sha256(b"tree").hexdigest())


class MemoryCommits:
    """Commits by name. ``reads`` holds every hash that was read, in order."""

    def __init__(self) -> None:
        self._commits: dict[Hash, Commit] = {}
        self._names: dict[Hash, str] = {}
        self.reads: list[Hash] = []

    def add(self, name: str, *parents: str, seconds: int | None = None) -> Hash:
        """A commit of this name; without ``seconds`` a minute after the one before it."""
        if seconds is None:
            seconds = 1_700_000_000 + 60 * len(self._commits)
        hash = self.hash(name)
        by = Signature("Ada", "ada@example.com", seconds, 0)
        over = tuple(self.hash(each) for each in parents)
        self._commits[hash] = Commit(hash, TREE, over, by, by, name)
        self._names[hash] = name
        return hash

    def hash(self, name: str) -> Hash:
        return Hash(hashlib.sha256(name.encode()).hexdigest())

    def name(self, hash: Hash) -> str:
        return self._names[hash]

    def commit(self, hash: Hash, /) -> Commit:
        self.reads.append(hash)
        if hash not in self._commits:
            raise NotFoundError(f"commit {hash} is not there")
        return self._commits[hash]


def random_parents(chance: random.Random, count: int) -> list[tuple[int, ...]]:
    """The parents of ``count`` commits by number: lines, forks, merges, octopuses, some roots."""
    made: list[tuple[int, ...]] = []
    for number in range(count):
        near: Sequence[int] = range(max(0, number - 6), number)
        many = min(len(near), chance.choices([0, 1, 2, 3], [1, 12, 6, 1])[0])
        made.append(tuple(chance.sample(near, many)))
    return made
