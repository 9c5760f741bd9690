"""The examples that people copy, on a real Spark; pylance reads what they publish."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow.parquet as pq
import pytest
from tests.spark.needs import needs
from tests.spark.pipeline.example_scene import copied, module

from lancewood.pipeline import Ending, run
from lancewood.repo.repository import Repository
from lancewood.spark.abilities import ARROW_FUNCTIONS

pytestmark = pytest.mark.spark


def rows(table: Path) -> dict[int, dict[str, Any]]:
    """The rows of a table by their ids, none of which is there twice."""
    dataset = lance.dataset(str(table))
    dataset.validate()
    found = dataset.to_table().to_pylist()
    by_id = {each["id"]: each for each in found}
    assert len(by_id) == len(found)
    return by_id


def applied(files: list[Path]) -> dict[int, dict[str, Any]]:
    """What changes lead to, applied one by one in the order in which they happened."""
    changes = [each for file in files for each in pq.read_table(file).to_pylist()]
    state: dict[int, dict[str, Any]] = {}
    for each in sorted(changes, key=lambda change: change["sequence"]):
        if each["id"] is None:
            continue
        if each.pop("operation", "insert") == "delete":
            state.pop(each["id"], None)
        else:
            state[each["id"]] = each
    return state


@pytest.mark.campaign
def test_changes_that_come_twice_late_and_out_of_order_leave_the_table_right(
    spark: Any, tmp_path: Path
) -> None:
    location = copied("cdc", tmp_path)
    drops, made = location / "drops", module(location / "make_drops.py")
    made.make_snapshot(drops)
    assert run(location / "snapshot.toml", spark=spark).ending is Ending.PUBLISHED
    customers = location / "shop" / "tables" / "customers.lance"
    assert len(rows(customers)) == 200

    for day in (1, 2):
        made.make_changes(drops, day)
        facts = run(location / "changes.toml", spark=spark, run_id=f"day-{day}")
        assert facts.ending is Ending.PUBLISHED, facts.checks
        assert rows(customers) == applied(sorted(drops.rglob("*.parquet")))
        assert facts.quarantine is not None
        assert facts.quarantine.rows == (1 if day == 1 else 0)
    late = [each for each in made.changes_of(1)[: made.LATE] if each["operation"] != "delete"]
    positions = rows(location / "shop" / "tables" / "customer_positions.lance")
    too_late = [each for each in late if positions[each["id"]]["sequence"] > each["sequence"]]
    assert too_late, "some of what came late has to be too late, or nothing is shown"

    assert run(location / "changes.toml", spark=spark).ending is Ending.NOTHING_NEW
    log = [each.message.splitlines()[0] for each in Repository.open(location / "shop").log("main")]
    assert len(log) == 3
    assert "day-2" in log[0]


@needs(ARROW_FUNCTIONS)
def test_embeddings_are_computed_once_for_each_text_and_can_be_searched(
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    location = copied("embeddings", tmp_path)
    texts, made = location / "texts", module(location / "make_texts.py")
    made.main(texts, 1, 60)
    first = run(location / "embeddings.toml", spark=spark)
    assert first.ending is Ending.PUBLISHED, first.checks
    made.main(texts, 61, 20)
    (texts / "bad.jsonl").write_text('{"id": 81, "topic": "chess", "text": "  "}\n{"id": \n')
    second = run(location / "embeddings.toml", spark=spark)
    assert second.ending is Ending.PUBLISHED, second.checks
    assert second.quarantine is not None
    assert second.quarantine.rows == 2

    table = location / "library" / "tables" / "texts.lance"
    found = rows(table)
    assert sorted(found) == list(range(1, 81))
    embedding = module(location / "embedding.py")
    for each in found.values():
        assert each["embedding"] == pytest.approx(embedding.embedded(each["text"]).tolist())
    dataset = lance.dataset(str(table))
    assert str(dataset.schema.field("embedding").type).startswith("fixed_size_list<")
    query = embedding.embedded("a telescope, a planet and the moon")
    nearest = dataset.to_table(["topic"], nearest={"column": "embedding", "q": query, "k": 5})
    assert set(nearest["topic"].to_pylist()) == {"astronomy"}
    # The column was added where rows had none: those of the first run were not computed again.
    assert (first.targets[1].updated, second.targets[1].updated) == (60, 20)

    assert [each.indices_created for each in first.targets] == [("words",), ("nearest",)]
    assert [each.indices_extended for each in second.targets] == [("words",), ("nearest",)]
    words = dataset.to_table(["text"], full_text_query="telescope", fast_search=True)
    having = [each["text"] for each in found.values() if "telescope" in each["text"].split()]
    assert having
    assert sorted(words["text"].to_pylist()) == sorted(having)
    (snippet,) = re.findall(r"```py\n(.*?)```", (location / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(location)
    monkeypatch.setitem(sys.modules, "embedding", embedding)
    capsys.readouterr()
    exec(snippet, {})
    assert capsys.readouterr().out.count("'topic': 'astronomy'") == 3
