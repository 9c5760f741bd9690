"""Checks that manifests answer: how many rows a table has, and whether it keeps its columns.

No job runs, and there are no failing rows to be kept. Against a table that was not there a change
is not judged, nor a change of the number of rows against one that had none. Of the metadata only
the name of an extension type counts: it is part of the type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow as pa

from lancewood.files.text_forms import is_list
from lancewood.pipeline.checks.kind import CheckKind, CheckWork, Finding
from lancewood.pipeline.definition.model import RowsCheck, SchemaCheck, SchemaRule
from lancewood.pipeline.report.markup import counted
from lancewood.table import EXTENSION_NAME


def _rows_asked(check: RowsCheck) -> str:
    bounds = []
    if check.least is not None and check.least == check.most:
        bounds.append(f"exactly {counted(check.least, 'row')}")
    else:
        if check.least is not None:
            bounds.append(f"at least {counted(check.least, 'row')}")
        if check.most is not None:
            bounds.append(f"at most {counted(check.most, 'row')}")
    if check.least_change is not None:
        bounds.append(_change_asked(check.least_change, "least"))
    if check.most_change is not None:
        bounds.append(_change_asked(check.most_change, "most"))
    return f"{check.table} has {' and '.join(bounds)}"


def _change_asked(change: float, bound: str) -> str:
    """A bound on a change in words, turned around below zero: at least -0.1 is at most 10 %
    fewer."""
    if change == 0:
        return f"at {bound} as many rows as before"
    if change > 0:
        return f"at {bound} {percent(change)} more rows than before"
    turned = "most" if bound == "least" else "least"
    return f"at {turned} {percent(-change)} fewer rows than before"


def percent(share: float | Fraction) -> str:
    """``3.1 %``."""
    return f"{float(share) * 100:.3g} %" if share < 10 else f"{float(share) * 100:,.0f} %"


def _plan(work: CheckWork, check: RowsCheck | SchemaCheck) -> None:
    work.now(check.table, check.spot)


def _judge_rows(work: CheckWork, check: RowsCheck) -> Finding:
    now = work.now(check.table, check.spot).count()
    before = work.relations.before(check.table, check.spot.at("table"))
    return judge_counts(check, now, None if before is None else before.count())


def judge_counts(check: RowsCheck, now: int, before: int | None) -> Finding:
    """Compare; ``before`` is None where there was no table."""
    is_within = (check.least is None or now >= check.least) and (
        check.most is None or now <= check.most
    )
    text = counted(now, "row")
    if check.least is not None and now < check.least:
        text += f", fewer than {check.least:,}"
    elif not is_within:
        text += f", more than {check.most:,}"
    is_asked = check.least_change is not None or check.most_change is not None
    if not before:
        if is_asked and is_within:
            why = "the table is new" if before is None else "there were no rows before"
            text = f"{text}; {why}: the change is not judged"
        return Finding(is_within, text)
    change = Fraction(now - before, before)
    if is_asked:
        # Through the text, so that -0.1 is a tenth and not the number beside it that a float is.
        least, most = (
            None if each is None else Fraction(repr(each))
            for each in (check.least_change, check.most_change)
        )
        is_between = (least is None or change >= least) and (most is None or change <= most)
        is_within = is_within and is_between
    more = f"{percent(abs(change))} {'more' if change > 0 else 'fewer'} than"
    return Finding(is_within, f"{text}, {more if change else 'as many as'} before")


ROWS = CheckKind("rows", _rows_asked, _plan, _judge_rows)


_UNITS = ("s", "ms", "us", "ns")
_FLOAT_DIGITS = {16: 11, 32: 24, 64: 53}
"""The bits of integers that a float of this width holds exactly."""
_DECIMAL_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
"""The digits that an integer of this many bits may have."""
_TEXTS = [pa.string().id, pa.string_view().id, pa.large_string().id]
_BINARIES = [pa.binary().id, pa.binary_view().id, pa.large_binary().id]
_DATES = [pa.date32().id, pa.date64().id]
_MOST_TOLD = 10


@dataclass(frozen=True)
class SchemaChange:
    """One difference between two schemas."""

    text: str
    is_wider: bool
    """Whether every value that was possible before still is."""


def schema_changes(before: pa.Schema, now: pa.Schema) -> list[SchemaChange]:
    """All changes, in column order; a change of the order itself comes last."""
    return list(_fields(list(before), list(now), ""))


def _fields(before: list[pa.Field], now: list[pa.Field], path: str) -> Iterator[SchemaChange]:
    then = {each.name: each for each in before}
    there = {each.name: each for each in now}
    for name, field in then.items():
        if name in there:
            yield from _field(field, there[name], path + name)
        else:
            yield SchemaChange(f"{path}{name} ({field.type}) is gone", False)
    for name, field in there.items():
        if name not in then:
            # What was written before has no value for it.
            yield SchemaChange(f"{path}{name} ({field.type}) is new", field.nullable)
    order = [each for each in then if each in there]
    if order != [each for each in there if each in then]:
        where = f"the fields of {path.rstrip('.')}" if path else "the columns"
        yield SchemaChange(f"{where} are in another order", True)


def _field(before: pa.Field, now: pa.Field, path: str) -> Iterator[SchemaChange]:
    if before.nullable and not now.nullable:
        yield SchemaChange(f"{path} may not be null any more", False)
    elif now.nullable and not before.nullable:
        yield SchemaChange(f"{path} may be null now", True)
    names = [_extension(each) for each in (before, now)]
    if names[0] != names[1]:
        was, became = (each or "no extension type" for each in names)
        yield SchemaChange(f"{path} was {was} and is {became}", False)
    yield from _type(_stored(before.type), _stored(now.type), path)


def _type(before: Any, now: Any, path: str) -> Iterator[SchemaChange]:
    if before == now and not pa.types.is_nested(before):
        return
    if pa.types.is_struct(before) and pa.types.is_struct(now):
        yield from _fields(list(before), list(now), f"{path}.")
        return
    if pa.types.is_map(before) and pa.types.is_map(now):
        yield from _field(before.key_field, now.key_field, f"{path}.key")
        yield from _field(before.item_field, now.item_field, f"{path}.value")
        return
    if is_list(before) and is_list(now):
        if _list_kind(before) != _list_kind(now):
            yield SchemaChange(f"{path} was {before} and is {now}", _is_wider_list(before, now))
        item = before.value_field.with_name("item"), now.value_field.with_name("item")
        yield from _field(*item, f"{path}.item")
        return
    if before != now:
        yield SchemaChange(f"{path} was {before} and is {now}", is_wider(before, now))


def is_wider(before: Any, now: Any) -> bool:
    """Whether a type without fields holds every value of another one exactly."""
    types = pa.types
    if before == now or types.is_null(before):
        return True
    if types.is_dictionary(before) or types.is_dictionary(now):
        return is_wider(_values(before), _values(now))
    if types.is_integer(before):
        return _holds_integers(before, now)
    if types.is_floating(before) and types.is_floating(now):
        return bool(now.bit_width >= before.bit_width)
    if types.is_decimal(before) and types.is_decimal(now):
        digits = now.precision - now.scale >= before.precision - before.scale
        return bool(digits and now.scale >= before.scale)
    for family in (_TEXTS, _BINARIES, _DATES):
        if before.id in family and now.id in family:
            # Families are sorted: the first types hold less.
            return family.index(now.id) >= family.index(before.id)
    if types.is_fixed_size_binary(before):
        return now.id in _BINARIES
    if types.is_timestamp(before) and types.is_timestamp(now):
        return before.tz == now.tz and _is_finer(before, now)
    if (types.is_time(before) and types.is_time(now)) or (
        types.is_duration(before) and types.is_duration(now)
    ):
        return _is_finer(before, now)
    return False


def _holds_integers(before: Any, now: Any) -> bool:
    types = pa.types
    signed = types.is_signed_integer(before)
    bits = before.bit_width
    if types.is_integer(now):
        if types.is_signed_integer(now) == signed:
            return bool(now.bit_width >= bits)
        return bool(not signed and now.bit_width > bits)
    if types.is_floating(now):
        return bool(_FLOAT_DIGITS[now.bit_width] >= (bits - 1 if signed else bits))
    if types.is_decimal(now):
        return bool(now.precision - now.scale >= _DECIMAL_DIGITS[bits])
    return False


def _is_finer(before: Any, now: Any) -> bool:
    """Nanoseconds only reach three hundred years each way, so they hold less than other units."""
    if now.unit == "ns" and not pa.types.is_time(now):
        return bool(before.unit == "ns")
    return _UNITS.index(now.unit) >= _UNITS.index(before.unit)


def _list_kind(kind: Any) -> tuple[int, int]:
    return kind.id, kind.list_size if pa.types.is_fixed_size_list(kind) else 0


def _is_wider_list(before: Any, now: Any) -> bool:
    if pa.types.is_fixed_size_list(now):
        return False
    return not (pa.types.is_large_list(before) and pa.types.is_list(now))


def _values(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _stored(kind: Any) -> Any:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _extension(field: pa.Field) -> str | None:
    if isinstance(field.type, pa.BaseExtensionType):
        return str(field.type.extension_name)
    found: Iterable[tuple[bytes, bytes]] = (field.metadata or {}).items()
    return dict(found).get(EXTENSION_NAME.encode(), b"").decode(errors="replace") or None


def _schema_asked(check: SchemaCheck) -> str:
    if check.rule is SchemaRule.UNCHANGED:
        return f"{check.table} has the columns that it had"
    return f"{check.table} has the columns that it had, perhaps wider, and perhaps more"


def _judge_schema(work: CheckWork, check: SchemaCheck) -> Finding:
    now = work.now(check.table, check.spot)
    before = work.relations.before(check.table, check.spot.at("table"))
    if before is None:
        return Finding(True, "the table is new: there is nothing to compare with")
    changes = schema_changes(before.schema, now.schema)
    may_widen = check.rule is SchemaRule.WIDENED
    wrong = [each for each in changes if not (may_widen and each.is_wider)]
    return Finding(not wrong, _told(wrong or changes))


def _told(changes: list[SchemaChange]) -> str:
    if not changes:
        return "nothing changed"
    shown = [each.text for each in changes[:_MOST_TOLD]]
    more = [f"and {len(changes) - _MOST_TOLD:,} more"] if len(changes) > _MOST_TOLD else []
    return "; ".join(shown + more)


SCHEMA = CheckKind("schema", _schema_asked, _plan, _judge_schema)
