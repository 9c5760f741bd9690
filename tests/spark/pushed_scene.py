"""Tables with all that a filter can get wrong, seen through three doors and by a judge.

The judge reads the rows that pylance finds in a version, as Parquet files, and pushes no filter
into them. Knows tables and views; knows no queries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.needs import HAS_SOURCES

import lancewood as lw
from lancewood.spark import read, sql

PHOTOS = ("photos", "trial", "former", "oldest", "newest", "empty", "part")
"""Relations with the same columns."""
LABELS = "labels"
FAST, FAMILIAR, SQL = "fast", "familiar", "sql"
"""``lancewood.spark.read``, ``format("lance")``, ``lancewood.spark.sql``."""
DOORS = (FAST, FAMILIAR, SQL) if HAS_SOURCES else (FAST, SQL)
"""Those that this Spark has."""
WORDS = (
    *("cat", "dog", "Dog", "it's", '"q"', "50%", "a_b", "a\\b", "é", "e\u0301", "日本", "🦊"),
    *("", "line\nend", "NaN", " cat ", "cat\x00", "ß"),
)
NAN, INFINITY = float("nan"), float("inf")
_FLOATS = (0.0, -0.0, 0.1, 0.5, -2.5, 100.0, NAN, INFINITY, -INFINITY)
_DOUBLES = (*_FLOATS, 1e300, 5e-324, 0.30000000000000004)
_NUMBERS = (0, 1, -1, 7, 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
_DAYS = (
    date(2024, 2, 29),
    date(2024, 3, 10),
    date(1969, 12, 31),
    date(1582, 10, 4),
    date(9999, 1, 1),
)
_CLOCKS = tuple(
    datetime(*each)
    for each in (
        (2024, 3, 10, 1, 59, 59, 999_999),
        (2024, 3, 10, 2, 30),
        (2024, 3, 10, 10, 0),
        (2024, 11, 3, 1, 30),
        (2024, 11, 3, 9, 30),
        (1969, 12, 31, 23, 59, 59, 1),
        (2024, 2, 29),
    )
)
_TOKEN = re.compile(r"#(\w+)#")


def photos(rng: Random, first: int, size: int, *, null_structs: bool = True) -> pa.Table:
    """Rows of every type that a condition can be about, a fifth of the values null."""

    def some(values: Any, nulls: float = 0.2) -> list[Any]:
        return [None if rng.random() < nulls else rng.choice(tuple(values)) for _ in range(size)]

    prices = [Decimal(each).scaleb(-2) for each in (0, 50, 150, -5, 9_999_999_999)]
    box = pa.struct(
        [
            ("x", pa.float64()),
            ("y", pa.string()),
            ("inside", pa.struct([("z", pa.int32()), ("day", pa.date32())])),
        ]
    )
    boxes = [
        {"x": x, "y": y, "inside": inside}
        for x in (NAN, -0.0, 1.5, None)
        for y in ("cat", "it's", None)
        for inside in ({"z": 3, "day": _DAYS[0]}, {"z": None, "day": None}, None)
        if null_structs or inside is not None
    ]
    several = [None, {"a": None, "b": "y"}] if null_structs else [{"a": None, "b": "y"}]
    spots = pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))
    columns = {
        "id": pa.array(range(first, first + size), pa.int64()),
        "k": pa.array(some(range(6)), pa.int32()),
        "tiny": pa.array(some((-128, 0, 3, 127)), pa.int8()),
        "n": pa.array(some(_NUMBERS), pa.int64()),
        "u": pa.array(some((0, 3, 2**31, 2**32 - 1)), pa.uint32()),
        "uu": pa.array(some((0, 3, 2**63, 2**64 - 1)), pa.uint64()),
        "f": pa.array(some(_FLOATS), pa.float32()),
        "d": pa.array(some(_DOUBLES), pa.float64()),
        "price": pa.array(some(prices), pa.decimal128(12, 2)),
        "vast": pa.array(some((Decimal(10**37), Decimal(-1), Decimal(0))), pa.decimal128(38, 0)),
        "day": pa.array(some(_DAYS), pa.date32()),
        "moment": pa.array(
            [None if each is None else each.replace(tzinfo=UTC) for each in some(_CLOCKS)],
            pa.timestamp("us", "UTC"),
        ),
        "second": pa.array(
            [None if e is None else e.replace(microsecond=0, tzinfo=UTC) for e in some(_CLOCKS)],
            pa.timestamp("s", "America/New_York"),
        ),
        "clock": pa.array(some(_CLOCKS), pa.timestamp("us")),
        "label": pa.array(some(WORDS), pa.string()),
        "word": pa.array(some(WORDS[:4]), pa.string()).dictionary_encode(),
        "raw": pa.array(some((b"", b"\x00", b"\xff\x01", b"cat")), pa.binary()),
        "ok": pa.array(some((True, False)), pa.bool_()),
        "box": pa.array(some(boxes, 0.2 * null_structs), box),
        "tags": pa.array(some(([], ["cat"], ["dog", None], [None])), pa.list_(pa.string())),
        "spots": pa.array(some(([], [{"a": 1, "b": "x"}], several)), spots),
        "vector": pa.array(some(([0.5, -0.0, NAN], [1.0, 2.0, 3.0])), pa.list_(pa.float32(), 3)),
        "gone": pa.array(range(size), pa.int32()),
    }
    return pa.table(columns)


def labels(rng: Random, size: int) -> pa.Table:
    """Rows that photos are joined with."""
    return pa.table(
        {
            "label": pa.array([rng.choice([*WORDS, None]) for _ in range(size)], pa.string()),
            "k": pa.array([rng.choice([None, *range(6)]) for _ in range(size)], pa.int64()),
            "d": pa.array([rng.choice([None, *_DOUBLES]) for _ in range(size)], pa.float64()),
            "price": pa.array(
                [rng.choice([None, Decimal("0.5"), Decimal(0)]) for _ in range(size)],
                pa.decimal128(8, 1),
            ),
        }
    )


@dataclass(frozen=True)
class Relation:
    """One version of a table, perhaps not all of it."""

    uri: str
    branch: str | None = None
    version: int | None = None
    where: str | None = None

    @property
    def revision(self) -> dict[str, Any]:
        given = {"branch": self.branch, "version": self.version}
        return {name: value for name, value in given.items() if value is not None}

    def judged(self) -> pa.Table:
        """The rows as pylance reads them, in types that Parquet and Spark share."""
        dataset: Any = lance.dataset(self.uri)
        if self.branch is not None or self.version is not None:
            at = self.version if self.branch is None else (self.branch, self.version)
            dataset = dataset.checkout_version(at)
        return plain(dataset.to_table(filter=self.where))


def plain(rows: pa.Table) -> pa.Table:
    """Without the types that Parquet lacks: the values that Spark has of a table."""
    for at, field in enumerate(rows.schema):
        wanted = _PLAIN.get(field.name)
        if wanted is not None:
            rows = rows.set_column(at, field.name, rows.column(at).cast(wanted))
    return rows


_PLAIN = {
    "uu": pa.decimal128(20, 0),
    "second": pa.timestamp("us", "UTC"),
    "word": pa.string(),
    "vector": pa.list_(pa.float32()),
}


def indexed(table: lw.Table) -> lw.Table:
    """The table with indices that are asked for what is pushed."""
    for name, kind in _INDICES.items():
        table = table.indices.create(name, kind)
    return table


_INDICES = {
    **dict.fromkeys(("id", "n", "uu", "d", "price", "moment", "label", "box.y"), "BTREE"),
    **dict.fromkeys(("k", "tiny", "ok"), "BITMAP"),
    **dict.fromkeys(("f", "day", "clock", "box.inside.z"), "ZONEMAP"),
}


def make_relations(where: Path, seed: int = 0) -> dict[str, Relation]:
    """A table with a long life and indices, its branch and its past; one for each older and newer
    format of data files; an empty one; a part of one; and what they are joined with."""
    rng = Random(seed)
    uri = {each: str(where / f"{each}.lance") for each in ("photos", "oldest", "newest", "empty")}
    first = lw.create(uri["photos"], photos(rng, 0, 90), layout=lw.Layout(max_rows_per_file=30))
    first = indexed(first.drop_columns(["gone"]).add_columns({"extra": "k + 1"}))
    table = first.update({"k": "5", "d": "d"}, "id % 11 = 3").delete("id % 7 = 2")
    former = table.version
    trial = table.branches.create("trial")
    added = photos(rng, 100, 25).drop_columns(["gone"])
    trial.append(added).delete("k = 3").update({"label": "'here'"}, "id % 5 = 1")
    table.append(photos(rng, 200, 30).drop_columns(["gone"])).delete("id % 13 = 5")
    for name, version, size in (("oldest", "2.0", 40), ("newest", "2.2", 60)):
        made = lw.create(
            uri[name],
            photos(rng, 0, size, null_structs=version != "2.0"),
            layout=lw.Layout(
                file_version=version, max_rows_per_file=25, stable_row_ids=version == "2.2"
            ),
        )
        made = made.drop_columns(["gone"]).add_columns({"extra": "k + 1"})
    indexed(made).delete("id BETWEEN 10 AND 30")
    lw.create(uri["empty"], first.schema)
    uri[LABELS] = str(where / "labels.lance")
    lw.create(uri[LABELS], labels(rng, 20), layout=lw.Layout(max_rows_per_file=8)).delete("k = 0")
    return {
        "photos": Relation(uri["photos"]),
        "trial": Relation(uri["photos"], branch="trial"),
        "former": Relation(uri["photos"], version=former),
        "oldest": Relation(uri["oldest"]),
        "newest": Relation(uri["newest"]),
        "empty": Relation(uri["empty"]),
        "part": Relation(uri["photos"], where="id % 3 <> 1"),
        LABELS: Relation(uri[LABELS]),
    }


class Judge:
    """Every relation as Parquet files, in which nothing is looked for."""

    def __init__(self, spark: Any, relations: Mapping[str, Relation], where: Path) -> None:
        self._spark = spark
        for name, each in relations.items():
            parquet = where / f"{name}.parquet"
            pq.write_table(each.judged(), parquet, row_group_size=32)
            spark.read.parquet(str(parquet)).createOrReplaceTempView(f"judge_{name}")

    def ask(self, query: str) -> Any:
        return self._spark.sql(_TOKEN.sub(r"judge_\1", query))

    def frame(self, name: str) -> Any:
        return self._spark.table(f"judge_{name}")


class Doors:
    """Every relation through every door.

    Each is one frame for either of two doors, of which all queries are asked. The third makes its
    own for each query; a version and a part are views of the session there.
    """

    def __init__(self, spark: Any, relations: Mapping[str, Relation], way: str) -> None:
        self._spark = spark
        self._way = way
        self._texts = {
            name: each.uri if each.branch is None else f"{each.uri}@{each.branch}"
            for name, each in relations.items()
            if each.where is None and each.version is None
        }
        for name, each in relations.items():
            fast = read(spark, each.uri, where=each.where, **each.revision)
            fast.createOrReplaceTempView(self._view(FAST, name))
            if FAMILIAR in DOORS:
                source = spark.read.format("lance").options(**each.revision)
                source = source if each.where is None else source.option("filter", each.where)
                source.load(each.uri).createOrReplaceTempView(self._view(FAMILIAR, name))

    def ask(self, door: str, query: str) -> Any:
        if door == SQL:
            return sql(self._spark, _TOKEN.sub(self._named, query), tables=self._texts)
        return self._spark.sql(_TOKEN.sub(lambda found: self._view(door, found[1]), query))

    def frame(self, door: str, name: str) -> Any:
        return self._spark.table(self._view(door, name))

    def _view(self, door: str, name: str) -> str:
        return f"{self._way}_{door}_{name}"

    def _named(self, found: re.Match[str]) -> str:
        return found[1] if found[1] in self._texts else self._view(FAST, found[1])
