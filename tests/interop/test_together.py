"""Checklist line 42: several processes of both implementations append to one table at once."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.manifests import newest_manifest
from tests.pylance import judged

import lancewood as lw

MANY = daily(10, of=60)
THEIRS = """
import sys, time, lance, pyarrow as pa
from lance.commit import CommitConflictError
uri, who, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
for n in range(times):
    rows = pa.table({"who": [who] * 2, "n": pa.array([n] * 2, pa.int64())})
    while True:
        try:
            lance.write_dataset(rows, uri, mode="append")
            break
        except (CommitConflictError, OSError):
            time.sleep(0.01)
"""

OURS = """
import sys, pyarrow as pa, lancewood as lw
uri, who, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
table = lw.open(uri)
for n in range(times):
    table = table.append(pa.table({"who": [who] * 2, "n": pa.array([n] * 2, pa.int64())}))
"""


def run_together(uri: str, scripts: dict[str, str], times: int) -> None:
    running = {
        who: subprocess.Popen(
            [sys.executable, "-c", script, uri, who, str(times)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for who, script in scripts.items()
    }
    for who, each in running.items():
        _, errors = each.communicate(timeout=240)
        assert each.returncode == 0, f"{who}: {errors}"


def check(uri: str, writers: list[str], times: int) -> None:
    dataset = judged(uri)
    table = lw.open(uri)
    assert table.version == dataset.version == 1 + len(writers) * times
    got = table.scan(with_row_id=True).to_arrow()
    assert got.to_pylist() == dataset.scanner(with_row_id=True).to_table().to_pylist()
    counted = Counter(zip(got["who"].to_pylist(), got["n"].to_pylist(), strict=True))
    assert counted == {(who, n): 2 for who in writers for n in range(times)}
    ids = [each.id for each in table.fragments]
    assert len(set(ids)) == len(ids) == len(writers) * times
    assert len(set(got["_rowid"].to_pylist())) == got.num_rows
    manifest = newest_manifest(uri)
    if manifest.has_stable_row_ids:
        assert manifest.next_row_id == got.num_rows


@pytest.mark.parametrize("stable", [True, False])
def test_line_42_two_of_theirs_and_one_of_ours_lose_nothing(uri: str, stable: bool) -> None:
    lw.create(
        uri,
        pa.schema([("who", pa.string()), ("n", pa.int64())]),
        layout=lw.Layout(stable_row_ids=stable),
    )
    run_together(uri, {"p1": THEIRS, "p2": THEIRS, "us": OURS}, times=MANY)
    check(uri, ["p1", "p2", "us"], times=MANY)


def test_four_of_ours_lose_nothing(uri: str) -> None:
    lw.create(uri, pa.schema([("who", pa.string()), ("n", pa.int64())]))
    writers = ["a", "b", "c", "d"]
    run_together(uri, dict.fromkeys(writers, OURS), times=MANY)
    check(uri, writers, times=MANY)
