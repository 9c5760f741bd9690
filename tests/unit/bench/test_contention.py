"""The check that no row was lost: it has to see what it is there for."""

from __future__ import annotations

from pathlib import Path

from bench.contenders import OurAppender, ten_rows
from bench.contention import rows_off
from bench.tables import make_small


def test_lost_and_doubled_rows_are_both_counted(tmp_path: Path) -> None:
    table = tmp_path / "t.lance"
    make_small(table)
    appender = OurAppender(table)
    appender.append(ten_rows(1_000))
    assert rows_off(table, [1_000]) == 0
    assert rows_off(table, [1_000, 2_000]) == 10
    appender.append(ten_rows(1_000))
    assert rows_off(table, [1_000]) == 10
