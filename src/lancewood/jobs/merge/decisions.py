"""Decisions on conflicts of a merge as JSON, for those that are kept: rules, or decided rows.

    {"rules": {"columns": {"label": "theirs"}, "rows": "ours"}}
    {"rows": [{"_conflict": "4be1c0ffee0d1234", "take": "theirs"},
              {"_conflict": "91d20c0de5a7f00d", "values": {"label": "lion"}}]}

Rules are the fields of ``Resolve`` that are not decisions. Values are written as in files of JSON
lines, and get the types of the columns that they are for when they are used.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.files.text_forms import check_in_range, from_json, plain_batch
from lancewood.jobs.merge.conflicts import CONFLICT
from lancewood.jobs.merge.resolve import TAKE, Resolve, named_value, told_apart, value_columns
from lancewood.jobs.merge.row_merge import RowMerge

_RULES, _ROWS, _VALUES = "rules", "rows", "values"
_RULE_NAMES = tuple(each.name for each in fields(Resolve) if each.name != "decisions")


@dataclass(frozen=True, slots=True)
class DecidedRow:
    """One conflict that was decided: the side that is taken, or values by column as JSON."""

    conflict: str
    take: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What one person decided at a time: rules for all conflicts, or single rows."""

    rules: Mapping[str, Any] = field(default_factory=dict)
    rows: tuple[DecidedRow, ...] = ()

    def __post_init__(self) -> None:
        """Raises InvalidInputError for what decides nothing, or cannot be a decision."""
        if bool(self.rules) == bool(self.rows):
            raise InvalidInputError("a decision has either rules or decided rows")
        Resolve(**self.rules)
        for row in self.rows:
            if not isinstance(row.conflict, str) or not row.conflict:
                raise InvalidInputError(f"a decided row names no conflict: {row.conflict!r:.80}")
            if not row.values and row.take is None:
                raise InvalidInputError(
                    f"conflict {row.conflict!r} is given neither side nor values"
                )
        if self.rows:
            names, takes = [each.conflict for each in self.rows], [each.take for each in self.rows]
            Resolve(decisions={CONFLICT: names, TAKE: takes})

    @classmethod
    def of(cls, resolve: Resolve) -> Decision:
        """What a caller decided, to be kept; decided rows are kept without rules.

        Raises InvalidInputError for values that JSON cannot hold.
        """
        given = {name: each for name, each in _rules(resolve).items() if each}
        if resolve.decisions is None:
            return cls(given)
        if given:
            raise InvalidInputError("rules and decided rows are kept as two decisions; give one")
        rows = _decided(resolve.decisions)
        if not rows:
            raise InvalidInputError("no row of the decisions has a side or a value")
        return cls(rows=rows)

    @classmethod
    def decode(cls, document: Mapping[str, Any]) -> Decision:
        """Read a decision from JSON; raises InvalidInputError that says what is wrong."""
        _check_keys(document, {_RULES, _ROWS}, "a decision")
        rules = document.get(_RULES, {})
        if not isinstance(rules, Mapping):
            raise InvalidInputError(f"rules are an object, got {rules!r:.80}")
        _check_keys(rules, set(_RULE_NAMES), "rules")
        rows = document.get(_ROWS, [])
        if not isinstance(rows, list):
            raise InvalidInputError(f"rows are a list, got {rows!r:.80}")
        return cls(rules, tuple(map(_decoded_row, rows)))

    def encode(self) -> dict[str, Any]:
        """The decision as an object of JSON, which ``decode`` reads."""
        found: dict[str, Any] = {}
        if self.rules:
            found[_RULES] = dict(self.rules)
        if self.rows:
            found[_ROWS] = [
                {
                    CONFLICT: row.conflict,
                    **({} if row.take is None else {TAKE: row.take}),
                    **({_VALUES: dict(row.values)} if row.values else {}),
                }
                for row in self.rows
            ]
        return found

    def __str__(self) -> str:
        """What was decided, in a line for people."""
        if self.rows:
            return f"{len(self.rows)} conflict{'s' if len(self.rows) > 1 else ''} decided"
        return ", ".join(f"{name}={each}" for name, each in sorted(self.rules.items()))


