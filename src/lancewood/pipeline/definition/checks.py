"""The sections ``[[checks]]``: what must be true before a run is published.

Knows the kinds of checks and the keys of each. Tables and columns are looked for later, when
there are some.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import (
    AcceptedCheck,
    Check,
    NotNullCheck,
    ReferenceCheck,
    RowsCheck,
    SchemaCheck,
    SchemaRule,
    SqlCheck,
    UniqueCheck,
)
from lancewood.pipeline.definition.names import (
    checked_check,
    described,
    parsed_query,
    qualified_name,
    tables_in,
    wrong,
)
from lancewood.pipeline.definition.section import Section
from lancewood.repo import checked_table

ROWS_KEYS = ("min", "max", "least_change", "most_change")
REFERENCES_KEYS = ("table", "columns")
PUBLISHED = "published"
"""What SQL says before the name of a table for what it was before the run."""
_GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "sql": (),
    "not_null": ("table",),
    "unique": ("table",),
    "accepted": ("table", "column"),
    "rows": ("table",),
    "schema": ("table",),
    "references": ("table", "columns"),
}
"""The kinds of checks, each by its key, and what else it needs."""
_FURTHER = ("table", "column", "columns")
KEYS = ("name", "warn", *_GOES_WITH, *_FURTHER)
MOST_ROWS = 10**15
_MOST_VALUES = 10_000
_MOST_OF_A_NAME = 100


def read_checks(top: Section) -> tuple[Check, ...]:
    """Every check, in the order of the file, each with a name of its own."""
    seen: set[str] = set()
    found = []
    for number, section in enumerate(top.tables("checks", KEYS), 1):
        check = _read(section, number)
        if check.name.casefold() in seen:
            key = "name" if "name" in section else _kind(section)
            raise section.wrong(
                key, f"there is a check {check.name!r} already: give one of them another name"
            )
        seen.add(check.name.casefold())
        found.append(check)
    return tuple(found)


def _read(section: Section, number: int) -> Check:
    kind = _kind(section)
    for key in _FURTHER:
        if key in section and key not in _GOES_WITH[kind]:
            raise section.wrong(key, f"does not go with {kind}")
        if key not in section and key in _GOES_WITH[kind]:
            raise wrong(section.spot, f"the key {key!r} is missing: {kind} needs it")
    name, is_warning = section.text("name", checked_check), section.flag("warn")
    plain, made, own = _READERS[kind](section)
    return made(name or _plain(plain, number), section.spot, is_warning, **own)


def _kind(section: Section) -> str:
    kinds = [each for each in _GOES_WITH if each in section]
    if len(kinds) > 1:
        raise section.wrong(kinds[1], f"does not go with {kinds[0]}: make two checks of it")
    if not kinds:
        raise wrong(section.spot, f"takes one of {', '.join(_GOES_WITH)}")
    return kinds[0]


def _plain(text: str, number: int) -> str:
    """A name for a check that the file gives none."""
    bare = re.sub(r"[/\\]", "_", "".join(each if each.isprintable() else "_" for each in text))
    cut = bare.encode()[:_MOST_OF_A_NAME].decode(errors="ignore").strip()
    return cut if cut == text else f"{cut[: _MOST_OF_A_NAME - 6].strip()} {number}"


_Read: TypeAlias = tuple[str, type[Check], dict[str, Any]]
"""What a check is called where the file gives it no name, its kind, and what only this kind has."""


def _sql(section: Section) -> _Read:
    def check_names(sql: str) -> None:
        for each in tables_in(parsed_query(sql)):
            name = qualified_name(each)
            if each.db and (each.catalog or each.db.casefold() != PUBLISHED):
                raise InvalidInputError(
                    f"{name!r} is no table of the repository: name it alone, or as "
                    f"{PUBLISHED}.<table> for what it was before the run (a name with '.' or '-' "
                    "stands in backticks)",
                )
            checked_table(each.name)

    sql = section.needed_sql("sql", check_names)
    return f"sql {section.spot.key}", SqlCheck, {"sql": sql}


def _of_columns(kind: type[Check], key: str, section: Section) -> _Read:
    """The check of a table whose key has the columns."""
    table, columns = section.needed_text("table", checked_table), section.texts(key)
    name = _about(table, columns, key.replace("_", " "))
    return name, kind, {"table": table, "columns": columns}


def _accepted(section: Section) -> _Read:
    table, column = section.needed_text("table", checked_table), section.needed_text("column")
    values = section.value("accepted")
    spot = section.spot.at("accepted")
    if not isinstance(values, list) or not 0 < len(values) <= _MOST_VALUES:
        raise wrong(spot, f"takes a list of 1 to {_MOST_VALUES:,} values, got {described(values)}")
    for index, value in enumerate(values):
        is_plain = isinstance(value, str | bool | int | float | dt.date | dt.time)
        if not is_plain or (isinstance(value, float) and not math.isfinite(value)):
            raise wrong(
                spot.at(index),
                f"takes a text, a number, a date, true or false, got {described(value)}",
            )
    own = {"table": table, "column": column, "values": tuple(values)}
    return _about(table, (column,), "accepted"), AcceptedCheck, own


def _rows(section: Section) -> _Read:
    table = section.needed_text("table", checked_table)
    below = section.needed_table("rows", ROWS_KEYS)
    least, most = below.number("min", 0, MOST_ROWS), below.number("max", 0, MOST_ROWS)
    least_change, most_change = below.share("least_change", -1), below.share("most_change", -1)
    if least is None and most is None and least_change is None and most_change is None:
        raise wrong(below.spot, f"takes at least one of {', '.join(ROWS_KEYS)}")
    if least is not None and most is not None and least > most:
        raise below.wrong("max", f"{most:,} is less than min, {least:,}")
    if least_change is not None and most_change is not None and least_change > most_change:
        raise below.wrong("most_change", f"{most_change:g} is less than {least_change:g}")
    own = {"table": table, "least": least, "most": most}
    changes = {"least_change": least_change, "most_change": most_change}
    return f"{table} rows", RowsCheck, {**own, **changes}


def _schema(section: Section) -> _Read:
    table = section.needed_text("table", checked_table)
    rule = SchemaRule(str(section.choice("schema", list(SchemaRule))))
    return f"{table} schema", SchemaCheck, {"table": table, "rule": rule}


def _references(section: Section) -> _Read:
    table, columns = section.needed_text("table", checked_table), section.texts("columns")
    below = section.needed_table("references", REFERENCES_KEYS)
    other = below.needed_text("table", checked_table)
    if "columns" not in below:
        raise wrong(below.spot, "the key 'columns' is missing")
    other_columns = below.texts("columns")
    if len(columns) != len(other_columns):
        raise below.wrong(
            "columns", f"has {len(other_columns)} columns, and the check's own has {len(columns)}"
        )
    own = {"table": table, "columns": columns, "other": other, "other_columns": other_columns}
    return _about(table, columns, f"references {other}"), ReferenceCheck, own


def _about(table: str, columns: tuple[str, ...], what: str) -> str:
    return f"{table}.{'+'.join(columns)} {what}"


_READERS: Mapping[str, Callable[[Section], _Read]] = {
    "sql": _sql,
    "not_null": partial(_of_columns, NotNullCheck, "not_null"),
    "unique": partial(_of_columns, UniqueCheck, "unique"),
    "accepted": _accepted,
    "rows": _rows,
    "schema": _schema,
    "references": _references,
}
