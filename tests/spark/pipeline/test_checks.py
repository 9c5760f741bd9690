"""Checks on a real Spark: each kind finds exactly the rows that break it, and refuses early what it
could not judge."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.pipeline.checks_scene import HEAD, Scene

import lancewood as lw
from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.pipeline.checks.running import has_failed, run_checks
from lancewood.pipeline.checks.tables import CheckedTable, identifying_columns
from lancewood.pipeline.definition.model import Check
from lancewood.pipeline.report.facts import CheckFacts

pytest.importorskip("pyspark", reason="pyspark is not installed")

pytestmark = pytest.mark.spark

KINDS = ["cat", "dog", "eel"]
ANIMALS = pa.schema(
    {
        "id": pa.int64(),
        "kind": pa.string(),
        "home": pa.int32(),
        "image": pa.binary(),
        "legs": pa.list_(pa.float32(), 2),
    }
)
HOMES = pa.table({"id": pa.array(range(1, 6), pa.int64()), "town": list("abcde")})
ALL_KINDS = """
[[checks]]
name = "not null"
table = "animals"
not_null = ["kind", "legs"]
[[checks]]
name = "unique"
table = "animals"
unique = ["id"]
[[checks]]
name = "accepted"
table = "animals"
column = "kind"
accepted = ["cat", "dog"]
[[checks]]
name = "references"
table = "animals"
columns = ["home"]
references = { table = "homes", columns = ["id"] }
[[checks]]
name = "sql"
warn = true
sql = "SELECT a.* FROM animals a ANTI JOIN published.animals b ON a.id = b.id"
[[checks]]
name = "rows"
table = "animals"
rows = { min = 1, most_change = 0.5 }
[[checks]]
name = "schema"
table = "animals"
schema = "widened"
"""


def animals(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=ANIMALS)


def kept(facts: CheckFacts) -> list[dict[str, Any]]:
    assert facts.kept_at is not None
    found: list[dict[str, Any]] = lw.open(facts.kept_at).scan().to_arrow().to_pylist()
    return found


def in_any_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def random_animals(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Rows of which many break something."""

    def faulty(good: Any, *bad: Any) -> Any:
        return chance.choice(bad) if chance.random() < 0.2 else good

    return [
        {
            "id": faulty(number, None, number - 1, 0),
            "kind": faulty(chance.choice(KINDS[:2]), None, "eel"),
            "home": faulty(chance.randint(1, 5), None, 9),
            "image": chance.randbytes(30),
            "legs": faulty([0.5, 1.0], None),
        }
        for number in range(count)
    ]


def test_each_kind_finds_exactly_the_planted_rows(spark: Any, tmp_path: Path) -> None:
    chance = random.Random(20260)
    before, now = random_animals(chance, 60), random_animals(chance, 80)
    small = ("id", "kind", "home")
    told = [{name: row[name] for name in small} for row in now]
    scene = Scene(
        spark,
        tmp_path,
        {"animals": animals(*before), "homes": HOMES},
        {"animals": animals(*now)},
        HEAD.replace("kept_rows = 5", "kept_rows = 1000"),
    )
    views = spark.sql("SHOW VIEWS").collect()
    found = {each.name: each for each in scene.run(ALL_KINDS)}
    assert [each.kind for each in found.values()] == list(found), "in the order of the file"

    # A checked column is told, whatever its size.
    nulls = [
        {**one, "legs": row["legs"]}
        for one, row in zip(told, now, strict=True)
        if row["kind"] is None or row["legs"] is None
    ]
    keys = Counter(row["id"] for row in now if row["id"] is not None)
    doubled = [{"id": key, "rows": rows} for key, rows in keys.items() if rows > 1]
    strange = [row for row in told if row["kind"] not in (None, "cat", "dog")]
    homeless = [{"id": row["id"], "home": 9} for row in now if row["home"] == 9]
    known = {row["id"] for row in before} - {None}
    new = [row for row in told if row["id"] not in known]
    assert all((nulls, doubled, strange, homeless, new)), "something of each was planted"

    assert in_any_order(kept(found["not null"])) == in_any_order(nulls)
    assert in_any_order(kept(found["unique"])) == in_any_order(doubled)
    assert in_any_order(kept(found["accepted"])) == in_any_order(strange)
    assert in_any_order(kept(found["references"])) == in_any_order(homeless)
    assert in_any_order(kept(found["sql"])) == in_any_order(new)
    counts = {name: each.failing_rows for name, each in found.items()}
    assert counts == {
        "not null": len(nulls),
        "unique": sum(row["rows"] for row in doubled),
        "accepted": len(strange),
        "references": len(homeless),
        "sql": len(new),
        "rows": 0,
        "schema": 0,
    }
    assert found["not null"].found == f"{len(nulls)} of 80 rows"
    assert found["rows"].found == "80 rows, 33.3 % more than before"
    passed = {name for name, each in found.items() if each.is_passed}
    assert passed == {"rows", "schema"}
    assert [name for name, each in found.items() if each.is_warning] == ["sql"]
    assert spark.sql("SHOW VIEWS").collect() == views, "its own are gone"


