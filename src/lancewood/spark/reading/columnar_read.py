"""A planned read as the columnar door takes it: what Spark may push into it, and how large it is.

Spark's conditions are only about columns of which our SQL and Spark think alike: plain values, and
not those that have another form in Spark, such as bfloat16, nor bytes and times.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.types as pt

from lancewood.engine.rows import ScanPlan
from lancewood.expr import MAX_LENGTH
from lancewood.model.schema import EXTENSION_NAME
from lancewood.spark.columnar import ColumnReference, PlannedRead
from lancewood.spark.reading import plan as planning
from lancewood.spark.reading.plan import ReadPlan, column_bytes

_COMPARED = (
    pt.is_boolean,
    pt.is_integer,
    pt.is_floating,
    pt.is_decimal128,
    pt.is_string,
    pt.is_large_string,
    pt.is_date32,
    pt.is_timestamp,
)
_ROOM = 1_000
"""Characters that joining conditions takes."""


def columnar_read(plan: ReadPlan, scan: ScanPlan, slots: int) -> PlannedRead:
    """What the door needs to know of a plan, for a Spark that runs ``slots`` tasks at once."""
    rows = plan.rows
    own = scan.request.where or ""
    return PlannedRead(
        name=plan.work.name,
        schema=plan.spark.json(),
        work=pickle.dumps(plan.work),
        messages=plan.messages,
        rows=rows,
        is_counted=scan.predicate is None and plan.limit is None,
        pruned=plan.pruned,
        slots=slots,
        worthwhile=planning.LEAST,
        most_condition=max(0, MAX_LENGTH - _ROOM - len(own)),
        widths={} if rows is None else column_bytes(scan, rows),
        needed=_needed(scan),
        references=dict(_references(scan)),
    )


def _needed(scan: ScanPlan) -> list[str]:
    """The columns that the filter and the expressions of the reader read."""
    named = [*scan.projection.computed.items(), ("", scan.predicate)]
    asked = [each for name, each in named if each is not None and each.column != (name,)]
    return list(dict.fromkeys(column for each in asked for column in each.columns))


def _references(scan: ScanPlan) -> Iterator[tuple[tuple[str, ...], ColumnReference]]:
    computed = scan.request.columns if isinstance(scan.request.columns, Mapping) else None
    for each in scan.schema:
        if computed is None or computed[each.name] == each.name:
            yield from _below(each, (), "")


def _below(
    field: pa.Field, above: tuple[str, ...], prefix: str
) -> Iterator[tuple[tuple[str, ...], ColumnReference]]:
    is_extended = EXTENSION_NAME.encode() in (field.metadata or {})
    if is_extended or isinstance(field.type, pa.BaseExtensionType) or "\n" in field.name:
        return
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    path, sql = (*above, field.name), prefix + _quoted(field.name)
    yield path, ColumnReference(sql, any(each(kind) for each in _COMPARED))
    if pa.types.is_struct(field.type):
        for each in field.type:
            yield from _below(each, path, f"{sql}.")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
