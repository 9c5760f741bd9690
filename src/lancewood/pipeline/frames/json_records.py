"""The records of a JSON file: one object each, checked for what Spark's parser passes over.

Spark reads the first object of a line and leaves the rest, of equal keys it takes the last, it
leaves out keys that differ from a column in case, and it rounds numbers. Arrow's reader tells for
many lines at once that nothing of this can be; where it finds fault, Python looks at each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.files.json_source import DEEPEST, Numeral, is_simple, skip_blanks
from lancewood.pipeline.frames.line_records import (
    UTF_8,
    LineReader,
    Records,
    TextForm,
    lost,
    parts,
    suspicious,
)

NO_JSON = "does not parse as json with this schema"


@dataclass(frozen=True)
class JsonForm(TextForm):
    """How a JSON file is written, and the columns that are read from it."""

    is_whole: bool = False
    """Whether a document may span lines, or be an array of objects."""
    is_lenient: bool = False
    """Whether the source allows what is not strict JSON: comments, single quotes, …"""


class JsonReader(LineReader):
    """The records of one file, or of one block of it."""

    def __init__(self, form: JsonForm, file: str, start: int) -> None:
        super().__init__(form, start)
        self._form = form
        self._kind, self._names = pa.struct(form.columns), {*form.columns.names}
        self._has_nested = _names(self._kind) > self._names
        self._lossy = [each for each in form.columns if suspicious([each.type], form.notation)]
        self._whole: list[str] = []
        self._problem: str | None = None

    def read(self, lines: pa.Array) -> Iterator[Records]:
        if not self._line:
            yield self._by_lines([lines[0].as_py()])
            lines = lines.slice(1)
        if len(lines):
            fast = None if self._form.is_whole else self._at_once(lines)
            yield self._by_lines(lines.to_pylist()) if fast is None else fast

    def _finish(self, found: Records) -> None:
        if self._form.is_whole:
            self._documents(found, self._form.line_end.join(self._whole), None, self._problem)

    def _at_once(self, lines: pa.Array) -> Records | None:
        """Many lines of which each is one object; None if one is not, or needs a look."""
        import pyarrow.json

        if self._form.encoding != UTF_8:
            return None
        try:
            texts: Any = lines.cast(pa.string())
            block = "\n".join(texts.to_pylist()).encode()
            if not is_simple(block):
                return None
            read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
            rows = pyarrow.json.read_json(pa.BufferReader(block), read_options=read)
        except pa.ArrowException:
            return None
        if rows.num_rows != len(texts) or not self._are_columns(rows):
            return None
        return self._of_whole_lines(texts, self._numbered(len(texts)))

    def _fault(self, record: str) -> str | None:
        found = Records()
        self._documents(found, record, None, None)
        return found.problems[0]  # type: ignore[no-any-return]

    def _are_columns(self, rows: pa.Table) -> bool:
        """Whether every row has a value in one of the columns, and no key differs from a column in
        case alone."""
        names = _names(self._kind)
        others = {each.casefold() for each in _names(pa.struct(rows.schema)) - names}
        if not others.isdisjoint(each.casefold() for each in names):
            return False
        valid = [pc.is_valid(rows[each]) for each in self._names if each in rows.schema.names]
        return bool(valid) and bool(pc.all(reduce(pc.or_, valid)).as_py())

    def _take(self, found: Records, text: str, problem: str | None) -> None:
        self._line += 1
        if self._form.is_whole:
            self._whole.append(text)
            self._problem = self._problem or problem
        elif text.strip():
            self._documents(found, text, self._line if self._knows_lines else None, problem)

    def _documents(self, found: Records, text: str, line: int | None, problem: str | None) -> None:
        """The record of a line, or the records of its array; of a file if documents span lines.

        Each line of a file that cannot be read is a bad row: nobody knows how many rows it has.
        """
        if not text.strip():
            return
        records: list[tuple[str, Any]] = []
        try:
            if problem is None:
                records = list(self._objects(text))
        except _TwoKeys as twice:
            problem = f"has the key {twice.args[0]!r} twice"
        except RecursionError:
            problem = f"is nested more than {DEEPEST} deep"
        except _TwoDocuments:
            problem = "has more than one JSON value in a line"
        except ValueError:
            if self._form.is_lenient:
                found.add(text, line)
                return
            problem = NO_JSON
        for record, value in records:
            found.add(record, line, self._passed_over(value))
        if problem is not None and not self._form.is_whole:
            found.add(text, line, problem)
        elif problem is not None:
            for number, each in enumerate(text.split(self._form.line_end), 1):
                found.add(each, number, problem)

    def _passed_over(self, value: Any) -> str | None:
        """What Spark would lose of an object without a word."""
        if not isinstance(value, dict):
            return None
        if self._has_nested or not value.keys() <= self._names:
            other = _in_other_case(value, self._kind)
            if other is not None:
                return other
        if value and self._names and value.keys().isdisjoint(self._names):
            return f"has the key {next(iter(value))!r}, and none that the schema has"
        for column in self._lossy:
            loss = lost(value.get(column.name), column.type, self._form.notation)
            if loss is not None:
                return f"column {column.name!r} {loss}"
        return None

    def _objects(self, text: str) -> Iterator[tuple[str, Any]]:
        """The text and the value of each object: of a line or an array; of a file, one after the
        other."""
        at = 0
        while True:
            at = skip_blanks(text, at)
            value, end = _scan(text, at)
            if text[at : at + 1] == "[":
                yield from _elements(text, at)
            else:
                yield text[at:end], value
            at = skip_blanks(text, end)
            if at == len(text):
                return
            if not self._form.is_whole:
                raise _TwoDocuments


def _names(kind: pa.DataType) -> set[str]:
    """The names of all fields of a type, nested ones included."""
    own = {each.name for each in kind} if pa.types.is_struct(kind) else set()
    return own.union(*(_names(kind.field(at).type) for at in range(kind.num_fields)))


def _in_other_case(value: Any, kind: pa.DataType) -> str | None:
    """What is to be said of the first key that differs from a field in case alone."""
    if isinstance(value, dict) and pa.types.is_struct(kind):
        names = {each.name.casefold(): each.name for each in kind}
        for key in value.keys() - {each.name for each in kind}:
            if key.casefold() in names:
                return f"has the key {key!r}, and the schema has {names[key.casefold()]!r}"
    return next((key for each in parts(value, kind) if (key := _in_other_case(*each))), None)


class _TwoKeys(Exception):
    """An object has a key twice."""


class _TwoDocuments(Exception):
    """A line has something after its first value."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwoKeys(next(key for at, key in enumerate(keys) if key in keys[:at]))
    return found


_scan = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=Numeral, parse_float=Numeral
).raw_decode


def _elements(text: str, at: int) -> Iterator[tuple[str, Any]]:
    """The texts and values of the elements of an array that is known to be whole."""
    at = skip_blanks(text, at + 1)
    if text[at : at + 1] == "]":
        return
    while True:
        value, end = _scan(text, at)
        yield text[at:end], value
        at = skip_blanks(text, end)
        if text[at : at + 1] != ",":
            return
        at = skip_blanks(text, at + 1)
