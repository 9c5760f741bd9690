"""Scans of some physical rows of a fragment: how tasks share one that is large."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.base import fanout
from lancewood.engine.rows.row_shape import Fetching
from lancewood.engine.rows.scan import ScanPlan, ScanRequest

CUTS = (0, 1, 250, 700, 1000)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """Three fragments of 1000 rows; of the second, rows are deleted."""
    data = pa.table({"n": range(3000), "s": [f"text {each}" for each in range(3000)]})
    made = lw.create(
        tmp_path_factory.mktemp("spans") / "t.lance",
        data,
        layout=lw.Layout(max_rows_per_file=1000),
        access=lw.Access(fsync=False),
    )
    return made.delete("n % 7 = 0 AND n >= 1000 AND n < 2000 OR n IN (1999, 1250)")


def pieces(table: lw.Table, request: ScanRequest, cuts: tuple[int, ...]) -> list[ScanPlan]:
    """The second fragment cut up; the first goes with the first piece, the third with the last."""
    first, second, third = table.fragments
    made = []
    for start, stop in pairwise(cuts):
        before = [first] if start == cuts[0] else []
        after = [third] if stop == cuts[-1] else []
        asked = {
            **request.__dict__,
            "fragments": [*before, second, *after],
            "spans": {second.id: (start, stop)},
        }
        made.append(ScanPlan(table._snapshot, ScanRequest(**asked)))
    return made


@pytest.mark.parametrize("fetching", list(Fetching))
@pytest.mark.parametrize("where", [None, "n % 3 = 1", "n >= 1100 AND _rowid < 1800", "n = 5000"])
def test_pieces_of_a_fragment_together_are_the_fragment(
    table: lw.Table, where: str | None, fetching: Fetching
) -> None:
    request = ScanRequest(
        where=where, with_row_id=True, with_row_address=True, fetching=fetching, batch_rows=100
    )
    whole = ScanPlan(table._snapshot, request)
    found = [each for piece in pieces(table, request, CUTS) for each in piece.batches(workers=1)]
    assert pa.Table.from_batches(found, whole.schema) == pa.Table.from_batches(
        whole.batches(), whole.schema
    )
    assert sum(each.count(workers=1) for each in pieces(table, request, CUTS)) == whole.count()


def test_limit_and_offset_hold_within_a_span(table: lw.Table) -> None:
    (_, second, _), span = table.fragments, (500, 900)
    request = ScanRequest(
        columns=["n"], fragments=[second], spans={second.id: span}, limit=20, offset=10
    )
    found = pa.Table.from_batches(ScanPlan(table._snapshot, request).batches())
    live = [each for each in range(1500, 1900) if each % 7]
    assert found["n"].to_pylist() == live[10:30]
    assert ScanPlan(table._snapshot, request).count() == 20


def test_span_beyond_the_fragment_is_empty(table: lw.Table) -> None:
    second = table.fragments[1]
    request = ScanRequest(fragments=[second], spans={second.id: (1000, 5000)})
    assert list(ScanPlan(table._snapshot, request).batches()) == []


def test_span_of_a_fragment_whose_rows_are_all_deleted_is_empty(tmp_path: Path) -> None:
    made = lw.create(tmp_path / "t.lance", pa.table({"n": range(100)}))
    (fragment,) = made.fragments
    every = made.delete("n < 99")._snapshot
    (left,) = every.manifest.fragments
    request = ScanRequest(fragments=[left], spans={left.id: (0, 99)})
    assert list(ScanPlan(every, request).batches()) == []
    request = ScanRequest(fragments=[left], spans={fragment.id: (99, 100)})
    assert ScanPlan(every, request).count() == 1


@pytest.mark.parametrize(("workers", "starts"), [(1, False), (2, True)])
def test_one_worker_starts_no_thread_however_long_it_takes(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch, workers: int, starts: bool
) -> None:
    monkeypatch.setattr(fanout, "_QUICK_SECONDS", 0.0)
    before = set(threading.enumerate())
    request = ScanRequest(batch_rows=100, fetching=Fetching.TOGETHER)
    began = [
        any(each.name == "lancewood-scan" for each in set(threading.enumerate()) - before)
        for _ in ScanPlan(table._snapshot, request).batches(workers=workers)
    ]
    assert any(began) == starts
