"""Target: every verb of a table with arguments that nobody should give."""

from __future__ import annotations

import datetime
import decimal
import shutil
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.fuzz.bend import EDGES
from tests.fuzz.target import Context, Target, Trial, expect

import lancewood
from lancewood.errors import LancewoodError
from lancewood.expr import parse_expression
from lancewood.table.table import Table


def targets(context: Context) -> Iterator[Target]:
    arguments = Arguments(context)
    yield Target("arguments", lambda rng: rng.randbytes(8), arguments.check)


_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    3,
    10**30,
    0.5,
    float("nan"),
    float("inf"),
    "",
    "id",
    "s",
    "ID",
    "nope",
    "\ud800",
    "\0",
    "../x",
    "x" * 5000,
    b"id",
    b"\xff",
    (),
    [],
    {},
    set(),
    object(),
    [0],
    [[0]],
    [None],
    ["id", "id"],
    ["id", 3],
    [0, -1],
    [1 << 63],
    [1 << 64],
    ["_rowid", "_rowaddr"],
    {"a": 1},
    {1: "a"},
    {"lance.x": "y"},
    {"k": None},
    {"k": "\ud800"},
    np.int64(2),
    np.uint64(1 << 63),
    np.float64(1.5),
    np.array([0, 1]),
    np.array([[0, 1]]),
    np.array(["a"]),
    np.array([], np.float64),
    pa.array([0, 1]),
    pa.array([None, 1], pa.int64()),
    pa.chunked_array([[0], [1]]),
    pa.array(["a"]),
    pa.table({"id": [1]}),
    pa.table({"id": ["x"]}),
    pa.table({"id": [None]}),
    pa.schema([("id", pa.int64())]),
    datetime.datetime(2020, 1, 1),
    datetime.datetime.min,
    datetime.datetime.max,
    datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-23))),
    datetime.date(2020, 1, 1),
    "id > 0",
    "id >",
    "2.1",
    "9.9",
    decimal.Decimal("NaN"),
    decimal.Decimal(10) ** 100,
    decimal.Decimal("1e-90"),
    datetime.time(1, 2, 3),
    datetime.timedelta.max,
    "x%_",
    range(2),
    range(1 << 70),
    *EDGES,
)


_WITH_PARAMETERS = (
    "id = $p",
    "s = $p",
    "id IN $p",
    "$p",
    "f + $p",
    "s LIKE $p",
    "abs($p)",
    "f < $p",
)


class Arguments:
    """Verbs with arguments that nobody should give; the case is only a seed."""

    def __init__(self, context: Context) -> None:
        self._root = context.scratch / "arguments"
        self._table: Table | None = None

    def check(self, data: bytes, trial: Trial) -> None:
        rng = Random(data)
        table = self._opened()
        uri = str(self._root)
        verb, call = rng.choice(self._verbs(table, uri, rng))
        before = table.version
        try:
            call()
        except LancewoodError:
            expect(lancewood.open(uri).version == before, f"a refused {verb} left a version behind")
            raise
        finally:
            self._table = table.latest()

    def _opened(self) -> Table:
        if self._table is None or self._table.version > 40:
            shutil.rmtree(self._root, ignore_errors=True)
            rows = pa.table({"id": [1, 2, 3], "s": ["a", None, "c"]})
            self._table = lancewood.create(self._root, rows, access=lancewood.Access(fsync=False))
        return self._table

    def _verbs(self, table: Table, uri: str, rng: Random) -> list[tuple[str, Callable[[], Any]]]:
        def some() -> Any:
            return rng.choice(_VALUES)

        def maybe() -> Any:
            return some() if rng.random() < 0.4 else None

        properties, rows, size = maybe(), some(), rng.choice((some(), 1 << 20))
        message = maybe()

        def facts() -> Any:
            return {"message": message, "commit": lancewood.CommitOptions(properties=properties)}

        def sizes() -> Any:
            return {"layout": lancewood.Layout(max_rows_per_file=rows, max_bytes_per_file=size)}

        return [
            (
                "scan",
                lambda: _drain(table.scan(maybe(), maybe(), limit=maybe(), batch_rows=maybe())),
            ),
            (
                "scan",
                lambda: _drain(table.scan(offset=some(), fragment_ids=maybe(), limit=maybe())),
            ),
            ("scan", lambda: _drain(table.scan(some(), with_row_id=True, with_row_address=True))),
            ("take", lambda: table.take(some(), maybe())),
            ("take", lambda: table.take(row_ids=some(), columns=maybe())),
            ("head", lambda: table.head(some(), maybe())),
            ("count", lambda: table.count_rows(some())),
            ("versions", lambda: list(table.versions(some()))),
            ("checkout", lambda: table.checkout(version=maybe(), as_of=maybe())),
            ("open", lambda: lancewood.open(uri, version=maybe(), as_of=maybe())),
            ("open", lambda: lancewood.open(some())),
            ("exists", lambda: lancewood.exists(some())),
            ("restore", lambda: table.restore(some(), **facts())),
            ("append", lambda: table.append(some(), **facts(), **sizes())),
            (
                "overwrite",
                lambda: table.overwrite(
                    some(), schema=maybe(), layout=lancewood.Layout(file_version=maybe())
                ),
            ),
            ("set_config", lambda: table.set_config(some(), replace=False, **facts())),
            ("set_metadata", lambda: table.set_metadata(some(), **facts())),
            ("write_fragments", lambda: table.write_fragments(some(), **sizes())),
            ("commit", lambda: table.commit(some())),
            ("parameters", lambda: _evaluate(rng.choice(_WITH_PARAMETERS), {"p": some()})),
            ("parameters", lambda: _evaluate("id = ? AND s < $2", [some(), some()])),
            ("parameters", lambda: _evaluate("id = $p", some())),
            (
                "create",
                lambda: lancewood.create(
                    uri, some(), schema=maybe(), layout=lancewood.Layout(file_version=maybe())
                ),
            ),
        ]


def _evaluate(sql: str, parameters: Any) -> None:
    rows = pa.record_batch({"id": [1, None, 3], "s": ["a", None, ""], "f": [0.5, None, 1.0]})
    values = parse_expression(sql, rows.schema, parameters).evaluate(rows)
    expect(len(values) == 3, "another number of values than rows")


def _drain(scan: Any) -> int:
    return sum(each.num_rows for each in scan.to_batches())
