"""Several things at once, also in a child and when one of them fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lancewood.git.syncing import sync_and_close, sync_paths, together


def test_all_of_it_is_done_before_it_returns() -> None:
    done: list[int] = []
    together([lambda number=number: done.append(number) for number in range(50)])  # type: ignore[misc]
    assert sorted(done) == list(range(50))
    together([])


def test_work_is_done_at_the_same_time() -> None:
    meeting = threading.Barrier(4, timeout=30)
    together([lambda: (meeting.wait(), None)[1]] * 4)


def test_a_failure_is_raised_when_the_rest_is_done() -> None:
    done: list[int] = []

    def fail() -> None:
        raise OSError(5, "first")

    together_fails = [lambda: done.append(1), fail, lambda: done.append(2)]
    with pytest.raises(OSError, match="first"):
        together(together_fails)
    assert sorted(done) == [1, 2]


def test_what_nobody_helps_with_is_done_by_who_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("no threads any more")

    monkeypatch.setattr("lancewood.store.together._crews", {})
    monkeypatch.setattr(threading.Thread, "start", start)
    done: list[int] = []
    together([lambda: done.append(threading.get_ident())] * 20)
    assert done == [threading.get_ident()] * 20


def test_an_interrupt_is_told_when_what_others_began_is_done() -> None:
    meeting = threading.Barrier(2, timeout=30)
    done: list[int] = []

    def interrupted() -> None:
        meeting.wait()
        raise KeyboardInterrupt

    def other() -> None:
        meeting.wait()
        done.append(1)

    with pytest.raises(KeyboardInterrupt):
        together([interrupted, other])
    assert done == [1]


def test_works_may_ask_for_works_of_their_own() -> None:
    done: list[int] = []
    inner = [lambda: done.append(1)] * 10
    together([lambda: together(inner)] * 20)
    assert len(done) == 200


def test_files_and_directories_are_synced_and_descriptors_closed(tmp_path: Path) -> None:
    files = [tmp_path / str(number) for number in range(3)]
    for each in files:
        each.write_text("data")
    sync_paths(map(str, files), [str(tmp_path)])
    descriptors = [os.open(each, os.O_RDONLY) for each in files]
    sync_and_close(descriptors)
    for each_descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(each_descriptor)
    with pytest.raises(FileNotFoundError):
        sync_paths([str(tmp_path / "none")])


def test_a_forked_child_and_an_ending_interpreter_can_sync(tmp_path: Path) -> None:
    source = """
import atexit, os, sys
from lancewood.git.syncing import sync_paths
files = [sys.argv[1]] * 4
atexit.register(lambda: (sync_paths(files), print("at exit", flush=True)))
sync_paths(files)
pid = os.fork()
if not pid:
    sync_paths(files)
    print("child", flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    (tmp_path / "file").write_text("")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", source, str(tmp_path / "file")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split("\n") == ["child", "at exit", ""]
