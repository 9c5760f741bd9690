"""The file as TOML: its bytes, checked, what tomllib reads in them, and the line of each key.

Knows files and TOML, and nothing of pipelines. tomllib gives no lines, so the text is read once
more for them: ``targets[1].mode`` is in line 12. What that finds is compared with what tomllib
found: where the two differ, no line is given at all, because an error that points at the wrong line
is worse than one that points at none.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.pipeline.definition.model import Spot, key_below
from lancewood.pipeline.definition.refusal import wrong

KeyPath: TypeAlias = tuple[str | int, ...]

MOST_BYTES = 1_000_000
MOST_LEVELS = 30
_endless_key = re.compile(
    r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""", re.ASCII
).search
"""tomllib needs minutes for a key of many thousand parts."""
_location = re.compile(r" \(at line (\d+), column (\d+)\)$").search
_blank = re.compile(r"(?:[ \t\n]+|#[^\n]*)*").match
_bare_key = re.compile(r"[A-Za-z0-9_-]+").match
_bare_value = re.compile(r"[^,\]}#\n]*").match
_basic = re.compile(r'"(?:[^"\\\n]|\\.)*"').match
_literal = re.compile(r"'[^'\n]*'").match
_long_basic = re.compile(r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}', re.DOTALL).match
_long_literal = re.compile(r"'''(?:[^']|'{1,2}(?!'))*'{3,5}", re.DOTALL).match

_HINTS = (
    ("Illegal character '\\n'", "a text ends on its line: is a quote missing?"),
    ("Illegal character '\\r'", "a text ends on its line: is a quote missing?"),
    ("Cannot declare", "targets and checks are lists: each begins with [[targets]] or [[checks]]"),
    ("Cannot overwrite", "this key is there already"),
    ("Invalid value", "texts stand in quotes, and it is true or false in small letters"),
    ("Unescaped '\\'", "between single quotes a '\\' is itself"),
    ("Unclosed inline table", "what stands between '{' and '}' stands on one line"),
    ("Unclosed array", "is a comma or a ']' missing?"),
)
"""What tomllib says of common slips, and the way out."""


def read_toml(path: Path) -> tuple[dict[str, Any], Spot]:
    """What the file says, and the spot above all its keys.

    Raises NotFoundError where there is no such file, and InvalidInputError for one that is too
    large, not UTF-8 or not TOML.
    """
    text = _text(path, _bytes(path))
    if _endless_key(text):
        raise _too_deep(path)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:
        raise _not_toml(path, str(error)) from None
    huge = _check_depth(path, data)
    spot = Spot(path.name, "", None, lines_of_keys(text, data))
    for each in huge:
        raise wrong(spot.at(*each), "takes a number of 64 bits at most")
    return data, spot


def _check_depth(path: Path, data: dict[str, Any]) -> list[tuple[str | int, ...]]:
    """Refuse what nests without end, and find the numbers that TOML does not promise to hold."""
    huge = []
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), data)]
    while stack:
        keys, value = stack.pop()
        if len(keys) > MOST_LEVELS:
            raise _too_deep(path)
        if isinstance(value, dict):
            stack += [((*keys, key), below) for key, below in value.items()]
        elif isinstance(value, list):
            stack += [((*keys, index), below) for index, below in enumerate(value)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            huge.append(keys)
    return huge


def _too_deep(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{path.name}: the file nests deeper than {MOST_LEVELS} levels")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
    except FileNotFoundError as gone:
        raise NotFoundError(f"there is no file {path}{_near(path)}", path=str(path)) from gone
    except IsADirectoryError as cause:
        raise InvalidInputError(
            f"{path} is a directory, and a pipeline is a file{_near(path / '.toml')}"
        ) from cause
    except ValueError as cause:  # a NUL in its name
        raise InvalidInputError(f"{str(path)!r} is no path: {cause}") from cause
    except OSError as cause:
        raise StorageError(f"{path} cannot be read: {cause.strerror or cause}") from cause
    if len(found) > MOST_BYTES:
        raise InvalidInputError(
            f"{path.name}: the file has more than {MOST_BYTES:,} bytes, which is no pipeline"
        )
    return found


def _near(path: Path) -> str:
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix == ".toml"]
    except OSError:
        return ""
    close = get_close_matches(path.name, names, n=1) or (names if len(names) == 1 else [])
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def _text(path: Path, found: bytes) -> str:
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{path.name} line {line}: the file is not UTF-8: byte {found[error.start]:#04x} "
            "does not belong there; save it as UTF-8",
            file=path.name,
            line=line,
        ) from None


def _not_toml(path: Path, said: str) -> InvalidInputError:
    """tomllib's own words, its place put in front."""
    found = _location(said)
    line = int(found[1]) if found else None
    where = f" line {found[1]}" if found else ""
    column = f", at column {found[2]}" if found else ""
    reason = (said[: found.start()] if found else said)[:300]
    hint = next((f" ({way_out})" for slip, way_out in _HINTS if reason.startswith(slip)), "")
    return InvalidInputError(
        f"{path.name}{where}: this is not TOML{column}: {reason}{hint}", file=path.name, line=line
    )


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


def _text_of(path: KeyPath) -> str:
    key = ""
    for step in path:
        key = key_below(key, step)
    return key


def _paths(value: object, path: KeyPath) -> Iterator[KeyPath]:
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
        self._tables_in: dict[KeyPath, int] = {}
        """How many tables each array of tables has so far."""
        self.found: dict[KeyPath, int] = {}

    def run(self) -> None:
        base: KeyPath = ()
        while self._skip_blank():
            if self._take("[["):
                base = self._header("]]", is_array=True)
            elif self._take("["):
                base = self._header("]", is_array=False)
            else:
                self._key_and_value(base)

    def _header(self, closing: str, *, is_array: bool) -> KeyPath:
        path: KeyPath = ()
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

    def _key_and_value(self, base: KeyPath) -> None:
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

    def _value(self, path: KeyPath) -> None:
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

    def _array(self, path: KeyPath) -> None:
        index = 0
        while self._skip_blank() and not self._take("]"):
            self.found[(*path, index)] = self._line()
            self._value((*path, index))
            index += 1
            self._skip_blank()
            self._take(",")

    def _inline_table(self, path: KeyPath) -> None:
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
