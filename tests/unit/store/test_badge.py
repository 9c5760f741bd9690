"""Badges: files of which locks are further names."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lancewood.errors import StorageError
from lancewood.store.badge import Badges
from lancewood.store.base import is_in_the_making
from lancewood.store.lockfile import held, identity

SHORT = 0.05


def test_a_lock_is_another_name_of_the_badge_which_stays(tmp_path: Path) -> None:
    badges = Badges(str(tmp_path))
    badge = badges.mine()
    assert is_in_the_making(os.path.basename(badge))
    for _ in range(3):
        with held(str(tmp_path / "k.lock"), like=badges.mine()):
            assert (tmp_path / "k.lock").read_bytes() == identity(os.getpid())
            assert os.path.samefile(tmp_path / "k.lock", badge)
        assert os.listdir(tmp_path) == [os.path.basename(badge)]


def test_two_threads_of_one_process_do_not_hold_one_lock(tmp_path: Path) -> None:
    badges = Badges(str(tmp_path))
    found: list[BaseException] = []

    def try_it() -> None:
        try:
            with held(str(tmp_path / "k.lock"), SHORT, like=badges.mine()):
                pytest.fail("two owners at once")
        except BaseException as error:
            found.append(error)

    with held(str(tmp_path / "k.lock"), like=badges.mine()):
        other = threading.Thread(target=try_it)
        other.start()
        other.join()
    assert [type(each) for each in found] == [StorageError]


def test_a_badge_is_gone_with_its_thread_and_with_its_owner(tmp_path: Path) -> None:
    badges = Badges(str(tmp_path))
    other = threading.Thread(target=badges.mine)
    other.start()
    other.join()
    badges.mine()
    gc.collect()
    assert len(os.listdir(tmp_path)) == 1
    del badges
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_a_badge_is_gone_when_the_process_ends(tmp_path: Path) -> None:
    code = (
        "import os, sys; from lancewood.store.badge import Badges; "
        "badges = Badges(sys.argv[1]); badges.mine(); print(len(os.listdir(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"
    assert os.listdir(tmp_path) == []


def test_a_forked_child_wears_its_own_and_leaves_its_parents(tmp_path: Path) -> None:
    badges = Badges(str(tmp_path))
    badge = badges.mine()
    code = f"""
import gc, os
from lancewood.store.badge import Badges
badges = Badges({str(tmp_path)!r})
mine = badges.mine()
if not (child := os.fork()):
    theirs = badges.mine()
    same = theirs == mine or int(open(theirs).read().split()[0]) != os.getpid()
    del badges
    gc.collect()
    os._exit(same or not os.path.exists(mine) or os.path.exists(theirs))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.path.exists(mine))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0 True\n"
    assert os.listdir(tmp_path) == [os.path.basename(badge)]


def test_a_badge_that_somebody_removed_is_made_anew(tmp_path: Path) -> None:
    badges = Badges(str(tmp_path))
    os.unlink(badges.mine())
    assert os.path.exists(badges.mine())


def test_a_lock_is_a_file_of_its_own_when_the_badge_goes_in_the_last_moment(tmp_path: Path) -> None:
    lock = tmp_path / "k.lock"
    with held(str(lock), like=str(tmp_path / ".tmp0123456789abcdef")):
        assert lock.read_bytes() == identity(os.getpid())
    assert os.listdir(tmp_path) == []


def test_badges_that_are_sent_elsewhere_start_without_one(tmp_path: Path) -> None:
    badges = Badges(str(tmp_path))
    badges.mine()
    assert pickle.loads(pickle.dumps(badges)).mine() != badges.mine()