def decided(row_merge: RowMerge, decisions: Sequence[Decision]) -> RowMerge:
    """A merge with what was decided about it before. Where two decisions speak of the same the
    later one counts, and what the merge itself was given counts most.

    Raises InvalidInputError for values that do not fit their columns.
    """
    if not decisions:
        return row_merge
    given = row_merge.resolve
    own = {name: each for name, each in _rules(given).items() if each}
    known = [*decisions, *([Decision(own)] if own else ())]
    found = replace(row_merge, resolve=merged_rules(known))
    if given.decisions is not None:
        rows = _decided(told_apart(given.decisions, found.shape.resolver.schema))
        known += [Decision(rows=rows)] if rows else []
    typed = merged_rows(known, found.shape.resolver.shape.values)
    return replace(found, resolve=replace(found.resolve, decisions=typed))


def merged_rules(decisions: Iterable[Decision]) -> Resolve:
    """The rules of decisions together."""
    rules: dict[str, Any] = {}
    for each in decisions:
        for name, rule in each.rules.items():
            known = rules.get(name)
            if isinstance(rule, Mapping) and isinstance(known, Mapping):
                rule = {**known, **rule}
            rules[name] = rule
    return Resolve(**rules)


def merged_rows(decisions: Iterable[Decision], values: pa.Schema) -> pa.Table | None:
    """The decided rows of decisions together; ``values`` are the columns of the merged table."""
    rows = {row.conflict: row for each in decisions for row in each.rows}
    return _typed([*rows.values()], values) if rows else None


def _rules(resolve: Resolve) -> dict[str, Any]:
    return {name: getattr(resolve, name) for name in _RULE_NAMES}


def _typed(rows: Sequence[DecidedRow], values: pa.Schema) -> pa.Table:
    """Decided rows as Arrow, with the types of the columns."""
    columns = {
        CONFLICT: pa.array([each.conflict for each in rows], pa.string()),
        TAKE: pa.array([each.take for each in rows], pa.string()),
    }
    for name in dict.fromkeys(name for each in rows for name in each.values):
        if name not in values.names:
            raise InvalidInputError(
                f"a decision has a value for column {name!r}, which is not there: columns are "
                f"{', '.join(values.names)}; forget the decisions, and decide anew",
                column=name,
            )
        kind = values.field(name).type
        try:
            columns[named_value(name)] = from_json([each.values.get(name) for each in rows], kind)
        except InvalidInputError as cause:
            raise InvalidInputError(
                f"a decision on column {name!r}: {cause.message}; forget the decisions, and decide "
                "anew",
                column=name,
            ) from cause
    return pa.table(columns)


def _decided(decisions: pa.Table) -> tuple[DecidedRow, ...]:
    """Decided rows, with values of JSON; a null gives no value, and a row without any decides
    nothing."""
    given, found = value_columns(decisions), []
    for batch in decisions.to_batches():
        check_in_range(batch)
        for row in plain_batch(batch).to_pylist():
            conflict, take = row[CONFLICT], row.get(TAKE)
            cells = ((name, row[column]) for name, column in given.items())
            values = {name: _json(each) for name, each in cells if each is not None}
            if take is not None or values:
                found.append(DecidedRow(conflict, take, values))
    return tuple(found)


def _json(value: Any) -> Any:
    """A plain value as one of JSON."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, list):
        return [*map(_json, value)]
    if isinstance(value, dict):
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidInputError(f"{value} cannot be kept as JSON; take a side, or decide by rule")
    return value


def _decoded_row(document: Any) -> DecidedRow:
    if not isinstance(document, Mapping):
        raise InvalidInputError(f"a decided row is an object, got {document!r:.80}")
    _check_keys(document, {CONFLICT, TAKE, _VALUES}, "a decided row")
    values = document.get(_VALUES, {})
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"values are an object, got {values!r:.80}")
    return DecidedRow(document.get(CONFLICT, ""), document.get(TAKE), values)


def _check_keys(found: Mapping[str, Any], known: set[str], what: str) -> None:
    for name in found:
        if name not in known:
            raise InvalidInputError(
                f"{what} cannot have {name!r:.80}, only {', '.join(sorted(known))}"
            )
