"""The records of a JSON file: one object each, checked for what Spark's parser passes over.

Spark reads the first object of a line and leaves the rest, and of equal keys it takes the last.
Arrow's reader tells both for many lines at once; where it finds fault, Python looks at each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.pipeline.frames.line_records import UTF_8, Decoder, Records, not_text

NO_JSON = "does not parse as json with this schema"
_DEEPEST = 100
_OBJECT = r"^\s*\{.*\}\s*$"
"""A line that begins and ends as an object does: where all do, each has at least one."""
_NULL_BETWEEN = r"\}[ \t\r]*n"
"""Arrow's reader crashes on a null row, and on deep nesting."""
_skip_blanks = re.compile(r"[ \t\r\n]*").match


@dataclass(frozen=True)
class JsonForm:
    """How a file of a source is written."""

    is_whole: bool = False
    """Whether a document may span lines, or be an array of objects."""
    is_lenient: bool = False
    """Whether the source allows what is not strict JSON: comments, single quotes, …"""
    encoding: str = UTF_8
    line_end: str = "\n"


class JsonReader:
    """The records of one file, or of one block of it."""

    def __init__(self, form: JsonForm, file: str, start: int) -> None:
        self._form, self._is_at_start, self._knows_lines = form, not start, not start
        self._decoder = Decoder(form.encoding, form.line_end, is_at_start=not start)
        self._is_left_out = False
        self._line = 0
        self._whole: list[str] = []
        self._problem: str | None = None

    def read(self, lines: pa.Array) -> Iterator[Records]:
        if self._is_at_start:
            self._is_at_start = False
            why = not_text(lines[0].as_py())
            if why is not None:
                self._is_left_out = True
                found = Records()
                found.add("", None, why)
                yield found
        if self._is_left_out:
            return
        if not self._line:
            yield self._by_lines([lines[0].as_py()])
            lines = lines.slice(1)
        if len(lines):
            fast = None if self._form.is_whole else self._at_once(lines)
            yield self._by_lines(lines.to_pylist()) if fast is None else fast

    def end(self) -> Iterator[Records]:
        found = Records()
        for text, problem in self._decoder.rest():
            self._take(found, text, problem)
        if self._form.is_whole and not self._is_left_out:
            self._documents(found, self._form.line_end.join(self._whole), None, self._problem)
        yield found

    def _at_once(self, lines: pa.Array) -> Records | None:
        """Many lines of which each is one object; None if one is not, or needs a look."""
        import pyarrow.json

        if self._form.encoding != UTF_8:
            return None
        try:
            texts: Any = lines.cast(pa.string())
            if not _are_objects(texts):
                return None
            block = "\n".join(texts.to_pylist()).encode()
            read = pyarrow.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
            rows = pyarrow.json.read_json(pa.BufferReader(block), read_options=read)
        except pa.ArrowException:
            return None
        if rows.num_rows != len(texts):
            return None
        numbers: Any = pa.array(np.arange(self._line + 1, self._line + 1 + len(texts)))
        self._line += len(texts)
        if not self._knows_lines:
            numbers = pa.nulls(len(texts), pa.int64())
        none = pa.nulls(len(texts), pa.string())
        return Records(texts, none, none, numbers)

    def _by_lines(self, lines: Sequence[bytes]) -> Records:
        found = Records()
        for text, problem in self._decoder.texts(lines):
            self._take(found, text, problem)
        return found

    def _take(self, found: Records, text: str, problem: str | None) -> None:
        self._line += 1
        if self._form.is_whole:
            self._whole.append(text)
            self._problem = self._problem or problem
        elif text.strip():
            self._documents(found, text, self._line if self._knows_lines else None, problem)

    def _documents(self, found: Records, text: str, line: int | None, problem: str | None) -> None:
        """The record of a line, or the records of its array; of a file if documents span lines."""
        if problem is not None:
            found.add(text, line, problem)
            return
        if not text.strip():
            return
        try:
            records = list(self._objects(text))
        except _TwoKeys as twice:
            found.add(text, line, f"has the key {twice.args[0]!r} twice")
        except RecursionError:
            found.add(text, line, f"is nested more than {_DEEPEST} deep")
        except _TwoDocuments:
            found.add(text, line, "has more than one JSON value in a line")
        except ValueError:
            found.add(text, line, None if self._form.is_lenient else NO_JSON)
        else:
            for each in records:
                found.add(each, line)

    def _objects(self, text: str) -> Iterator[str]:
        """The text of each object: of a line or an array; of a file, one after the other."""
        at = 0
        while True:
            at = _next(text, at)
            if text[at : at + 1] == "[":
                yield from _elements(text, at)
            _, end = _scan(text, at)
            if text[at : at + 1] != "[":
                yield text[at:end]
            at = _next(text, end)
            if at == len(text):
                return
            if not self._form.is_whole:
                raise _TwoDocuments


def _are_objects(texts: Any) -> bool:
    """Whether each line looks like one object, or more, and none is nested deeply."""
    depth = pc.add(pc.count_substring(texts, "{"), pc.count_substring(texts, "["))
    return bool(
        pc.max(depth).as_py() <= _DEEPEST
        and pc.all(pc.match_substring_regex(texts, _OBJECT)).as_py()
        and not pc.any(pc.match_substring_regex(texts, _NULL_BETWEEN)).as_py()
    )


class _TwoKeys(Exception):
    """An object has a key twice."""


class _TwoDocuments(Exception):
    """A line has something after its first value."""


def _object(pairs: list[tuple[str, Any]]) -> None:
    seen = set()
    for key, _ in pairs:
        if key in seen:
            raise _TwoKeys(key)
        seen.add(key)


_scan = json.JSONDecoder(object_pairs_hook=_object, parse_int=str, parse_float=str).raw_decode


def _next(text: str, at: int) -> int:
    blanks = _skip_blanks(text, at)
    assert blanks is not None
    return blanks.end()


def _elements(text: str, at: int) -> Iterator[str]:
    """The texts of the elements of an array that is known to be whole once all were taken."""
    at = _next(text, at + 1)
    if text[at : at + 1] == "]":
        return
    while True:
        _, end = _scan(text, at)
        yield text[at:end]
        at = _next(text, end)
        if text[at : at + 1] != ",":
            return
        at = _next(text, at + 1)
