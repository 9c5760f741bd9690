"""A repository in a bucket and stock git: we read an upload of git's, git a download of ours.

The bucket is one in memory: what S3 does differently is shown in tests/repo.
"""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import pytest
from tests.interop import git_judge
from tests.interop.git_judge import ADA, commit, git
from tests.repo.locations import Where

from lancewood.errors import FormatError, NotFoundError, UnsupportedError
from lancewood.git.bucket import refs
from lancewood.git.bucket.ref_objects import deleted, making
from lancewood.git.bucket.repository import BucketRepository
from lancewood.git.history import walk
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.git.values import Hash
from lancewood.store.locate import open_store

MAIN = "refs/heads/main"


@pytest.fixture
def bucket() -> Where:
    return Where(f"memory://{uuid4().hex}/repo")


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of git's own making: two packs, deltas of both kinds, packed refs."""
    if shutil.which("git") is None:
        pytest.skip("stock git is the judge here, and there is none on this machine")
    path = tmp_path_factory.mktemp("packed") / "repo"
    repository = GitRepository.init(path)
    chance = random.Random(3)
    lines = [f"line {number} {chance.random()}" for number in range(600)]
    for number in range(40):
        lines[chance.randrange(600)] = f"changed {number}"
        commit(repository, "\n".join(lines))
        if number == 20:
            git(path, "gc", "--quiet")
    git(path, "tag", "--annotate", "--message=told", "v1", "main~3")
    git(path, "branch", "exp", "main~5")
    git(path, "-c", "repack.useDeltaBaseOffset=false", "repack", "-d", "--quiet")
    shown = [git(path, "verify-pack", "-v", str(each)) for each in path.rglob("*.idx")]
    assert len(shown) == 2
    assert all("chain length = 2" in each for each in shown), "there are deltas of deltas"
    git(path, "pack-refs", "--all")
    commit(repository, "loose")
    repository.close()
    return path


def opened(bucket: Where) -> BucketRepository:
    return BucketRepository.open(str(bucket.root))


