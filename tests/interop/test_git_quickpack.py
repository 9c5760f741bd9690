"""The short way into packs that git wrote: right where it answers, silent where it is not sure."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from lancewood.errors import LancewoodError
from lancewood.git import packs as quickpack
from lancewood.git.objects import Objects
from lancewood.git.packs import QuickPacks
from lancewood.git.values import Hash


def git(path: Path, *words: str, given: bytes | None = None) -> str:
    done = subprocess.run(["git", "-C", str(path), *words], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def stream(count: int) -> bytes:
    """For git fast-import: a line of commits over a long text that changes a little each time."""
    parts: list[bytes] = []
    for number in range(count):
        text = b"".join(b"row %d of a table\n" % each for each in range(100)) + b"%d\n" % number
        parts.append(b"commit refs/heads/main\ncommitter A <a@b.c> %d +0000\n" % (1000 + number))
        parts.append(b"data 4\ntext\nM 100644 inline a.txt\ndata %d\n%b\n" % (len(text), text))
    return b"".join(parts)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed")
    git(path, "init", "-q", "--bare", "--object-format=sha256", "-b", "main")
    git(path, "fast-import", "--quiet", given=stream(40))
    large = path / "large"
    large.write_bytes(random.Random(0).randbytes(200_000))
    git(path, "tag", "large", git(path, "hash-object", "-w", str(large)).strip())
    git(path, "gc", "-q", "--prune=now")
    return path


@pytest.fixture
def own(packed: Path, tmp_path: Path) -> Path:
    """A copy whose packs may be changed."""
    path = tmp_path / "own"
    shutil.copytree(packed, path)
    for each in (path / "objects" / "pack").iterdir():
        each.chmod(0o644)
    return path


def quick(path: Path) -> QuickPacks:
    made = QuickPacks(str(path / "objects" / "pack"))
    made.look()
    return made


def contents(path: Path) -> dict[Hash, tuple[str, int, bool]]:
    """What git says is there: kind, size, and whether it is stored as a delta."""
    form = "--batch-check=%(objectname) %(objecttype) %(objectsize) %(deltabase)"
    lines = git(path, "cat-file", form, "--batch-all-objects").splitlines()
    return {
        Hash(hash): (kind, int(size), set(base) != {"0"})
        for hash, kind, size, base in map(str.split, lines)
    }


def test_it_finds_every_small_object_that_is_stored_whole(packed: Path) -> None:
    found = quick(packed)
    seen = {"whole": 0, "delta": 0, "large": 0}
    for hash, (kind, size, is_delta) in contents(packed).items():
        answer = found.read(hash)
        if is_delta or size > quickpack._SMALL:
            assert answer is None
            seen["delta" if is_delta else "large"] += 1
        else:
            assert answer is not None
            theirs = subprocess.run(
                ["git", "-C", str(packed), "cat-file", kind, hash], capture_output=True
            )
            assert answer == (kind.encode(), theirs.stdout)
            seen["whole"] += 1
    assert all(seen.values())


def test_objects_that_it_leaves_out_are_read_all_the_same(packed: Path) -> None:
    objects = Objects(packed / "objects")
    for hash, (kind, size, _) in contents(packed).items():
        if kind == "blob":
            assert len(objects.blob(hash)) == size


def test_what_is_not_there_is_not_found(packed: Path) -> None:
    found = quick(packed)
    for first in range(256):
        assert found.read(Hash(f"{first:02x}" + "7f" * 31)) is None


def test_before_the_first_look_it_knows_nothing(packed: Path) -> None:
    found = QuickPacks(str(packed / "objects" / "pack"))
    assert all(found.read(each) is None for each in contents(packed))


def test_a_directory_that_is_not_there_is_no_harm(tmp_path: Path) -> None:
    found = QuickPacks(str(tmp_path / "nowhere"))
    found.look()
    assert found.read(Hash("ab" * 32)) is None


def test_packs_that_come_and_go_are_seen_at_the_next_look(own: Path) -> None:
    found = quick(own)
    tip = Hash(git(own, "rev-parse", "main").strip())
    assert found.read(tip) is not None
    for each in (own / "objects" / "pack").iterdir():
        each.rename(own / each.name)
    found.look()
    assert found.read(tip) is None
    for each in own.glob("pack-*"):
        each.rename(own / "objects" / "pack" / each.name)
    found.look()
    assert found.read(tip) is not None
    found.close()
    assert found.read(tip) is None
    found.look()
    assert found.read(tip) is not None


def test_of_many_packs_all_are_searched(own: Path) -> None:
    for number in range(3):
        git(own, "fast-import", "--quiet", "--force", given=stream(40 + number))
        git(own, "repack", "-d", "-q")
    commits = git(own, "rev-list", "main").split()
    assert len(list((own / "objects" / "pack").glob("*.pack"))) > 1
    found = quick(own)
    assert all(found.read(Hash(each)) is not None for each in commits)


@pytest.mark.parametrize("end", ["idx", "pack"])
@pytest.mark.parametrize("seed", range(12))
def test_damage_gives_the_right_bytes_or_an_error_of_ours(own: Path, end: str, seed: int) -> None:
    chance = random.Random(seed)
    whole = contents(own)
    commits = [each for each, (kind, _, _) in whole.items() if kind == "commit"]
    expected = {each: Objects(own / "objects").commit(each) for each in commits}
    [file] = (own / "objects" / "pack").glob(f"*.{end}")
    data = bytearray(file.read_bytes())
    if seed % 4 == 0:
        del data[chance.randrange(len(data)) :]
    else:
        for _ in range(60):
            data[chance.randrange(len(data))] = chance.randrange(256)
    file.unlink()
    file.write_bytes(data)
    objects = Objects(own / "objects")
    for each in commits:
        try:
            assert objects.commit(each) == expected[each]
        except LancewoodError:
            continue
    found = quick(own)
    for each in commits:
        found.read(each)


@pytest.mark.parametrize("data", [b"", b"\xfftOc\0\0\0\3" + b"\0" * 2000, b"\xfftOc\0\0\0\2\xff"])
def test_an_index_of_another_kind_is_left_alone(own: Path, data: bytes) -> None:
    [file] = (own / "objects" / "pack").glob("*.idx")
    commit = Hash(git(own, "rev-parse", "main").strip())
    file.unlink()
    file.write_bytes(data)
    assert quick(own).read(commit) is None
