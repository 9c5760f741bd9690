"""Questions to the indices of a table, asked of both implementations, through them and without.

What is right comes from plain values, by key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import eq, lt
from typing import Any

import pyarrow as pa
from tests.histories.drawing import INTEGERS, TAGS, TEXTS, VECTOR
from tests.histories.model import KEY

import lancewood as lw

WORD = "new"
"""What updates write into texts."""
_ALL = 1_000
_NEAR = [1.75, 0.5]

Values = Mapping[int, Any]
"""Those of a column, by key."""


def kinds_for(kind: pa.DataType | None) -> Sequence[str]:
    """The indices that a column of a type can have, of those whose answers are exact."""
    if kind == TAGS:
        return ("LABEL_LIST",)
    if kind == VECTOR:
        return ("IVF_FLAT",)
    if kind in TEXTS:
        return ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER", "INVERTED", "NGRAM")
    return ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER") if kind in INTEGERS else ()


def settings(kind: str) -> dict[str, Any]:
    """How we build an index of a few rows: in small pieces, and exact."""
    if kind == "ZONEMAP":
        return {"options": {"rows_per_zone": 2}}
    return {"partitions": 1, "metric": "l2"} if kind == "IVF_FLAT" else {}


def check_answers(table: lw.Table, dataset: Any, column: str, kind: str, values: Values) -> None:
    """Whatever is asked of a column with an index of a kind, all answer what the values say."""
    if kind == "INVERTED":
        _check_words(table, dataset, column, values)
    if kind == "IVF_FLAT":
        _check_neighbours(table, dataset, column, values)
        return
    for condition, keys in _conditions(column, values):
        answers = {
            "pylance, by the index": dataset.scanner(columns=[KEY], filter=condition).to_table(),
            "pylance, by a scan": dataset.scanner(
                columns=[KEY], filter=condition, use_scalar_index=False
            ).to_table(),
            "ours, by the index": table.scan([KEY], where=condition).to_arrow(),
            "ours, by a scan": table.scan([KEY], where=condition, use_indices=False).to_arrow(),
        }
        for who, found in answers.items():
            got = sorted(found.column(KEY).to_pylist())
            assert got == keys, f"{kind} {column}: {condition!r} is {keys}, not {got} as {who}"
        counted = table.count_rows(condition)
        assert counted == len(keys), f"{kind} {column}: {condition!r} has {len(keys)}: {counted}"


def _check_words(table: lw.Table, dataset: Any, column: str, values: Values) -> None:
    for word in (WORD, "x"):
        keys = sorted(key for key, each in values.items() if each is not None and word in each)
        asked = {"query": word, "columns": [column]}
        theirs = dataset.to_table(columns=[KEY, "_score"], full_text_query=asked)
        got = sorted(theirs.column(KEY).to_pylist())
        assert got == keys, f"INVERTED {column}: {word!r} is in {keys}, not {got} as pylance"
        ours = table.search(text=word, column=column, k=_ALL, columns=[KEY])
        got = sorted(ours.column(KEY).to_pylist())
        assert got == keys, f"INVERTED {column}: {word!r} is in {keys}, not {got} as ours"


def _check_neighbours(table: lw.Table, dataset: Any, column: str, values: Values) -> None:
    """All rows with a vector, each with its distance."""
    right = {
        key: sum((one - other) ** 2 for one, other in zip(each, _NEAR, strict=True))
        for key, each in values.items()
        if each is not None
    }
    nearest = {"column": column, "q": _NEAR, "k": _ALL, "metric": "l2"}
    for use_index in (True, False):
        theirs = dataset.to_table(
            columns=[KEY, "_distance"], nearest={**nearest, "use_index": use_index}
        )
        ours = table.search(
            vector=_NEAR, column=column, k=_ALL, columns=[KEY], metric="l2", use_index=use_index
        )
        for who, found in (("pylance", theirs), ("ours", ours)):
            rows = zip(found.column(KEY).to_pylist(), found["_distance"].to_pylist(), strict=True)
            got = sorted(rows)
            assert got == sorted(right.items()), (
                f"IVF_FLAT {column}: {sorted(right.items())}, not {got} as {who}, {use_index=}"
            )


def _conditions(column: str, values: Values) -> Iterator[tuple[str, list[int]]]:
    """Conditions with the keys of the rows that meet them."""

    def keys(test: Callable[[Any], bool]) -> list[int]:
        return sorted(key for key, each in values.items() if test(each))

    def holding(test: Callable[[Any], bool]) -> list[int]:
        return keys(lambda each: each is not None and test(each))

    yield f"{column} IS NULL", keys(lambda each: each is None)
    present = [each for each in values.values() if each is not None]
    if any(isinstance(each, list) for each in present):
        for label in ("red", "blue"):
            yield f"array_has({column}, '{label}')", holding(partial(_has, label))
        return
    known = sorted({*present})
    for wanted in {*known[:1], *known[len(known) // 2 :][:1], *known[-1:]}:
        text = _literal(wanted)
        yield f"{column} = {text}", holding(partial(eq, wanted))
        yield f"{column} > {text}", holding(partial(lt, wanted))
    if known:
        ends = known[0], known[-1]
        listed = ", ".join(map(_literal, ends))
        yield f"{column} IN ({listed})", holding(lambda v: v in ends)
    if any(isinstance(each, str) for each in present):
        yield f"contains({column}, '{WORD}')", holding(lambda v: WORD in v)


def _has(label: str, value: Any) -> bool:
    return label in value


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
