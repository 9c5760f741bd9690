"""Processes that count up one branch, and one of them that is killed while it holds the lock."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from lancewood.git.objects import FILE, Signature, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.values import ZERO

MAIN = "refs/heads/main"
WRITERS, COUNT = 8, 15

WRITER = """
import sys
from lancewood.git.repository import GitRepository
from lancewood.git.objects import Signature
from lancewood.git.objects import FILE, TreeEntry

path, who, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
repo = GitRepository.open(path, fsync=False)
by = Signature.now(who, "w@example.org")
print("ready", flush=True)
sys.stdin.readline()
for turn in range(count):
    while True:
        tip = repo.refs.read("refs/heads/main")
        commit = repo.objects.commit(tip)
        blob = repo.objects.tree(commit.tree)["count"].hash
        number = int(repo.objects.blob(blob)) + 1
        counted = TreeEntry(FILE, repo.objects.put_blob(b"%d" % number))
        tree = repo.objects.put_tree({"count": counted})
        new = repo.objects.put_commit(tree, [tip], by, f"{who} {turn}")
        if repo.refs.move("refs/heads/main", tip, new, why=f"commit: {who} {turn}", by=by):
            break
"""

VICTIM = """
import os, signal, sys
from lancewood.git.ref_files import locked

path = sys.argv[1]
print("ready", flush=True)
sys.stdin.readline()
with locked(path + "/refs/heads/main", path):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def start(source: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", source, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("has_victim", [False, True], ids=["all-live", "one-killed-with-the-lock"])
def test_processes_that_count_on_one_branch_lose_nothing(tmp_path: Path, has_victim: bool) -> None:
    repository = GitRepository.init(tmp_path / "repo", fsync=False)
    by = Signature.now("Ada", "ada@example.org")
    objects = repository.objects
    tree = objects.put_tree({"count": TreeEntry(FILE, objects.put_blob(b"0"))})
    first = objects.put_commit(tree, [], by, "zero")
    assert repository.refs.move(MAIN, None, first, why="zero", by=by)

    path = str(repository.path)
    running = [start(WRITER, path, f"w{number}", str(COUNT)) for number in range(WRITERS)]
    if has_victim:
        running.append(start(VICTIM, path))
    try:
        for each in running:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in running:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        ends = [each.wait(timeout=200) for each in running]
    finally:
        for each in running:
            each.kill()
            each.communicate()
    assert ends == [0] * WRITERS + ([-9] if has_victim else [])

    tip = repository.refs.read(MAIN)
    assert tip is not None
    messages = []
    at = objects.commit(tip)
    assert objects.blob(objects.tree(at.tree)["count"].hash) == b"%d" % (WRITERS * COUNT)
    while at.parents:
        messages.append(at.message)
        at = objects.commit(at.parents[0])
    assert sorted(messages) == sorted(
        f"w{number} {turn}" for number in range(WRITERS) for turn in range(COUNT)
    )
    moves = list(repository.refs.log(MAIN))
    assert len(moves) == WRITERS * COUNT + 1
    assert moves[0].new == tip
    assert all(new.old == old.new for new, old in pairwise(moves))
    assert moves[-1].old == ZERO
    assert [each.why.removeprefix("commit: ") for each in moves[:-1]] == messages
    assert not list(repository.path.rglob("*.lock"))