def test_an_uploaded_repository_is_read_packs_and_packed_refs_included(
    packed: Path, bucket: Where
) -> None:
    bucket.upload(packed)
    ours = opened(bucket)
    listed = git(packed, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    assert ours.refs.names() == dict(each.split(" ") for each in listed)
    assert [each.new for each in ours.refs.log(MAIN)] == git(
        packed, "reflog", "show", "--format=%H", "main"
    ).splitlines()
    found = [each.hash for each in walk(ours.objects, [resolve(ours, "main")])]
    assert found == git(packed, "rev-list", "main").splitlines()
    assert resolve(ours, "v1") == git(packed, "rev-parse", "v1^{commit}")
    objects = git(packed, "rev-list", "--objects", "--all", "--no-object-names").splitlines()
    read = {b"blob": ours.objects.blob, b"tree": ours.objects.tree}
    kinds = git(packed, "cat-file", "--batch-check", given="\n".join(objects)).splitlines()
    for each in kinds:
        name, kind, _ = each.split(" ")
        if kind in ("blob", "tree"):
            read[kind.encode()](Hash(name))  # checks that the bytes have this hash
    name = objects[-1]
    assert [*ours.objects.starting_with(name[:8])] == [name]
    with pytest.raises(NotFoundError, match="there is no object"):
        ours.objects.blob(Hash("0" * 63 + "1"))


def test_packed_refs_are_moved_and_deleted_and_a_download_is_whole(
    packed: Path, bucket: Where, tmp_path: Path
) -> None:
    bucket.upload(packed)
    ours = opened(bucket)
    exp = ours.refs.read("refs/heads/exp")
    new = commit(ours, "on exp", branch="exp")
    assert ours.objects.commit(new).parents == (exp,)
    tag = ours.refs.read("refs/tags/v1")
    assert ours.refs.move("refs/tags/v1", tag, None, why="gone", by=ADA)
    ours.tidy()
    copy = tmp_path / "copy"
    bucket.download(copy)
    git_judge.check(copy)
    assert git(copy, "rev-parse", "exp") == new
    assert git(copy, "tag", "--list") == ""
    assert git(copy, "rev-parse", "exp@{1}") == exp
    again = GitRepository.open(copy)
    assert again.refs.names() == ours.refs.names()
    assert [*again.refs.log(MAIN)] == [*ours.refs.log(MAIN)]


def test_a_download_with_markers_in_it_says_what_the_bucket_says_and_is_whole_once_tidied(
    packed: Path, bucket: Where, tmp_path: Path
) -> None:
    bucket.upload(packed)
    store = open_store(str(bucket.root))
    store.put("refs/tags/v1", deleted())  # as its deletion was cut off
    store.put("refs/heads/new", making())
    ours, copy = opened(bucket), tmp_path / "copy"
    bucket.download(copy)
    there = GitRepository.open(copy)
    assert there.refs.names() == ours.refs.names()
    assert there.refs.every_name() == ours.refs.every_name()
    assert there.refs.read("refs/tags/v1") is None
    left = [str(copy / each) for each in ("refs/heads/new", "refs/tags/v1")]
    assert sorted(there.tidy(dry_run=True)) == left
    assert sorted(there.tidy()) == left
    assert there.tidy() == []
    git_judge.check(copy)
    assert git(copy, "tag", "--list") == ""
    assert there.refs.names() == ours.refs.names()


def test_a_download_after_many_moves_is_whole_for_git(
    bucket: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Which moves fold the log is chance: this often, 150 without one will not be seen.
    monkeypatch.setattr(refs, "_FOLDED_EVERY", 4)
    ours = BucketRepository.init(str(bucket.root))
    for number in range(150):
        commit(ours, f"number {number}", branch=("main", "a/b", "x")[number % 3])
    ours.refs.switch_head("x", why="checkout: moving from main to x", by=ADA)
    tip = ours.refs.read("refs/heads/a/b")
    assert ours.refs.move("refs/heads/a/b", tip, None, why="gone", by=ADA)
    commit(ours, "in its place", branch="a")
    loose = [each.key for each in open_store(bucket.root).list("lancewood/moves")]
    assert len(loose) < 150, "some moves fold the log"
    ours.tidy()
    copy = tmp_path / "copy"
    bucket.download(copy)
    git_judge.check(copy)
    assert git(copy, "symbolic-ref", "HEAD") == "refs/heads/x"
    names = git(copy, "for-each-ref", "--format=%(refname)").splitlines()
    assert names == ["refs/heads/a", MAIN, "refs/heads/x"]
    for branch in ("main", "x"):
        told = git(copy, "reflog", "show", "--format=%gs", branch).splitlines()
        assert told == [each.why for each in ours.refs.log(f"refs/heads/{branch}")]
        assert len(told) == 50
        assert told == [
            f"commit: {each.message}" for each in walk(ours.objects, [resolve(ours, branch)])
        ]


def test_packs_that_come_later_are_found(packed: Path, bucket: Where) -> None:
    ours = BucketRepository.init(str(bucket.root))
    tip = Hash(git(packed, "rev-parse", "main~2"))
    with pytest.raises(NotFoundError):
        ours.objects.commit(tip)
    store = open_store(bucket.root)
    for each in (packed / "objects/pack").iterdir():
        store.put(f"objects/pack/{each.name}", each.read_bytes())
    assert ours.objects.commit(tip).hash == tip


def test_objects_that_are_borrowed_are_refused_and_not_called_lost(
    packed: Path, bucket: Where
) -> None:
    bucket.upload(packed)
    store = open_store(bucket.root)
    store.put("objects/info/alternates", b"../other/objects\n")
    store.delete([each.key for each in store.list("objects/pack")])
    with pytest.raises(UnsupportedError, match="borrows objects"):
        opened(bucket).objects.commit(Hash(git(packed, "rev-parse", "main~2")))


@pytest.mark.parametrize("end", ["idx", "pack"])
@pytest.mark.parametrize("seed", range(8))
def test_damage_gives_the_right_bytes_or_an_error_of_ours(
    packed: Path, bucket: Where, end: str, seed: int
) -> None:
    chance, store = random.Random(seed), open_store(bucket.root)
    bucket.upload(packed)
    keys = [each.key for each in store.list("objects/pack") if each.key.endswith(f".{end}")]
    for key in keys:
        data = bytearray(store.get(key))
        for _ in range(1 + seed):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        store.put(key, bytes(data[: len(data) - chance.randrange(2) * chance.randrange(2000)]))
    ours, whole = opened(bucket), GitRepository.open(packed)
    for each in walk(whole.objects, [resolve(whole, "main")]):
        with suppress(FormatError, NotFoundError):
            assert ours.objects.commit(each.hash) == each
        with suppress(FormatError, NotFoundError):
            assert ours.objects.tree(each.tree) == whole.objects.tree(each.tree)
    whole.close()