@pytest.fixture(scope="module")
def scene(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Seven animals where there was one, and a table that is new."""
    rows: list[dict[str, Any]] = [
        {"id": at, "kind": "cat", "home": 1, "image": b"x" * 100_000, "legs": None}
        for at in range(7)
    ]
    return Scene(
        spark,
        tmp_path_factory.mktemp("zoo"),
        {"animals": animals(rows[0]), "homes": HOMES},
        {"animals": animals(*rows), "a-b": HOMES},
    )


def test_failing_rows_are_counted_shown_and_kept_up_to_the_limit(scene: Scene) -> None:
    sql = "SELECT id, image, id AS ID, kind AS `a.b` FROM animals ORDER BY id DESC"
    (found,) = scene.run(f'[[checks]]\nname = "cats: none"\nsql = "{sql}"\n')
    assert (found.is_passed, found.failing_rows, found.found) == (False, 7, "7 rows")
    assert found.columns == ("id", "image", "ID_2", "column_4")
    assert found.sample[0] == ("6", "100,000 bytes", "6", "cat")
    assert len(found.sample) == 7
    assert found.kept_at == str(scene.results / "failures" / "cats_ none.lance")
    rows = kept(found)
    assert [row["id"] for row in rows] == [6, 5, 4, 3, 2]
    assert {len(row["image"]) for row in rows} == {64 * 1024}


def test_rows_of_an_earlier_attempt_go(scene: Scene) -> None:
    (passed,) = scene.run('[[checks]]\nsql = "SELECT * FROM animals WHERE id < 0"\n')
    assert (passed.is_passed, passed.kept_at, passed.sample) == (True, None, ())
    assert not (scene.results / "failures").exists()


def test_table_that_was_not_there_before_has_no_published_rows(scene: Scene) -> None:
    checks = """
[[checks]]
sql = "SELECT b.id FROM published.`a-b` b"
[[checks]]
sql = '''
SELECT n.id FROM `A-B` n LEFT JOIN published.`a-b` ON n.id = `a-b`.id
WHERE published.`a-b`.id IS NULL AND n.id < (SELECT count(*) FROM published.homes) - 2
'''
[[checks]]
table = "a-b"
rows = { most_change = 0.1 }
[[checks]]
table = "a-b"
schema = "unchanged"
[[checks]]
table = "quarantine"
unique = ["run", "origin"]
"""
    found = scene.run(checks)
    assert [each.is_passed for each in found] == [True, False, True, True, True]
    assert sorted(found[1].sample) == [("1",), ("2",)]
    assert "the table is new" in found[2].found
    assert "the table is new" in found[3].found
    assert found[4].found == "0 of 0 rows"


def test_query_calls_functions_of_the_pipeline_and_one_that_raises_names_the_check(
    scene: Scene,
) -> None:
    (scene.folder / "zoo_functions.py").write_text(
        "def half(n):\n    if n == 6:\n        raise ValueError('six is odd')\n    return n // 2\n"
    )
    functions = '[functions.half_of]\npython = "zoo_functions:half"\nreturns = "long"\n'
    checks = functions + '[[checks]]\nname = "halves"\nsql = "{sql}"\n'
    pipeline = scene.pipeline(checks.format(sql="SELECT 1"))
    context = scene.context(pipeline)
    small = scene.pipeline(checks.format(sql="SELECT * FROM animals WHERE half_of(id % 6) > 1"))
    (found,) = run_checks(scene.spark, small, context, scene.results)
    assert found.failing_rows == 2
    large = scene.pipeline(checks.format(sql="SELECT * FROM animals WHERE half_of(id) > 1"))
    with pytest.raises(LancewoodError, match=r"check 'halves' failed on Spark.*six is odd"):
        run_checks(scene.spark, large, context, scene.results)
    assert not scene.spark.catalog.functionExists("half_of")


def test_who_listens_hears_of_each_check(scene: Scene) -> None:
    heard: list[str] = []

    @contextmanager
    def around(check: Check) -> Iterator[None]:
        heard.append(f"begin {check.name}")
        yield
        heard.append(f"end {check.name}")

    checks = "".join(
        f'[[checks]]\nname = "{name}"\nwarn = {warn}\ntable = "animals"\nrows = {{ max = 1 }}\n'
        for name, warn in (("a", "true"), ("b", "false"))
    )
    first, second = scene.run(checks, around=around)
    assert heard == ["begin a", "end a", "begin b", "end b"]
    assert not has_failed([first])
    assert has_failed([first, second])


def test_values_that_spark_may_not_hold_are_not_shown_beside_a_check() -> None:
    schema = pa.schema(
        {
            "id": pa.int64(),
            "at": pa.timestamp("ns"),
            "dates": pa.struct({"a": pa.date64()}),
            "sum": pa.decimal256(60, 2),
            "image": pa.binary(),
            "key": pa.binary(16),
        }
    )
    relation = CheckedTable("animals", schema)
    assert identifying_columns(relation, ["id"]) == ["id", "key"]
    assert identifying_columns(relation, ["image"]) == ["id", "image", "key"]
    assert identifying_columns(relation, ["sum", "at"]) == ["id", "key"]


NEAR = "did you mean '{}'?"


@pytest.mark.parametrize(
    ("check", "key", "words"),
    [
        ('table = "animal"\nrows = { min = 1 }', "table", NEAR.format("animals")),
        ('table = "animal"\nschema = "widened"', "table", NEAR.format("animals")),
        ('table = "animals"\nnot_null = ["id", "kinds"]', "not_null[1]", NEAR.format("kind")),
        ('table = "animals"\nunique = ["idd"]', "unique[0]", NEAR.format("id")),
        ('table = "animals"\ncolumn = "kin"\naccepted = [1]', "column", NEAR.format("kind")),
        (
            'table = "animals"\ncolumn = "id"\naccepted = [1, "x"]',
            "accepted[1]",
            "the text 'x' does not go with column 'id', which is int64",
        ),
        (
            'table = "animals"\ncolumns = ["kind"]\nreferences = { table = "homes", columns = '
            '["id"] }',
            "references.columns[0]",
            "homes.id is bigint, and cannot be compared with animals.kind, which is string",
        ),
        (
            'table = "animals"\ncolumns = ["home"]\nreferences = { table = "home", columns = '
            '["id"] }',
            "references.table",
            NEAR.format("homes"),
        ),
        ('sql = "SELECT * FROM animal"', "sql", NEAR.format("animals")),
        ('sql = "SELECT * FROM published.animal"', "sql", NEAR.format("animals")),
        ('sql = "SELECT idd FROM animals"', "sql", "`idd` cannot be resolved"),
        ('sql = "SELECT published.animals.idd FROM published.animals"', "sql", "idd"),
        ('sql = "SELECT hal(id) FROM animals"', "sql", "hal"),
        ('sql = "SELECT id FROM animals WHERE"', "sql", "WHERE"),
    ],
)
def test_what_cannot_be_judged_is_refused_before(
    scene: Scene, check: str, key: str, words: str
) -> None:
    with pytest.raises(InvalidInputError) as refused:
        scene.plan(f"[[checks]]\n{check}\n")
    told = refused.value.message
    assert told.startswith("zoo.toml line "), told
    assert f": checks[0].{key}: " in told
    assert words in told
    assert "lancewood_" not in told


def test_checks_are_planned_on_the_columns_that_the_run_will_leave(scene: Scene) -> None:
    planned = {
        "animals": pa.schema([*ANIMALS, pa.field("thumb", pa.binary())]),
        "later": pa.schema({"animal": pa.int64(), "says": pa.string()}),
    }
    checks = """
[[checks]]
table = "animals"
not_null = ["thumb"]
[[checks]]
table = "later"
columns = ["animal"]
references = { table = "animals", columns = ["id"] }
[[checks]]
sql = "SELECT a.thumb, b.says FROM animals a JOIN published.later b ON a.id = b.animal"
[[checks]]
table = "later"
column = "says"
accepted = ["moo"]
"""
    scene.plan(checks, planned)
    with pytest.raises(InvalidInputError, match=r"not_null\[0\]: table 'animals' has no column"):
        scene.plan(checks, {"later": planned["later"]})
    with pytest.raises(InvalidInputError, match=r"`b`.`thumb` cannot be resolved"):
        scene.plan('[[checks]]\nsql = "SELECT b.thumb FROM published.animals b"', planned)
