"""git repositories that are written in process: one with texts, one with a long line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import lancewood as lw
from lancewood.git.objects import FILE, TREE, Signature, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash

_MAIN = "refs/heads/main"
_FIRST_SECOND = 1_700_000_000


class OurGit:
    """Texts in the tree ``tables`` of a git repository, one changed in each commit."""

    def __init__(self, git: GitRepository) -> None:
        self._git = git
        self._entries: dict[str, TreeEntry] = {}
        self._tip: Hash | None = None
        self._by = Signature.now("bench", "bench@example.org")

    @classmethod
    def init(cls, path: Path, pins: Mapping[str, bytes], *, sync: bool) -> OurGit:
        """A new one, whose first commit holds these texts."""
        made = cls(GitRepository.init(path, fsync=sync))
        made._commit(pins, "first")
        return made

    def commit(self, name: str, text: bytes) -> None:
        """A commit that changes one text."""
        self._commit({name: text}, "one table moved")

    def _commit(self, texts: Mapping[str, bytes], message: str) -> None:
        objects = self._git.objects
        for name, text in texts.items():
            self._entries[name] = TreeEntry(FILE, objects.put_blob(text))
        below = objects.put_tree(self._entries)
        root = objects.put_tree({"tables": TreeEntry(TREE, below)})
        parents = [] if self._tip is None else [self._tip]
        commit = objects.put_commit(root, parents, self._by, message)
        if not self._git.refs.move(_MAIN, self._tip, commit, why="commit", by=self._by):
            raise RuntimeError("somebody else moved main")
        self._tip = commit


def make_history(path: Path, commits: int) -> None:
    """A repository without tables, whose main is a line of so many commits."""
    lw.Repository.init(path, fsync=False)
    git = GitRepository.open(path, fsync=False)
    tree = git.objects.put_tree({})
    tip: Hash | None = None
    for number in range(commits):
        by = Signature("bench", "bench@example.org", _FIRST_SECOND + number, 60)
        parents = [] if tip is None else [tip]
        tip = git.objects.put_commit(tree, parents, by, f"commit {number}: ten rows more\n")
    if not git.refs.move(_MAIN, None, tip, why="made", by=by):
        raise RuntimeError(f"{path} has a main already")
