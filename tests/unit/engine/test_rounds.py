"""How often a commit waits for a store that is far away: what does not depend on an answer is asked
at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import WatchedStore

T = TypeVar("T")
ROWS = pa.table({"a": [1, 2, 3]})
PATIENCE = 30.0
"""Seconds after which a call that should be one of several is taken for one that came alone."""
NO_REQUESTS = {"sync", "stamp"}
"""Verbs that cost nothing in a bucket."""


class Rounds(WatchedStore):
    """A far store that answers the calls of a round when all of them are asked, never before."""

    is_far = True

    def __init__(self, inner: Store, rounds: Sequence[list[str]]) -> None:
        super().__init__(inner)
        self.left = [sorted(each) for each in rounds]
        self._asked: list[str] = []
        self._changed = threading.Condition()

    def _call(self, verb: str, key: str, action: Callable[[], T]) -> T:
        if verb not in NO_REQUESTS:
            with self._changed:
                self._meet(verb)
        return action()

    def _meet(self, verb: str) -> None:
        assert self.left, f"{verb} comes after the last round"
        left = len(self.left)
        self._asked.append(verb)
        if len(self._asked) == len(self.left[0]):
            assert sorted(self._asked) == self.left.pop(0)
            self._asked.clear()
            self._changed.notify_all()
        else:
            met = self._changed.wait_for(lambda: len(self.left) < left, PATIENCE)
            assert met, f"{self._asked} came alone, not as {self.left[0]}"


@pytest.mark.parametrize(
    ("change", "rounds"),
    [
        (
            lambda table: table.append(ROWS),
            [["put"], ["names", "get_range", "head"], ["put_new"], ["head", "names"]],
        ),
        (
            lambda table: table.delete("a = 1"),
            [["put"], ["put"], ["names", "get_range"], ["head"], ["put_new"], ["head", "names"]],
        ),
        (
            lambda table: table.set_config({"k": "v"}),
            [["put"], ["names", "get_range"], ["put_new"], ["head", "names"]],
        ),
    ],
    ids=["append", "delete", "set_config"],
)
def test_a_commit_waits_this_often(
    tmp_path: Path, change: Callable[[lw.Table], object], rounds: list[list[str]]
) -> None:
    table = lw.create(tmp_path / "t.lance", ROWS)
    known = table._snapshot
    store = Rounds(DiskStore(table.uri), rounds)
    change(lw.Table(Snapshot(Location(store), known.manifest, known.scheme)))
    assert store.left == []
