"""Stock git is the judge of our order, our common ancestors and our descent.

The histories are random: forks, merges, octopuses, several roots, and clocks that are wrong.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.commits import random_parents

from lancewood.git.history import is_ancestor, merge_base, merge_bases, reachable, walk
from lancewood.git.objects import Objects
from lancewood.git.values import Hash

COUNT = 80
CASES = [(1, 0), (2, 40), (3, 5000), (4, 5000)]


def git(path: Path, *words: str, given: bytes | None = None) -> str:
    done = subprocess.run(["git", "-C", str(path), *words], input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@dataclass(frozen=True)
class History:
    """A repository that git made; commits are known by number."""

    path: Path
    parents: list[tuple[int, ...]]
    hashes: list[Hash]
    objects: Objects

    def numbers(self, hashes: list[Hash]) -> list[int]:
        return [self.hashes.index(each) for each in hashes]


@pytest.fixture(scope="module", params=CASES, ids=[f"seed-{a}-skew-{b}" for a, b in CASES])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> History:
    seed, skew = request.param
    chance = random.Random(seed)
    parents = random_parents(chance, COUNT)
    path = tmp_path_factory.mktemp("git")
    git(path, "init", "-q", "--bare", "--object-format=sha256", "-b", "main")
    git(path, "fast-import", "--quiet", given=stream(chance, parents, skew))
    names = git(path, "for-each-ref", "--format=%(refname:short) %(objectname)").split()
    found = dict(zip(names[::2], names[1::2], strict=True))
    hashes = [Hash(found[f"c{number}"]) for number in range(COUNT)]
    return History(path, parents, hashes, Objects(path / "objects"))


def stream(chance: random.Random, parents: list[tuple[int, ...]], skew: int) -> bytes:
    """For git fast-import: every commit on a branch of its own, no two at the same second."""
    lines = []
    clocks = [1_700_000_000 + 100 * at + chance.randint(-skew, skew) for at in range(len(parents))]
    while len(set(clocks)) < len(clocks):
        clocks = [each + (each in clocks[:at]) for at, each in enumerate(clocks)]
    for number, over in enumerate(parents):
        by = f"Ada <ada@example.com> {clocks[number]} +0000"
        lines += [f"commit refs/heads/c{number}", f"mark :{number + 1}", f"committer {by}"]
        lines += [f"data {len(str(number))}", str(number)]
        lines += [f"{'merge' if at else 'from'} :{each + 1}" for at, each in enumerate(over)]
        lines.append("")
    return "\n".join(lines).encode()


TIPS = [[COUNT - 1], [COUNT - 1, COUNT - 2, 40, 3], list(range(COUNT))]


@pytest.mark.parametrize("tips", TIPS, ids=["one", "four", "all"])
def test_the_walk_has_the_order_of_git_log_by_date(history: History, tips: list[int]) -> None:
    starts = [history.hashes[each] for each in tips]
    theirs = git(history.path, "log", "--format=%H", "--date-order", *starts).split()
    assert [each.hash for each in walk(history.objects, starts)] == theirs
    page = [each.hash for each in walk(history.objects, starts, limit=9, skip=4)]
    assert page == theirs[4:13]


def test_first_parents_are_those_of_git_log(history: History) -> None:
    for tip in history.hashes[-10:]:
        theirs = git(history.path, "log", "--format=%H", "--first-parent", tip).split()
        ours = [each.hash for each in walk(history.objects, [tip], first_parent=True)]
        assert ours == theirs


@pytest.mark.parametrize("tips", TIPS, ids=["one", "four", "all"])
def test_parents_never_come_before_children_and_none_is_missing(
    history: History, tips: list[int]
) -> None:
    starts = [history.hashes[each] for each in tips]
    theirs = git(history.path, "log", "--format=%H", "--topo-order", *starts).split()
    ours = list(walk(history.objects, starts))
    assert sorted(each.hash for each in ours) == sorted(theirs)
    assert sorted(each.hash for each in reachable(history.objects, starts)) == sorted(theirs)
    location = {each.hash: at for at, each in enumerate(ours)}
    for each in ours:
        assert all(location[parent] > location[each.hash] for parent in each.parents)


def test_common_ancestors_are_those_of_git_merge_base(history: History) -> None:
    chance = random.Random(7)
    for _ in range(25):
        a, b = chance.choices(history.hashes, k=2)
        asked = subprocess.run(
            ["git", "-C", str(history.path), "merge-base", "--all", a, b], capture_output=True
        )
        theirs = asked.stdout.decode().split()
        assert asked.returncode == (0 if theirs else 1)
        assert sorted(merge_bases(history.objects, a, b)) == sorted(theirs)
        assert merge_base(history.objects, a, b) == (theirs[0] if theirs else None)


def test_descent_is_what_git_says_it_is(history: History) -> None:
    chance = random.Random(8)
    answers = set()
    for _ in range(25):
        old, new = chance.choices(history.hashes, k=2)
        asked = subprocess.run(
            ["git", "-C", str(history.path), "merge-base", "--is-ancestor", old, new],
            capture_output=True,
        )
        assert asked.returncode in (0, 1)
        answers.add(asked.returncode)
        assert is_ancestor(history.objects, old, new) == (asked.returncode == 0)
    assert answers == {0, 1}


def test_packed_commits_are_walked_like_loose_ones(history: History, tmp_path: Path) -> None:
    path = tmp_path / "packed"
    shutil.copytree(history.path, path)
    git(path, "gc", "-q", "--prune=now")
    assert list((path / "objects" / "pack").glob("*.pack"))
    assert not (path / "objects" / history.hashes[0][:2]).exists()
    packed = Objects(path / "objects")
    assert list(walk(packed, history.hashes)) == list(walk(history.objects, history.hashes))
