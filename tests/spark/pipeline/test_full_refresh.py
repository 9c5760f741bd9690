"""A full refresh on Spark: tables from the start again, whatever earlier runs have read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import lance
import pytest

from lancewood.errors import InvalidInputError
from lancewood.pipeline import RunFacts, run
from lancewood.pipeline.report.facts import Ending
from lancewood.repo.repository import Repository

pytestmark = pytest.mark.spark

FILE = """
[pipeline]
name = "shop"
repository = "repo"
author = "Ada <ada@example.com>"

[sources.drops]
format = "csv"
path = "in"
schema = "id LONG, name STRING"
incremental = true

[[targets]]
table = "log"
from = "drops"
mode = "append"

[[targets]]
table = "newest"
from = "drops"
mode = "merge"
on = ["id"]

[[targets]]
table = "newest"
mode = "add-columns"
columns = { loud = "upper(name)" }

[[checks]]
table = "newest"
unique = ["id"]
"""


@pytest.fixture
def shop(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    (tmp_path / "in").mkdir()
    (tmp_path / "shop.toml").write_text(FILE)
    for day, text in enumerate(["1,a\n2,b\n", "2,c\n3,d\n"], 1):
        (tmp_path / "in" / f"{day}.csv").write_text(text)
        assert _run(spark, tmp_path, f"d{day}").ending is Ending.PUBLISHED
    return tmp_path


def _run(spark: Any, folder: Path, run_id: str, **said: Any) -> RunFacts:
    return run(folder / "shop.toml", run_id=run_id, spark=spark, **said)


def rows(folder: Path, table: str) -> list[tuple[Any, ...]]:
    found = lance.dataset(str(folder / "repo" / "tables" / f"{table}.lance"))
    found.validate()
    return sorted(tuple(each.values()) for each in found.to_table().to_pylist())


def test_tables_are_made_from_the_start_in_one_commit(spark: Any, shop: Path) -> None:
    before = rows(shop, "log")
    assert before == [(1, "a"), (2, "b"), (2, "c"), (3, "d")]
    (shop / "in" / "1.csv").unlink()
    text = (shop / "shop.toml").read_text().replace("name STRING", "name STRING, age LONG")
    (shop / "shop.toml").write_text(text)
    (shop / "in" / "2.csv").write_text("2,c,7\n3,d,8\n")
    tip = Repository.open(shop / "repo").at("main").hash
    facts = _run(spark, shop, "all", full_refresh=True)
    assert facts.ending is Ending.PUBLISHED
    assert rows(shop, "log") == [(2, "c", 7), (3, "d", 8)], "also the columns are those of now"
    assert rows(shop, "newest") == [(2, "c", 7, "C"), (3, "d", 8, "D")]
    assert [(each.mode, each.rows_before, each.rows_after) for each in facts.targets] == [
        ("append, full refresh", 4, 2),
        ("merge, full refresh", 3, 2),
        ("add-columns", 2, 2),
    ]
    assert facts.sources[0].since is None
    repository = Repository.open(shop / "repo")
    assert repository.at("main").commit.parents == (tip,)
    assert "log: append, full refresh, 2 rows now" in repository.at("main").commit.message
    seen = repository.at("main").table("shop_drops_files").to_arrow()
    assert [Path(each).name for each in seen["path"].to_pylist()] == ["2.csv"]
    assert _run(spark, shop, "d3").ending is Ending.NOTHING_NEW
    (shop / "in" / "3.csv").write_text("4,e,9\n")
    assert _run(spark, shop, "d4").ending is Ending.PUBLISHED
    assert rows(shop, "log") == [(2, "c", 7), (3, "d", 8), (4, "e", 9)]
    repository.revert("main")
    repository.revert("main~2")
    assert rows(shop, "log") == before, "taken back like any commit"
    assert repository.fsck().is_ok


@pytest.mark.campaign
def test_a_later_file_corrects_an_earlier_one_by_its_time(spark: Any, shop: Path) -> None:
    """Day by day it does so anyway."""
    day_by_day = rows(shop, "newest")
    for day, moment in (("1", 1_700_000_000), ("2", 1_700_000_001)):
        os.utime(shop / "in" / f"{day}.csv", (moment, moment))
    with pytest.raises(InvalidInputError, match="order_by does that"):
        _run(spark, shop, "twice", full_refresh=True)
    text = (shop / "shop.toml").read_text()
    text = text.replace("incremental = true", 'incremental = true\nfile_time = "arrived"')
    said = 'on = ["id"]\nkeep = "last"\norder_by = ["arrived"]\nleave_out = ["arrived"]'
    (shop / "shop.toml").write_text(text.replace('on = ["id"]', said))
    assert _run(spark, shop, "by-age", full_refresh=True).ending is Ending.PUBLISHED
    assert rows(shop, "newest") == day_by_day == [(1, "a", "A"), (2, "c", "C"), (3, "d", "D")]
    kept = Repository.open(shop / "repo").at("main").table("log").to_arrow()["arrived"].to_pylist()
    assert sorted({int(each.timestamp()) for each in kept}) == [1_700_000_000, 1_700_000_001]
    (shop / "shop.toml").write_text(text.replace('"arrived"', '"Name"'))
    with pytest.raises(InvalidInputError, match=r"file_time.*two columns are called 'Name'"):
        _run(spark, shop, "collides", full_refresh=True)


def test_a_row_that_does_not_parse_is_beyond_a_limit_of_none(spark: Any, shop: Path) -> None:
    (shop / "in" / "3.csv").write_text("4,e\nfive,f\n")
    facts = _run(spark, shop, "d3")
    assert facts.ending is Ending.TOO_MANY_BAD_ROWS
    assert facts.quarantine is not None
    ((_, _, file, line, record),) = facts.quarantine.sample
    assert (file, line, record) == (str(shop / "in" / "3.csv"), "2", '{"text": "five,f"}')
    found = Repository.open(shop / "repo").at("run/d3").table("quarantine").to_arrow()
    assert found["record"].to_pylist() == ['{"text":"five,f"}']
    assert rows(shop, "log") == [(1, "a"), (2, "b"), (2, "c"), (3, "d")]
