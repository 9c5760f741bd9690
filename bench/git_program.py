"""git called as a program, as a script would do it: one process for each object and each ref.

Knows the commands and their environment, not what is measured.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

GIT = shutil.which("git")
"""None where there is no git; whoever measures then leaves it out."""


class GitProgram:
    """A bare repository in SHA-256 format; ``sync`` as for ours: everything, or nothing."""

    def __init__(self, path: Path, *, sync: bool = False) -> None:
        self._path = path
        self._options = ("-c", f"core.fsync={'all' if sync else 'none'}")
        self._entries: dict[str, str] = {}
        self._tip = ""

    @classmethod
    def init(cls, path: Path, pins: Mapping[str, bytes], *, sync: bool) -> GitProgram:
        """A new one, whose first commit holds these texts in ``tables``."""
        made = cls(path, sync=sync)
        path.mkdir(parents=True)
        made.run("init", "--quiet", "--bare", "--object-format=sha256", "--initial-branch=main")
        made.run("config", "core.logAllRefUpdates", "always")
        for name, text in pins.items():
            made._entries[name] = made.run("hash-object", "-w", "--stdin", told=text)
        made._commit("first")
        return made

    def run(self, *arguments: str, told: bytes = b"") -> str:
        """What a command prints; raises CalledProcessError."""
        done = subprocess.run(
            [GIT or "git", *self._options, *arguments],
            cwd=self._path,
            input=told,
            capture_output=True,
            check=True,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._path),
                "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_AUTHOR_NAME": "bench",
                "GIT_AUTHOR_EMAIL": "bench@example.org",
                "GIT_COMMITTER_NAME": "bench",
                "GIT_COMMITTER_EMAIL": "bench@example.org",
            },
        )
        return done.stdout.decode().strip()

    def commit(self, name: str, text: bytes) -> None:
        """A commit that changes one text: five processes."""
        self._entries[name] = self.run("hash-object", "-w", "--stdin", told=text)
        self._commit("one table moved")

    def count(self) -> int:
        """How many commits main has, once git has found everything in order."""
        self.run("fsck", "--strict", "--no-progress")
        return int(self.run("rev-list", "--count", "main"))

    def _commit(self, message: str) -> None:
        lines = [f"100644 blob {each}\t{name}\n" for name, each in self._entries.items()]
        below = self.run("mktree", told="".join(lines).encode())
        root = self.run("mktree", told=f"040000 tree {below}\ttables\n".encode())
        parent = ("-p", self._tip) if self._tip else ()
        commit = self.run("commit-tree", root, *parent, "-m", message)
        self.run("update-ref", "-m", "commit", "refs/heads/main", commit, self._tip or "0" * 64)
        self._tip = commit
