"""Random schemas and rows, written by one side and read by the other: types and values stay.

``LANCEWOOD_LAW_EXAMPLES`` sets how many tables each law tries; the default is small and always the
same, a larger number tries others.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pylance import lance

import lancewood as lw

_ASKED = os.environ.get("LANCEWOOD_LAW_EXAMPLES")
law = settings(
    max_examples=int(_ASKED or 10),
    derandomize=_ASKED is None,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

VERSIONS = ("2.0", "2.1", "2.2")
_TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
_LONG = st.integers(-(1 << 40), 1 << 40)


def _floats(width: Any) -> st.SearchStrategy[float]:
    return st.floats(width=width, allow_nan=False)


def _decimals(digits: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda each: Decimal(each).scaleb(-2))


LEAVES: tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...] = (
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, (1 << 64) - 1)),
    (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    (pa.float32(), _floats(32)),
    (pa.float64(), _floats(64)),
    (pa.string(), _TEXT),
    (pa.large_string(), _TEXT),
    (pa.binary(), st.binary(max_size=5)),
    (pa.large_binary(), st.binary(max_size=5)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.date32(), st.integers(-100_000, 100_000)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    (pa.timestamp("us", "+05:30"), _LONG),
    (pa.timestamp("ms"), _LONG),
    (pa.duration("ms"), st.integers(-(1 << 30), 1 << 30)),
    (pa.decimal128(10, 2), _decimals(10)),
    (pa.decimal256(50, 2), _decimals(40)),
    (pa.dictionary(pa.int16(), pa.string()), _TEXT),
    (pa.list_(pa.float32(), 2), st.lists(_floats(32), min_size=2, max_size=2)),
    (pa.list_(pa.int16(), 3), st.lists(st.integers(-9, 9), min_size=3, max_size=3)),
)
_VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = dict(LEAVES)
_NAMES = st.sampled_from(["a", "b", "c d", "É", "x", "_y"])


def _types(version: str) -> st.SearchStrategy[pa.DataType]:
    def deeper(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        structs = st.lists(_fields(inner), min_size=1, max_size=3, unique_by=_name).map(pa.struct)
        kinds = [structs, inner.map(pa.list_), inner.map(pa.large_list)]
        if version == "2.2":
            keys = st.sampled_from([pa.string(), pa.int32()])
            kinds.append(st.builds(pa.map_, keys, inner))
        return st.one_of(kinds)

    return st.recursive(st.sampled_from([each for each, _ in LEAVES]), deeper, max_leaves=5)


def _fields(kind: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    return st.builds(
        lambda name, kind, nullable: pa.field(name, kind, nullable or pa.types.is_null(kind)),
        _NAMES,
        kind,
        st.booleans(),
    )


def _name(field: pa.Field) -> str:
    return str(field.name)


def _lists_in(kind: pa.DataType) -> int:
    """How many levels of lists a type has."""
    if pa.types.is_struct(kind):
        return max(_lists_in(each.type) for each in kind)
    if pa.types.is_map(kind):
        return 1 + _lists_in(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return 1 + _lists_in(kind.value_type)
    return 0


@dataclass(frozen=True)
class _Rows:
    """Values that a file version can hold; what it cannot is shown elsewhere."""

    version: str

    def of(self, field: pa.Field, lists_above: int = 0) -> st.SearchStrategy[Any]:
        kind = field.type
        values = self._there(kind, lists_above)
        if not field.nullable or pa.types.is_null(kind):
            return values
        if pa.types.is_struct(kind) and (
            self.version == "2.0" or (lists_above and _lists_in(kind) > 1)
        ):
            return values
        return st.one_of(st.none(), values, values)

    def _there(self, kind: pa.DataType, lists_above: int) -> st.SearchStrategy[Any]:
        leaf = _VALUES.get(kind)
        if leaf is not None:
            return leaf
        if pa.types.is_struct(kind):
            return st.fixed_dictionaries({each.name: self.of(each, lists_above) for each in kind})
        if pa.types.is_map(kind):
            key = _TEXT if kind.key_type == pa.string() else st.integers(-5, 5)
            value = self.of(kind.item_field, lists_above + 1)
            return st.dictionaries(key, value, max_size=2).map(lambda each: list(each.items()))
        return st.lists(self.of(kind.value_field, lists_above + 1), max_size=3)


@dataclass(frozen=True)
class Case:
    """One table to try: its rows in two writes, each in chunks that are slices."""

    version: str
    schema: pa.Schema
    writes: tuple[pa.Table, ...]
    rows_per_file: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    version = draw(st.sampled_from(VERSIONS))
    fields = _fields(_types(version))
    schema = draw(st.lists(fields, min_size=1, max_size=3, unique_by=_name).map(pa.schema))
    writes = []
    for _ in range(2):
        count = draw(st.integers(0, 6))
        columns = []
        for field in schema:
            row = _Rows(version).of(field)
            values = draw(st.lists(row, min_size=count + 1, max_size=count + 1))
            array = pa.array(values, field.type).slice(1)
            cut = draw(st.integers(0, count))
            columns.append(pa.chunked_array([array.slice(0, cut), array.slice(cut)]))
        writes.append(pa.Table.from_arrays(columns, schema=schema))
    return Case(version, schema, tuple(writes), draw(st.integers(1, 4)))


def _seen(table: pa.Table) -> list[str]:
    return [str(row) for row in table.to_pylist()]


def _expected(case: Case) -> list[str]:
    return [row for each in case.writes for row in _seen(each)]


def _check(case: Case, uri: Path) -> None:
    dataset, ours = lance.dataset(uri), lw.open(uri)
    dataset.validate()
    found = ours.to_arrow()
    found.validate(full=True)
    assert ours.schema.equals(dataset.schema, check_metadata=True)
    assert ours.schema.equals(case.schema)
    assert _seen(found) == _expected(case)
    assert _seen(dataset.to_table()) == _expected(case)
    rows = len(found)
    if rows:
        picks = [rows - 1, 0, rows // 2]
        assert _seen(ours.take(picks)) == [_expected(case)[each] for each in picks]


def _copied(table: pa.Table) -> pa.Table:
    """Without offsets: pylance's own writer panics on slices of structs."""
    columns = [pa.concat_arrays(each.chunks) for each in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


@law
@given(cases())
def test_what_we_write_pylance_reads(case: Case) -> None:
    with tempfile.TemporaryDirectory() as directory:
        uri = Path(directory) / "t"
        table = lw.create(
            uri,
            case.writes[0],
            layout=lw.Layout(file_version=case.version, max_rows_per_file=case.rows_per_file),
        )
        table.append(case.writes[1], layout=lw.Layout(max_rows_per_file=case.rows_per_file))
        _check(case, uri)


@law
@given(cases())
def test_what_pylance_writes_we_read(case: Case) -> None:
    with tempfile.TemporaryDirectory() as directory:
        uri = Path(directory) / "t"
        for mode, rows in zip(("create", "append"), case.writes, strict=True):
            lance.write_dataset(
                _copied(rows),
                uri,
                mode=mode,
                data_storage_version=case.version,
                max_rows_per_file=case.rows_per_file,
            )
        _check(case, uri)


@law
@given(cases(), st.booleans())
def test_what_both_write_in_turns_both_read(case: Case, we_begin: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        uri = Path(directory) / "t"
        first, second = case.writes
        if we_begin:
            lw.create(
                uri,
                first,
                layout=lw.Layout(file_version=case.version, max_rows_per_file=case.rows_per_file),
            )
            lance.write_dataset(_copied(second), uri, mode="append")
        else:
            lance.write_dataset(_copied(first), uri, data_storage_version=case.version)
            lw.open(uri).append(second, layout=lw.Layout(max_rows_per_file=case.rows_per_file))
        _check(case, uri)
