"""Which files differ from the commit that a change began at."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

MAIN = "main"


class UnknownBase(ValueError):
    """The commit to compare with was given, and git does not know it."""


class Changes(NamedTuple):
    """Files that were changed, added or deleted, as paths below the root of the repository."""

    base: str
    why: str
    """What the base is, in words."""
    files: tuple[str, ...]


def changes(root: Path, base: str | None = None) -> Changes:
    """What differs from ``base`` in the working tree, files that git does not track yet included.

    Without ``base`` it is the merge base of main. On main itself it is what the remote's main has;
    without a remote, only what is not committed counts, or the last commit if all is committed.
    """
    if base is not None:
        commit = _git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
        if commit is None:
            raise UnknownBase(f"git knows no commit {base!r}: give BASE= a branch, tag or commit")
        return _since(root, commit, base)
    on_main = _git(root, "symbolic-ref", "--short", "--quiet", "HEAD") == MAIN
    for name in [f"origin/{MAIN}"] if on_main else [MAIN, f"origin/{MAIN}"]:
        commit = _git(root, "merge-base", "HEAD", name)
        if commit is not None:
            return _since(root, commit, f"the merge base of {name}")
    uncommitted = _since(root, "HEAD", "the last commit")
    before = _git(root, "rev-parse", "--verify", "--quiet", "HEAD~1")
    if uncommitted.files or before is None:
        return uncommitted
    return _since(root, before, "the commit before the last")


def _since(root: Path, commit: str, why: str) -> Changes:
    short = _git(root, "rev-parse", "--short", commit) or commit
    tracked = _git(root, "diff", "--name-only", "--no-renames", "-z", commit, "--") or ""
    untracked = _git(root, "ls-files", "--others", "--exclude-standard", "-z") or ""
    return Changes(short, why, tuple(sorted({*tracked.split("\0"), *untracked.split("\0")} - {""})))


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints, or None if it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else None
