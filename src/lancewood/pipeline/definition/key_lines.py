"""In which line of a TOML text each key stands: ``targets[1].mode`` is in line 12.

Knows how TOML is laid out, and relies on tomllib having read the text without complaint. What it
finds is compared with what tomllib found: where the two differ, no line is told at all, because
an error that points at the wrong line is worse than one that points at none.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from lancewood.pipeline.definition.model import key_below

Path: TypeAlias = tuple[str | int, ...]

_blank = re.compile(r"(?:[ \t\n]+|#[^\n]*)*").match
_bare_key = re.compile(r"[A-Za-z0-9_-]+").match
_bare_value = re.compile(r"[^,\]}#\n]*").match
_basic = re.compile(r'"(?:[^"\\\n]|\\.)*"').match
_literal = re.compile(r"'[^'\n]*'").match
_long_basic = re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL).match
_long_literal = re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL).match


def lines_of_keys(text: str, data: Mapping[str, object]) -> dict[str, int]:
    """The line of every key and element that ``data``, read from the text, has, by its text.

    A table that is only mentioned on the way to others is where it is mentioned first.
    """
    scanner = _Scanner(text.replace("\r\n", "\n"))
    try:
        scanner.run()
    except (_LostError, RecursionError, IndexError, ValueError):
        return {}
    if scanner.found.keys() != set(_paths(data, ())):
        return {}
    return {_text_of(path): line for path, line in scanner.found.items()}


def _text_of(path: Path) -> str:
    key = ""
    for step in path:
        key = key_below(key, step)
    return key


def _paths(value: object, path: Path) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _paths(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _paths(below, (*path, index))


class _LostError(Exception):
    """The text is not laid out as expected."""


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._tables_in: dict[Path, int] = {}
        """How many tables each array of tables has so far."""
        self.found: dict[Path, int] = {}

    def run(self) -> None:
        base: Path = ()
        while self._skip_blank():
            if self._take("[["):
                base = self._header("]]", is_array=True)
            elif self._take("["):
                base = self._header("]", is_array=False)
            else:
                self._key_and_value(base)

    def _header(self, closing: str, *, is_array: bool) -> Path:
        path: Path = ()
        keys = self._keys()
        for index, (key, line) in enumerate(keys):
            path = (*path, key)
            self.found.setdefault(path, line)
            if is_array and index == len(keys) - 1:
                count = self._tables_in.get(path, 0)
                self._tables_in[path] = count + 1
                path = (*path, count)
                self.found[path] = line
            elif path in self._tables_in:
                path = (*path, self._tables_in[path] - 1)
        self._expect(closing)
        return path

    def _key_and_value(self, base: Path) -> None:
        path = base
        for key, line in self._keys():
            path = (*path, key)
            self.found.setdefault(path, line)
        self._expect("=")
        self._value(path)

    def _keys(self) -> list[tuple[str, int]]:
        """A dotted key: its parts, and the line of each."""
        parts = []
        while True:
            self._skip_blank()
            line = self._line()
            parts.append((self._key(), line))
            self._skip_blank()
            if not self._take("."):
                return parts

    def _key(self) -> str:
        quoted = _basic(self._text, self._at) or _literal(self._text, self._at)
        found = quoted or _bare_key(self._text, self._at)
        if found is None:
            raise _LostError
        self._at = found.end()
        return str(tomllib.loads(f"key = {found[0]}")["key"]) if quoted else found[0]

    def _value(self, path: Path) -> None:
        self._skip_blank()
        if self._take("["):
            self._array(path)
        elif self._take("{"):
            self._inline_table(path)
        else:
            text, at = self._text, self._at
            found = (
                (_long_basic(text, at) if text.startswith('"""', at) else _basic(text, at))
                or (_long_literal(text, at) if text.startswith("'''", at) else _literal(text, at))
                or _bare_value(text, at)
            )
            if found is None or not found[0]:
                raise _LostError
            self._at = found.end()

    def _array(self, path: Path) -> None:
        index = 0
        while self._skip_blank() and not self._take("]"):
            self.found[(*path, index)] = self._line()
            self._value((*path, index))
            index += 1
            self._skip_blank()
            self._take(",")

    def _inline_table(self, path: Path) -> None:
        while self._skip_blank() and not self._take("}"):
            self._key_and_value(path)
            self._skip_blank()
            self._take(",")

    def _skip_blank(self) -> bool:
        """Over spaces, line ends and comments; False at the end of the text."""
        found = _blank(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at < len(self._text)

    def _take(self, word: str) -> bool:
        taken = self._text.startswith(word, self._at)
        self._at += len(word) if taken else 0
        return taken

    def _expect(self, word: str) -> None:
        self._skip_blank()
        if not self._take(word):
            raise _LostError

    def _line(self) -> int:
        return bisect_right(self._starts, self._at)
