"""Merges into small tables: every pair of clauses, every kind of condition, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

_FLAT = pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.string())])
_BOX = pa.struct([("x", pa.int32()), ("y", pa.string())])
_BOXED = pa.schema([("id", pa.int64()), ("box", _BOX)])


def _table(*rows: tuple[Any, ...], schema: pa.Schema = _FLAT) -> pa.Table:
    names = schema.names
    return pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in rows], schema)


_ONCE = (
    *((2, 200, "B"), (3, 300, None), (6, None, "F")),
    *((7, 700, "G"), (None, 500, "N"), (8, None, "H")),
)
TABLES = {
    "target": _table(
        *((1, 10, "a"), (2, 20, "b"), (3, None, "c")),
        *((4, 40, None), (None, 50, "n"), (6, 60, "f")),
    ),
    "once": _table(*_ONCE),
    "twice": _table(*_ONCE, (2, 201, "BB")),
    "same": _table(*_ONCE, _ONCE[0]),
    "new": _table(*_ONCE, (7, 701, "GG")),
    "none": _table(),
    "boxes": _table(
        *((1, {"x": 1, "y": "a"}), (2, None), (3, {"x": None, "y": "c"})), schema=_BOXED
    ),
    "others": _table(
        *((1, {"x": 10, "y": "A"}), (2, {"x": 20, "y": None}), (3, None), (4, {"x": 4, "y": "D"})),
        schema=_BOXED,
    ),
}


@dataclass(frozen=True)
class Case:
    """A merge: ``{t}`` and ``{s}`` stand for the tables, which are called t and s in it."""

    merge: str
    source: str = "once"
    target: str = "target"
    rows: tuple[pa.Table, pa.Table] | None = None
    """The target and the source, where they are not of ``TABLES``."""
    differs: str = ""
    """Why we do something else than Spark with Iceberg."""

    @property
    def name(self) -> str:
        return f"{self.source}: {self.merge}"

    @property
    def tables(self) -> tuple[pa.Table, pa.Table]:
        return self.rows or (TABLES[self.target], TABLES[self.source])


def _on(condition: str, *clauses: str, source: str = "once") -> Case:
    given = " ".join(each for each in clauses if each)
    return Case(f"MERGE INTO {{t}} AS t USING {{s}} AS s ON {condition} {given}", source)


_MATCHED = (
    "",
    "WHEN MATCHED THEN UPDATE SET a = s.a",
    "WHEN MATCHED THEN UPDATE SET *",
    "WHEN MATCHED THEN DELETE",
    "WHEN MATCHED AND true THEN DELETE",
    "WHEN MATCHED AND s.a > 250 THEN DELETE",
    "WHEN MATCHED AND s.a > 1000 THEN UPDATE SET b = s.b",
    "WHEN MATCHED AND CAST(NULL AS BOOLEAN) THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b",
    "WHEN MATCHED AND s.a > 250 THEN DELETE "
    "WHEN MATCHED AND t.a < 60 THEN UPDATE SET a = t.a + s.a, b = 'm'",
    "WHEN MATCHED AND s.a > 100 THEN UPDATE SET a = s.a WHEN MATCHED AND s.a > 250 THEN DELETE",
    "WHEN MATCHED AND t.a IS NULL THEN UPDATE SET b = s.b "
    "WHEN MATCHED THEN UPDATE SET a = s.a, b = concat(t.b, s.b)",
    "WHEN MATCHED AND s.a > 250 THEN DELETE WHEN MATCHED THEN DELETE",
)
_NEW = (
    "",
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN NOT MATCHED AND s.id = 7 THEN INSERT (id, b) VALUES (s.id, lower(s.b)) "
    "WHEN NOT MATCHED AND s.a IS NULL THEN INSERT (a, id) VALUES (5, s.id + 1)",
    "WHEN NOT MATCHED AND s.id > 7 THEN INSERT * "
    "WHEN NOT MATCHED THEN INSERT (id, a, b) VALUES (s.id, 1, s.b)",
)
_ORPHANS = (
    "",
    "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET b = 'gone', a = t.a + 1 "
    "WHEN NOT MATCHED BY SOURCE AND t.id IS NULL THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE AND t.a > 40 THEN DELETE "
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 0",
)
_EQUAL = "t.id = s.id"
_CONDITIONS = (
    "t.id <=> s.id",
    "t.id = s.id AND s.a > 250",
    "t.id = s.id AND t.a > 15",
    "t.id = s.id AND t.b = lower(s.b)",
    "t.id = s.id OR t.b = lower(s.b)",
    "t.id + 5 = s.id",
    "t.id < s.id",
    "t.id > 5 AND s.id = 7",
    "t.id = 1",
    "s.id = 7",
    "true",
    "false",
    "CAST(NULL AS BOOLEAN)",
)


def truth_table() -> Iterator[Case]:
    """Every clause with every other, and every condition with some of them."""
    for matched, new, orphan in itertools.product(_MATCHED, _NEW, _ORPHANS):
        places = _MATCHED.index(matched), _NEW.index(new), _ORPHANS.index(orphan)
        if any(places) and sum(places) % 2:
            yield _on(_EQUAL, matched, new, orphan)
    for matched in _MATCHED[1:]:
        for source in ("twice", "same"):
            yield _on(_EQUAL, matched, source=source)
        for source in ("twice", "new", "none"):
            yield _on(_EQUAL, matched, _NEW[1], _ORPHANS[1], source=source)
    for condition in _CONDITIONS:
        yield _on(condition, _MATCHED[1])
        yield _on(condition, _MATCHED[3])
        yield _on(condition, _NEW[1], source="new")
        yield _on(condition, _MATCHED[3], _NEW[3], _ORPHANS[3])


_USING = "MERGE INTO {t} AS t USING {s} AS s ON t.id = s.id "
_STARS = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_SOURCES = {
    "more columns": "(SELECT *, 1 AS more FROM {s})",
    "fewer columns": "(SELECT id, a FROM {s})",
    "another order": "(SELECT b, id, a FROM {s})",
    "other letters": "(SELECT id AS ID, b AS B, a AS A FROM {s})",
    "groups": "(SELECT id, max(a) AS a, 'g' AS b FROM {s} GROUP BY id)",
    "values": "(SELECT * FROM VALUES (CAST(2 AS BIGINT), 9, 'v') AS v(id, a, b))",
    "other types": "(SELECT CAST(id AS INT) AS id, CAST(a AS BIGINT) AS a, b FROM {s})",
}
_CLAUSES = (
    # What names mean.
    "WHEN MATCHED THEN UPDATE SET t.A = s.A",
    "WHEN MATCHED AND a > 5 THEN DELETE",
    "WHEN MATCHED THEN UPDATE SET a = a + 1",
    "WHEN MATCHED THEN UPDATE SET a = t.a + 1, b = CAST(t.a AS STRING)",
    "WHEN NOT MATCHED AND a > 5 THEN INSERT (id, a) VALUES (id, a)",
    "WHEN NOT MATCHED BY SOURCE AND a > 5 THEN UPDATE SET a = a + 1",
    "WHEN NOT MATCHED AND t.id IS NULL THEN INSERT *",
    "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (s.id, t.a)",
    "WHEN NOT MATCHED BY SOURCE AND s.id IS NULL THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = s.a",
    "WHEN MATCHED THEN UPDATE SET nope = 1",
    "WHEN MATCHED THEN UPDATE SET s.a = 1",
    "WHEN MATCHED THEN UPDATE SET a = s.nope",
    "WHEN MATCHED THEN UPDATE SET a = 1, a = 2",
    "WHEN MATCHED THEN UPDATE SET a = 1, t.a = 2",
    "WHEN NOT MATCHED THEN INSERT (id, nope) VALUES (1, 1)",
    "WHEN NOT MATCHED THEN INSERT (id, id) VALUES (1, 2)",
    "WHEN NOT MATCHED THEN INSERT (id, a) VALUES (1)",
    "WHEN NOT MATCHED THEN INSERT (t.id, t.a) VALUES (s.id, 1)",
    # Which clauses go together.
    "",
    "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET a = 1",
    "WHEN MATCHED THEN DELETE WHEN MATCHED AND s.a > 1 THEN UPDATE SET a = 1",
    "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED AND s.a > 1 THEN INSERT *",
    "WHEN NOT MATCHED BY SOURCE THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 1",
    "WHEN NOT MATCHED BY TARGET THEN INSERT *",
    "WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN DELETE",
    "WHEN MATCHED THEN INSERT *",
    "WHEN NOT MATCHED THEN DELETE",
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *",
    # Which values fit.
    "WHEN MATCHED THEN UPDATE SET a = 2147483648",
    "WHEN MATCHED THEN UPDATE SET a = CAST(2 AS BIGINT), b = NULL",
    "WHEN MATCHED THEN UPDATE SET a = s.b",
    "WHEN MATCHED THEN UPDATE SET b = 5",
    "WHEN MATCHED THEN UPDATE SET a = 1.5",
    "WHEN MATCHED THEN UPDATE SET a = 2.0",
    "WHEN MATCHED AND s.a = 200 THEN UPDATE SET id = 9007199254740993 "
    "WHEN MATCHED THEN UPDATE SET id = CAST(1 AS DOUBLE)",
    "WHEN MATCHED AND s.a = 200 THEN UPDATE SET b = s.b WHEN MATCHED THEN UPDATE SET b = 5",
    "WHEN MATCHED AND s.a = 300 THEN UPDATE SET a = 1 "
    "WHEN MATCHED THEN UPDATE SET b = CAST(1 div (s.a - 300) AS STRING)",
    "WHEN MATCHED THEN UPDATE SET b = CAST(1 div (s.a - 300) AS STRING)",
    # What is asked besides.
    "WHEN MATCHED AND s.a > (SELECT min(a) FROM {s}) THEN DELETE",
    "WHEN MATCHED THEN UPDATE SET a = (SELECT max(a) FROM {s})",
    "WHEN MATCHED AND rand() < 2 THEN DELETE",
    "WHEN NOT MATCHED AND rand() < 2 THEN INSERT *",
    "WHEN MATCHED THEN UPDATE SET a = CAST(rand() AS INT)",
    "WHEN MATCHED AND max(s.a) > 1 THEN DELETE",
)
_DIFFERENT = {
    "WHEN NOT MATCHED THEN INSERT * WHEN MATCHED THEN DELETE": "clauses stand in any order",
    "WHEN MATCHED THEN UPDATE SET b = 5": "no number becomes a text unasked",
    "WHEN MATCHED AND s.a = 200 THEN UPDATE SET b = s.b WHEN MATCHED THEN UPDATE SET b = 5": (
        "no number becomes a text unasked"
    ),
    "WHEN MATCHED THEN UPDATE SET a = 1.5": "no number is cut off unasked",
    "WHEN MATCHED AND s.a = 200 THEN UPDATE SET id = 9007199254740993 "
    "WHEN MATCHED THEN UPDATE SET id = CAST(1 AS DOUBLE)": "no number is rounded unasked",
    "WHEN MATCHED AND s.a > (SELECT min(a) FROM {s}) THEN DELETE": "conditions take queries",
    "WHEN MATCHED THEN UPDATE SET a = CAST(rand() AS INT)": "a value is computed once",
}
"""What we do otherwise than Spark with Iceberg, as docs/sql.md says."""
_STRUCTS = (
    "WHEN MATCHED THEN UPDATE SET box.x = s.box.x",
    "WHEN MATCHED THEN UPDATE SET t.box.x = 7, box.y = s.box.y",
    "WHEN MATCHED THEN UPDATE SET box = s.box",
    "WHEN MATCHED THEN UPDATE SET box.x = 1, box = s.box",
    "WHEN MATCHED THEN UPDATE SET box.x = 1, box.x = 2",
    "WHEN MATCHED AND t.id = 1 THEN UPDATE SET box.x = 7 WHEN MATCHED THEN UPDATE SET box = s.box",
    "WHEN NOT MATCHED THEN INSERT (id, box) VALUES (s.id, s.box)",
    "WHEN NOT MATCHED THEN INSERT (id, box.x) VALUES (s.id, 1)",
    _STARS,
)


def single_cases() -> Iterator[Case]:
    """What one of them alone may say."""
    for source in _SOURCES.values():
        for stars in (_STARS, "WHEN MATCHED THEN UPDATE SET a = s.a"):
            yield Case(_USING.replace("{s}", source) + stars)
    for clauses in _CLAUSES:
        yield Case(_USING + clauses, differs=_DIFFERENT.get(clauses, ""))
    for condition in ("id = s.id", "t.id = s.nope", "t.id", "rand() < 2", "max(t.id) = s.id"):
        yield _on(condition, "WHEN MATCHED THEN DELETE")
    queried = _on("t.id = s.id AND t.id IN (SELECT id FROM {s})", "WHEN MATCHED THEN DELETE")
    yield replace(queried, differs="conditions take queries")
    for clauses in _STRUCTS:
        yield Case(_USING + clauses, "others", "boxes")


def random_cases(seed: int) -> Iterator[Case]:
    """Random rows, and clauses by chance; without end."""
    for number in itertools.count():
        random = Random(f"{seed}/{number}")
        tables = _random_rows(random), _random_rows(random)
        clauses = [random.choice(each) for each in (_MATCHED, _NEW, _ORPHANS)]
        if not any(clauses):
            clauses[0] = _MATCHED[1]
        if random.random() < 0.5:
            clauses = [each.replace("250", "4").replace("1000", "9") for each in clauses]
        condition = random.choice((_EQUAL,) * 4 + _CONDITIONS)
        merge = _on(condition, *clauses).merge
        yield Case(merge, f"random {seed}/{number}", "", tables)


def _random_rows(random: Random) -> pa.Table:
    ids: list[int | None] = random.sample([None, *range(10)], random.randrange(6))
    if random.random() < 0.3:
        ids += ids[:1]
    return _table(
        *(
            (each, random.choice([None, 1, 5, 9, 300]), random.choice([None, "x", "Y", "b"]))
            for each in ids
        )
    )


def chosen(seed: int = 0, count: int = 40) -> list[Case]:
    """Those that are recorded; of another seed, random ones alone."""
    some = list(itertools.islice(random_cases(seed), count))
    return some if seed else [*single_cases(), *truth_table(), *some]
