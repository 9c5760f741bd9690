"""A process that dies at every call to the file system, and git's opinion of what it leaves.

One process per case forks a child for each call; the child kills itself right before it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop.git_judge import ADA, check, commit, git

from lancewood.errors import NotFoundError
from lancewood.git.repository import GitRepository

MAIN = "refs/heads/main"

HARNESS = """
import os, signal, sys, threading
from pathlib import Path
from lancewood.git.repository import GitRepository
from lancewood.git.objects import Signature, TreeEntry, FILE, TREE
from lancewood.git.values import ZERO

path, at, case = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
ADA = Signature("Ada", "ada@example.org", int(sys.argv[4]), 0)  # the same calls each time

def mortal(at):
    lock, calls = threading.Lock(), [0]
    def wrap(function):
        def called(*a, **k):
            with lock:
                calls[0] += 1
                if calls[0] == at:
                    os.kill(os.getpid(), signal.SIGKILL)
            return function(*a, **k)
        return called
    for name in ("open write rename replace link unlink mkdir rmdir fsync truncate ftruncate "
                 "utime").split():
        setattr(os, name, wrap(getattr(os, name)))

def init():
    GitRepository.init(path)

def commit():
    repo = GitRepository.open(path)
    tip = repo.refs.read("refs/heads/main")
    blob = repo.objects.put_blob(b"by the mortal")
    tree = repo.objects.put_tree({"f": TreeEntry(FILE, blob)})
    new = repo.objects.put_commit(tree, [tip] if tip else [], ADA, "by the mortal")
    assert repo.refs.move("refs/heads/main", tip, new, why="commit", by=ADA)

def make():
    repo = GitRepository.open(path)
    tip = repo.refs.read("refs/heads/main")
    assert repo.refs.move("refs/heads/new/deep", None, tip, why="made", by=ADA)

def delete():
    repo = GitRepository.open(path)
    tip = repo.refs.read("refs/heads/x/y")
    assert repo.refs.move("refs/heads/x/y", tip, None, why="deleted", by=ADA)

def switch():
    GitRepository.open(path).refs.switch_head("other", why="switch", by=ADA)

def setting():
    GitRepository.open(path).set("lancewood", "id", "new")

mortal(at)
globals()[case]()
"""

FORKS = """
import os, sys
import lancewood.git.repository
source = sys.stdin.read()
for line in sys.argv[1:]:
    pid = os.fork()
    if pid == 0:
        sys.argv = ["mortal", *line.split("|")]
        try:
            exec(compile(source, "mortal", "exec"), {"__name__": "mortal"})
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


def die(paths: list[Path], case: str) -> list[int]:
    """Run the case once in each place, dying at the first call, the second, and so on; a sync is
    a call too.

    A case that is done before its call comes ends well.
    """
    now = ADA.seconds
    lines = [f"{path}|{at}|{case}|{now}" for at, path in enumerate(paths, start=1)]
    done = subprocess.run(
        [sys.executable, "-c", FORKS, *lines],
        input=HARNESS,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "LANCEWOOD_FSYNC": "1"},
    )
    ends = [int(each) for each in done.stdout.split()]
    assert set(ends) <= {0, -9}, done.stderr
    return ends


def copies(tmp_path: Path, original: Path, count: int) -> list[Path]:
    made = [tmp_path / f"copy{number}" for number in range(count)]
    for each in made:
        subprocess.run(["cp", "-r", str(original), str(each)], check=True)
    return made


def dead(ends: list[int]) -> int:
    """How many died; the count of copies was enough for one to live."""
    assert ends[-1] == 0, "more calls than copies"
    return sum(each == -9 for each in ends)


def test_an_init_that_died_left_nothing_or_is_finished_by_the_next(tmp_path: Path) -> None:
    paths = [tmp_path / f"repo{number}" for number in range(45)]
    ends = die(paths, "init")
    assert dead(ends) > 15
    for path, end in zip(paths, ends, strict=True):
        try:
            repository = GitRepository.open(path, fsync=False)
            assert (path / "HEAD").exists()
        except NotFoundError:
            assert end == -9
            repository = GitRepository.init(path, fsync=False)
        commit(repository, "one")
    check(paths[0])
    check(paths[20])


@pytest.fixture
def original(tmp_path: Path) -> Path:
    repository = GitRepository.init(tmp_path / "original", fsync=False)
    one = commit(repository, "one")
    refs = repository.refs
    assert refs.move("refs/heads/x/y", None, one, why="made", by=ADA)
    assert refs.move("refs/heads/other", None, one, why="made", by=ADA)
    git(repository.path, "pack-refs", "--all")
    two = commit(repository, "two")
    assert refs.move("refs/heads/x/y", one, two, why="moved", by=ADA)
    return repository.path


@pytest.mark.parametrize(
    ("case", "count", "least"), [("commit", 85, 40), ("make", 60, 20), ("delete", 60, 20)]
)
def test_a_ref_has_its_old_value_or_its_new_one(
    tmp_path: Path, original: Path, case: str, count: int, least: int
) -> None:
    name = {"commit": MAIN, "make": "refs/heads/new/deep", "delete": "refs/heads/x/y"}[case]
    before = GitRepository.open(original).refs.names("refs/")
    paths = copies(tmp_path, original, count)
    ends = die(paths, case)
    assert dead(ends) > least
    values = []
    for number, path in enumerate(paths[: dead(ends) + 1]):
        repository = GitRepository.open(path, fsync=False)
        after = repository.refs.names("refs/")
        assert {**after, name: None} == {**before, name: None}
        values.append(after.get(name))
        if number % 8 == 0 or ends[number] == 0:
            check(path)
        newest = next(repository.refs.log(MAIN))
        if case == "commit" and after[name] != before[name]:
            assert newest.new == after[name], "a move that is seen has been logged"
        # the lock of the dead is no hindrance
        assert repository.refs.move(MAIN, after[MAIN], before["refs/heads/other"], why="", by=ADA)
        if name in after and name != MAIN:
            assert repository.refs.move(name, after[name], None, why="", by=ADA)
        elif name != MAIN:
            tip = before["refs/heads/other"]
            assert repository.refs.move(name, None, tip, why="", by=ADA)
        if number % 8 == 0 or ends[number] == 0:
            check(path)
        repository.tidy()
        assert not list(path.rglob("*.lock"))
    is_old = [each == before.get(name) for each in values]
    assert is_old[0]
    assert not is_old[-1]
    assert is_old == sorted(is_old, reverse=True), "old until one call, new from there on"


def test_head_names_the_old_branch_or_the_new_one(tmp_path: Path, original: Path) -> None:
    paths = copies(tmp_path, original, 40)
    ends = die(paths, "switch")
    assert dead(ends) > 10
    seen = set()
    for path in paths[: dead(ends) + 1]:
        repository = GitRepository.open(path, fsync=False)
        seen.add(repository.refs.head().branch)
        repository.refs.switch_head("main", why="back", by=ADA)
    check(path)
    assert seen == {"main", "other"}


def test_settings_are_the_old_ones_or_the_new_ones(tmp_path: Path, original: Path) -> None:
    paths = copies(tmp_path, original, 30)
    ends = die(paths, "setting")
    assert dead(ends) > 5
    seen = set()
    for path in paths[: dead(ends) + 1]:
        repository = GitRepository.open(path, fsync=False)
        seen.add(repository.get("lancewood", "id"))
        repository.set("lancewood", "id", "another")
    assert seen == {None, "new"}
