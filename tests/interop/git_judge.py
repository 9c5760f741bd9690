"""Stock git, called as a program, to say what it thinks of a repository."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from lancewood.git.objects import FILE, TREE, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash, Signature

ADA = Signature("Ada Lovelace", "ada@example.org", int(time.time()), 90)
"""Of today: git drops what a log says of long ago."""

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Git",
    "GIT_AUTHOR_EMAIL": "git@example.org",
    "GIT_COMMITTER_NAME": "Git",
    "GIT_COMMITTER_EMAIL": "git@example.org",
}


def git(path: Path, *words: str, given: str = "") -> str:
    """What git says; a warning is a failure too."""
    done = subprocess.run(
        ["git", "-C", str(path), *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, **_ENVIRONMENT},
        check=False,
    )
    assert done.returncode == 0, f"git {' '.join(words)}: {done.stderr}"
    said = [each for each in done.stderr.splitlines() if not each.startswith(("notice:", "hint:"))]
    assert not said, f"git {' '.join(words)}: {done.stderr}"
    return done.stdout.strip()


def check(path: Path) -> None:
    """git finds nothing to complain about: objects, refs, logs."""
    git(path, "fsck", "--strict", "--no-progress", "--no-dangling")
    git(path, "for-each-ref")
    git(path, "reflog", "show", "--all")


def commit(
    repository: GitRepository,
    text: str,
    *,
    branch: str = "main",
    parents: tuple[Hash, ...] | None = None,
) -> Hash:
    """One commit on a branch with one file in a directory."""
    objects, name = repository.objects, f"refs/heads/{branch}"
    tip = repository.refs.read(name)
    blob = objects.put_blob(f"{text}\n".encode())
    inner = objects.put_tree({"photos.json": TreeEntry(FILE, blob)})
    tree = objects.put_tree({"tables": TreeEntry(TREE, inner)})
    over = parents if parents is not None else (tip,) if tip else ()
    new = objects.put_commit(tree, over, ADA, text)
    assert repository.refs.move(name, tip, new, why=f"commit: {text}", by=ADA)
    return new
