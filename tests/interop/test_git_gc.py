"""git repacks, prunes and packs refs while we have the repository open."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.interop.git_judge import ADA, check, commit, git

from lancewood.errors import RetryableConflictError
from lancewood.git.ref_files import locked
from lancewood.git.refs import Refs
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash

MAIN = "refs/heads/main"


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.init(tmp_path / "repo")


def loose(path: Path) -> list[str]:
    return [str(each) for each in (path / "objects").glob("??/*")]


def everything(repository: GitRepository, tip: Hash) -> list[str]:
    """Every commit and file down from a tip, read through us."""
    told = []
    at: Hash | None = tip
    while at is not None:
        found = repository.objects.commit(at)
        tables = repository.objects.tree(found.tree)["tables"].hash
        blob = repository.objects.tree(tables)["photos.json"].hash
        told.append(f"{found.message} {repository.objects.blob(blob).decode().strip()}")
        at = found.parents[0] if found.parents else None
    return told


def test_objects_that_were_packed_meanwhile_are_read(repository: GitRepository) -> None:
    tips = [commit(repository, f"n{number}") for number in range(30)]
    before = everything(repository, tips[-1])
    git(repository.path, "gc", "-q", "--prune=now")
    assert loose(repository.path) == []
    assert everything(repository, tips[-1]) == before
    tips += [commit(repository, f"m{number}") for number in range(5)]
    git(repository.path, "repack", "-q", "-a", "-d")
    git(repository.path, "prune-packed")
    assert len(everything(repository, tips[-1])) == 35
    assert all(each in repository.objects for each in tips)
    check(repository.path)


def test_objects_that_became_loose_again_are_read(repository: GitRepository) -> None:
    tip = commit(repository, "one")
    git(repository.path, "gc", "-q")
    assert everything(repository, tip) == ["one one"]
    packs = list((repository.path / "objects/pack").iterdir())
    pack = next(each for each in packs if each.suffix == ".pack")
    data = pack.read_bytes()
    for each in packs:
        each.unlink()
    subprocess.run(
        ["git", "-C", str(repository.path), "unpack-objects", "-q"], input=data, check=True
    )
    assert everything(repository, tip) == ["one one"]


def test_commits_go_on_after_each_gc(repository: GitRepository) -> None:
    for round_ in range(3):
        tip = commit(repository, f"round {round_}")
        git(repository.path, "gc", "-q", "--prune=now")
        check(repository.path)
    assert len(everything(repository, tip)) == 3
    assert (repository.path / MAIN).exists(), "refs stay files: gc.packRefs is false"


def test_what_is_in_a_pack_is_not_written_again_and_looks_new(repository: GitRepository) -> None:
    commit(repository, "one")
    git(repository.path, "gc", "-q", "--prune=now")
    pack = next((repository.path / "objects/pack").glob("*.pack"))
    os.utime(pack, (1, 1))
    repository.objects.put_blob(b"one\n")
    repository.objects.sync()
    assert loose(repository.path) == []
    assert pack.stat().st_mtime > 1


def test_what_is_put_again_survives_a_prune_by_age(repository: GitRepository) -> None:
    one = repository.objects.put_blob(b"waits for its commit")
    other = repository.objects.put_blob(b"nobody wants it")
    repository.objects.sync()
    for each in loose(repository.path):
        os.utime(each, (1, 1))
    repository.objects.put_blob(b"waits for its commit")
    git(repository.path, "prune", "--expire=1.hour.ago")
    assert one in repository.objects
    assert other not in repository.objects


def test_a_prune_of_everything_between_put_and_sync_takes_nothing(
    repository: GitRepository,
) -> None:
    tip = commit(repository, "one")
    blob = repository.objects.put_blob(b"in the making")
    met = repository.objects.put_blob(b"one\n")
    git(repository.path, "gc", "-q", "--prune=now")
    repository.objects.sync()
    assert git(repository.path, "cat-file", "-p", blob) == "in the making"
    assert git(repository.path, "cat-file", "-p", met) == "one"
    assert everything(repository, tip) == ["one one"]


def test_refs_that_git_packed_are_read_moved_and_deleted(repository: GitRepository) -> None:
    refs, path = repository.refs, repository.path
    one = commit(repository, "one")
    for name in ("refs/heads/a/b", "refs/heads/c", "refs/tags/v1"):
        assert refs.move(name, None, one, why="made", by=ADA)
    git(path, "tag", "-a", "-m", "annotated", "v2", "main")
    annotated = refs.read("refs/tags/v2")
    git(path, "pack-refs", "--all")
    assert not (path / MAIN).exists()
    assert refs.read(MAIN) == one
    assert refs.head().hash == one
    assert refs.names("refs/") == {
        "refs/heads/a/b": one,
        "refs/heads/c": one,
        MAIN: one,
        "refs/tags/v1": one,
        "refs/tags/v2": annotated,
    }
    assert annotated is not None
    assert repository.objects.peel(annotated) == one

    two = commit(repository, "two")
    assert (path / MAIN).read_text() == f"{two}\n"
    assert refs.read(MAIN) == two
    assert not refs.move("refs/heads/c", None, two, why="exists, though packed", by=ADA)
    assert not refs.move("refs/heads/c", two, one, why="has another value", by=ADA)

    for name in ("refs/heads/a/b", "refs/heads/c", "refs/tags/v1"):
        assert refs.move(name, one, None, why="deleted", by=ADA)
        assert refs.read(name) is None
    assert git(path, "for-each-ref", "--format=%(refname)|%(*objectname)").splitlines() == [
        f"{MAIN}|",
        f"refs/tags/v2|{one}",
    ]
    header = (path / "packed-refs").read_text().splitlines()[0]
    assert "sorted" in header, "what git wrote about its file stays"
    check(path)


def test_a_branch_that_moved_and_was_deleted_does_not_shine_through(
    repository: GitRepository,
) -> None:
    one = commit(repository, "one")
    assert repository.refs.move("refs/heads/x", None, one, why="made", by=ADA)
    git(repository.path, "pack-refs", "--all")
    two = commit(repository, "two")
    assert repository.refs.move("refs/heads/x", one, two, why="moved", by=ADA)
    assert repository.refs.move("refs/heads/x", two, None, why="deleted", by=ADA)
    assert repository.refs.read("refs/heads/x") is None
    assert "refs/heads/x" not in git(repository.path, "for-each-ref")


def test_a_repository_that_borrows_objects_is_read(
    repository: GitRepository, tmp_path: Path
) -> None:
    tip = commit(repository, "one")
    git(repository.path, "gc", "-q")
    after = commit(repository, "two")
    git(tmp_path, "clone", "-q", "--bare", "--shared", str(repository.path), "clone")
    borrower = GitRepository.open(tmp_path / "clone")
    assert everything(borrower, after) == ["two two", "one one"]
    assert tip in borrower.objects
    commit(borrower, "three")
    check(tmp_path / "clone")


def test_a_lock_of_ours_keeps_git_away(repository: GitRepository) -> None:
    one = commit(repository, "one")
    with locked(str(repository.path / MAIN), str(repository.path)):
        done = subprocess.run(
            ["git", "-C", str(repository.path), "update-ref", "-d", MAIN, one],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert "main.lock" in done.stderr
    git(repository.path, "update-ref", "-d", MAIN, one)
    assert repository.refs.read(MAIN) is None


def test_a_transaction_of_git_that_is_under_way_keeps_us_away(repository: GitRepository) -> None:
    one, two = commit(repository, "one"), commit(repository, "two")
    refs = Refs(repository.path, patience=0.05)
    with subprocess.Popen(
        ["git", "-C", str(repository.path), "update-ref", "--stdin"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(f"start\nupdate {MAIN} {one} {two}\nprepare\n")
        other.stdin.flush()
        told = [other.stdout.readline().strip() for _ in range(2)]
        assert told == ["start: ok", "prepare: ok"]
        with pytest.raises(RetryableConflictError, match=r"main\.lock.*taken over after 24 hours"):
            refs.move(MAIN, two, one, why="too early", by=ADA)
        other.stdin.write("commit\n")
        other.stdin.close()
        assert other.wait() == 0
    assert refs.read(MAIN) == one
    assert refs.move(MAIN, one, two, why="now", by=ADA)
    check(repository.path)
