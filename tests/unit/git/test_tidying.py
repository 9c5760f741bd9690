"""What dead processes left is found without being touched, and every ref by name, read or not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash, Signature
from lancewood.store import lockfile
from lancewood.store.lockfile import is_dead

ADA = Signature("Ada", "ada@example.org", 1_800_000_000, 0)


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    return GitRepository.init(tmp_path / "repo", fsync=False)


def dead(path: Path) -> Path:
    path.write_bytes(f"{os.getpid()} 1 {lockfile._namespace()} here\n".encode())
    return path


def test_a_dry_run_tells_what_would_go(git: GitRepository) -> None:
    lock = dead(git.path / "HEAD.lock")
    assert git.tidy(dry_run=True) == [str(lock)]
    assert lock.exists()
    assert git.tidy() == [str(lock)]
    assert not lock.exists()
    assert git.tidy(dry_run=True) == []


def test_a_lock_is_dead_only_if_that_is_proven(tmp_path: Path) -> None:
    assert is_dead(str(dead(tmp_path / "a.lock")))
    (tmp_path / "b.lock").write_bytes(lockfile.identity(os.getpid()))
    assert not is_dead(str(tmp_path / "b.lock"))
    (tmp_path / "c.lock").write_bytes(b"")
    assert not is_dead(str(tmp_path / "c.lock"))
    assert not is_dead(str(tmp_path / "none.lock"))
    os.utime(tmp_path / "c.lock", (0, 0))
    assert is_dead(str(tmp_path / "c.lock"), unowned_after=60)


def test_every_ref_is_named_also_one_that_cannot_be_read(git: GitRepository) -> None:
    at = git.objects.put_commit(git.objects.put_tree({}), (), ADA, "first")
    git.refs.move("refs/heads/main", None, at, why="x", by=ADA)
    (git.path / "refs/heads/odd").write_text("?")
    (git.path / "packed-refs").write_text(f"{Hash(at)} refs/tags/packed\n")
    assert git.refs.every_name() == ["refs/heads/main", "refs/heads/odd", "refs/tags/packed"]
    assert git.refs.every_name("refs/tags/") == ["refs/tags/packed"]
