"""Tables with revisions, and random queries over them, in SQL that Spark and DuckDB both take.

Every table is exposed by an alias, and no query depends on an order of rows or on rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa

import lancewood as lw

PHOTOS = ("photos", "photos@exp", "photos@v1.0", "photos@:1", "photos@exp:1", "photos@exp:")
LABELS = ("labels", "labels@old", "labels@:2")
WORDS = ["cat", "dog", "Dog", "it's", "50%", "é", "日本", "", "a_b", "cat x"]
_FLOATS = [0.0, -0.0, 0.1, 0.5, 1.5, -2.0, 1e300, float("inf"), float("-inf"), float("nan")]
_JOINS = [f"{each} JOIN" for each in ("LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "INNER")]
_DAY = date(2024, 2, 28)
_MOMENT = datetime(2024, 2, 28, 23, 59, 59, 500_000)


def photos(rng: Random, first: int, size: int) -> pa.Table:
    """Rows of every type that a condition can be about, and of some that it cannot."""

    def some(values: list[object]) -> list[object]:
        return [None if rng.random() < 0.2 else rng.choice(values) for _ in range(size)]

    days = [_DAY + timedelta(days=each) for each in range(4)]
    moments = [_MOMENT + timedelta(milliseconds=500 * each) for each in range(4)]
    return pa.table(
        {
            "id": pa.array(range(first, first + size), pa.int64()),
            "k": pa.array(some(list(range(6))), pa.int64()),
            "label": pa.array(some(list(WORDS)), pa.string()),
            "score": pa.array(some(list(_FLOATS)), pa.float64()),
            "f": pa.array(some([0.0, -0.0, 0.1, 0.5, float("nan")]), pa.float32()),
            "price": pa.array(
                some([Decimal(e) / 100 for e in (0, 50, 150, -5)]), pa.decimal128(10, 2)
            ),
            "taken": pa.array(some(list(days)), pa.date32()),
            "moment": pa.array(
                [None if e is None else e.replace(tzinfo=UTC) for e in some(list(moments))],  # type: ignore[attr-defined]
                pa.timestamp("us", "UTC"),
            ),
            "clock": pa.array(some(list(moments)), pa.timestamp("us")),
            "ok": pa.array(some([True, False]), pa.bool_()),
            "small": pa.array(some([0, 1, 2, 250]), pa.uint8()),
            "raw": pa.array(some([b"", b"\x00", b"\xff\x01"]), pa.binary()),
            "tags": pa.array(some([[], ["a"], ["a", None]]), pa.list_(pa.string())),
            "box": pa.array(
                some([{"x": 1, "y": "a"}, {"x": None, "y": "b"}]),
                pa.struct([("x", pa.int32()), ("y", pa.string())]),
            ),
        }
    )


def labels(rng: Random, size: int) -> pa.Table:
    """Rows that photos are joined with."""
    return pa.table(
        {
            "label": pa.array([rng.choice([*WORDS, None]) for _ in range(size)], pa.string()),
            "n": pa.array([rng.choice([None, 0, 1, 2, 3]) for _ in range(size)], pa.int32()),
            "k": pa.array([rng.choice([None, *range(6)]) for _ in range(size)], pa.int64()),
        }
    )


def make_tables(where: Path, seed: int = 0) -> dict[str, str]:
    """``photos`` and ``labels`` with tags, a branch, deleted rows and a column that came later."""
    rng = Random(seed)
    uris = {each: str(where / f"{each}.lance") for each in ("photos", "labels")}
    first = lw.create(
        uris["photos"],
        photos(rng, 0, 40),
        layout=lw.Layout(max_rows_per_file=15),
        access=lw.Access(fsync=False),
    )
    first.tags.create("v1.0")
    branch = first.branches.create("exp").append(photos(rng, 100, 12))
    branch.delete("k = 3")
    first.delete("id % 7 = 2").append(photos(rng, 50, 9)).add_columns({"extra": "id % 5"})
    old = lw.create(uris["labels"], labels(rng, 12), access=lw.Access(fsync=False))
    old.tags.create("old")
    old.append(labels(rng, 3)).delete("n = 0")
    return uris


@dataclass(frozen=True)
class Named:
    """A table in a query, by its alias."""

    alias: str
    is_photos: bool


class Queries:
    """Random queries. DuckDB rounds a constant to the float that it meets, Spark does not: for
    ``spark`` alone there are constants of which that can be seen."""

    def __init__(self, seed: int, *, spark: bool) -> None:
        self._rng = Random(seed)
        self._floats = ["0.1", "0.5", "0", "-1"] if spark else ["0.5", "0", "-1"]
        self._is_alone = False

    def draw(self) -> str:
        """One query; not all of them are right."""
        rng = self._rng
        if rng.random() < 0.15:
            both = [self._select(grouped=False, width=2) for _ in range(2)]
            return " UNION ALL ".join(both)
        if rng.random() < 0.2:
            inner = self._select(grouped=False, width=2)
            where = rng.choice(["c1 IS NOT NULL", "c0 IS NULL OR c1 = 'cat'"])
            return f"WITH w AS ({inner}) SELECT count(*) AS n, min(c0) AS a FROM w WHERE {where}"
        if rng.random() < 0.15:
            inner = self._select(grouped=False, width=2)
            tables, source = self._source(("z",))
            return (
                f"SELECT count(*) AS n, max(s.c0) AS m FROM ({inner}) AS s "
                f"{rng.choice(['JOIN', 'LEFT JOIN'])} {source} "
                f"ON {self._equal('s.c0', tables[0])} WHERE {self._condition(tables)}"
            )
        return self._select(grouped=rng.random() < 0.5, width=rng.randint(1, 3))

    def _select(self, *, grouped: bool, width: int) -> str:
        rng = self._rng
        visible, source = self._source(("a", "b", "c")[: rng.choice([1, 1, 2, 2, 3])])
        if rng.random() < 0.85:
            source += f" WHERE {self._where(visible)}"
        if grouped:
            if rng.random() < 0.4:
                return f"SELECT count(*) AS n FROM {source}"
            key = self._column(visible, "label k")
            value = self._column(visible, "id k n small taken")
            facts = f"{key} AS c0, count({value}) AS n, max({value}) AS m"
            return f"SELECT {facts} FROM {source} GROUP BY {key}"
        if width == 1 and rng.random() < 0.3:
            return f"SELECT {rng.choice(['*', f'{visible[0].alias}.*'])} FROM {source}"
        columns = [self._column(visible, "k id n")]
        columns += [self._column(visible, "label k id taken ok") for _ in range(width - 1)]
        if width == 2:
            columns[1] = self._column(visible, "label")
        named = ", ".join(f"{each} AS c{at}" for at, each in enumerate(columns))
        return f"SELECT {rng.choice(['', '', 'DISTINCT '])}{named} FROM {source}"

    def _source(self, aliases: tuple[str, ...]) -> tuple[list[Named], str]:
        """The tables that conditions after it may speak of, and the text."""
        rng = self._rng
        self._is_alone = False
        tables = [Named(each, rng.random() < 0.6) for each in aliases]
        text, visible = self._named(tables[0]), tables[:1]
        for each in tables[1:]:
            kind = rng.choice(_JOINS)
            text += f" {kind} {self._named(each)}"
            if kind != "CROSS JOIN":
                on = self._equal(f"{rng.choice(visible).alias}.k", each)
                if rng.random() < 0.5 and kind != "FULL JOIN":
                    on += f" AND {self._condition([rng.choice([*visible, each])])}"
                text += f" ON {on}"
            if kind not in ("SEMI JOIN", "ANTI JOIN"):
                visible = [*visible, each]
        self._is_alone = len(tables) == 1
        return visible, text

    def _named(self, table: Named) -> str:
        return f"{self._rng.choice(PHOTOS if table.is_photos else LABELS)} {table.alias}"

    def _equal(self, left: str, table: Named) -> str:
        return f"{left} = {table.alias}.k"

    def _where(self, tables: list[Named]) -> str:
        rng = self._rng
        parts = [self._condition(tables) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.25:
            parts.append(self._subquery(tables))
        return f" {rng.choice(['AND', 'AND', 'OR'])} ".join(parts)

    def _subquery(self, tables: list[Named]) -> str:
        rng = self._rng
        outer = self._column(tables, "k")
        inner = Named("q", rng.random() < 0.5)
        where = self._condition([inner])
        source = self._named(inner)
        return rng.choice(
            [
                f"{outer} IN (SELECT q.k FROM {source} WHERE {where})",
                f"{outer} NOT IN (SELECT q.k FROM {source} WHERE {where} AND q.k IS NOT NULL)",
                f"{outer} NOT IN (SELECT q.k FROM {source} WHERE {where})",
                f"EXISTS (SELECT 1 FROM {source} WHERE q.k = {outer} AND {where})",
                f"NOT EXISTS (SELECT * FROM {source} WHERE q.k = {outer} AND {where})",
                f"{outer} < (SELECT count(*) FROM {source} WHERE {where})",
                f"{outer} < (SELECT count(*) FROM {source})",
            ]
        )

    def _condition(self, tables: list[Named], depth: int = 0) -> str:
        rng = self._rng
        if depth < 2 and rng.random() < 0.35:
            parts = [self._condition(tables, depth + 1) for _ in range(2)]
            word = rng.choice(["AND", "OR"])
            return f"({parts[0]} {word} {parts[1]})"
        if rng.random() < 0.15:
            return f"NOT ({self._condition(tables, depth + 1)})"
        return self._atom(rng.choice(tables))

    def _atom(self, table: Named) -> str:
        rng = self._rng
        kinds = ["number", "text", "null"]
        if table.is_photos:
            kinds += ["float", "price", "day", "moment", "clock", "flag", "other", "float32"]
        kind = rng.choice(kinds)
        numbers = ["k", "id", "small"] if table.is_photos else ["k", "n"]
        operator = rng.choice(["=", "<>", "<", "<=", ">", ">="])
        if kind == "number":
            return self._number(self._of(table, rng.choice(numbers)), operator)
        if kind == "text":
            return self._text(self._of(table, "label"), operator)
        if kind == "null":
            names = [*numbers, "label", *(["score", "tags", "ok", "taken"] * table.is_photos)]
            return f"{self._of(table, rng.choice(names))} IS {rng.choice(['', 'NOT '])}NULL"
        if kind == "flag":
            name = self._of(table, "ok")
            return rng.choice([name, f"NOT {name}", f"{name} = TRUE", f"{name} IS NOT TRUE"])
        if kind == "other":
            return rng.choice(
                [
                    f"{self._of(table, 'id')} = {self._of(table, 'k')}",
                    f"{self._of(table, 'id')} + 1 > 30",
                    f"upper({self._of(table, 'label')}) = 'DOG'",
                    f"coalesce({self._of(table, 'k')}, 3) = 3",
                ]
            )
        name, values = {
            "float": ("score", ["0.1", "0", "-0.5", "1.5", "-2"]),
            "float32": ("f", self._floats),
            "price": ("price", ["0.5", "1", "-0.05", "1.505"]),
            "day": ("taken", ["DATE '2024-02-29'", "DATE '2024-03-01'"]),
            "moment": ("moment", ["TIMESTAMP '2024-02-29 00:00:00'"]),
            "clock": ("clock", ["TIMESTAMP '2024-02-29 00:00:00'"]),
        }[kind]
        column = self._of(table, name)
        if kind == "day" and rng.random() < 0.3:
            return f"{column} IN ({', '.join(values)})"
        if rng.random() < 0.2:
            return f"{column} BETWEEN {values[-1]} AND {values[0]}"
        return f"{column} {operator} {rng.choice(values)}"

    def _number(self, column: str, operator: str) -> str:
        rng = self._rng
        value = rng.choice(["0", "1", "3", "-1", "20", "250", "1000"])
        return rng.choice(
            [
                f"{column} {operator} {value}",
                f"{value} {operator} {column}",
                f"{column} {operator} 2.5",
                f"{column} BETWEEN 1 AND {value}",
                f"{column} {rng.choice(['', 'NOT '])}IN (1, {value}, 5)",
                f"{column} NOT IN (1, NULL)",
            ]
        )

    def _text(self, column: str, operator: str) -> str:
        rng = self._rng
        word = rng.choice(["cat", "dog", "50%", "é", "日本", "", "b"])
        return rng.choice(
            [
                f"{column} {operator} '{word}'",
                f"{column} {rng.choice(['', 'NOT '])}IN ('{word}', 'dog')",
                f"{column} LIKE '{rng.choice(['c', 'cat', 'é'])}%'",
                f"{column} LIKE '%o%'",
                f"{column} NOT LIKE '{rng.choice(['c', 'cat', 'é'])}%'",
                f"{column} NOT ILIKE '%O'",
                f"{column} = 'it''s'",
            ]
        )

    def _column(self, tables: list[Named], names: str) -> str:
        rng = self._rng
        table = rng.choice(tables)
        own = (
            {"k", "label", "id", "taken", "ok", "small"} if table.is_photos else {"k", "label", "n"}
        )
        return f"{table.alias}.{rng.choice([e for e in names.split() if e in own] or ['k'])}"

    def _of(self, table: Named, name: str) -> str:
        """Now and then without the alias."""
        bare = self._rng.random() < (0.3 if self._is_alone else 0.01)
        return name if bare else f"{table.alias}.{name}"
