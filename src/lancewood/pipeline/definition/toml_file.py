"""The file as TOML: its bytes, checked, what tomllib reads in them, the line of each key; and the
parameters, ``${name}``, and secrets, ``${env:NAME}``, in its texts.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote, quote_plus

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.pipeline.definition.model import Option, Pipeline, Secret, Spot, key_below
from lancewood.pipeline.definition.names import described, near, wrong

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


_opening = re.compile(r"(?:(?<![A-Za-z0-9_])[rR])?(['\"])|(`)|(--)|(/\*)").search
_closings = {
    "'": re.compile(r"(?:[^'\\]|\\.)*?'", re.DOTALL).match,
    '"': re.compile(r'(?:[^"\\]|\\.)*?"', re.DOTALL).match,
    "r'": re.compile(r"[^']*'").match,
    'r"': re.compile(r'[^"]*"').match,
    "`": re.compile(r"[^`]*`").match,
    "--": re.compile(r"[^\n]*\n").match,
    "/*": re.compile(r".*?\*/", re.DOTALL).match,
}
_ENDS = {"--": ("\n", "\r"), "/*": ("*/", "/*")}
_OUTSIDE = (";", "--", "/*")
_COMMENTS = ("--", "/*")
KEYS = ("default", "required", "help")
"""Keys of a parameter that is declared as a table."""
_ENVIRONMENT = "env:"
_place = re.compile(r"(\$\$\{)|\$\{([^{}\n]*)\}|(\$\{)")
_is_name = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch
_is_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


@dataclass(slots=True)
class Filling:
    """The values that are filled into the texts of a file."""

    parameters: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    used: set[str] = field(default_factory=set)
    """The parameters that some text has used."""

    def text(self, template: str, spot: Spot) -> str:
        """The text with parameters filled in; secrets are refused."""
        return "".join(value for _, value in self._parts(template, spot))

    def sql(self, template: str, spot: Spot) -> str:
        """The SQL with parameters filled in: no value may end the quotes or the comment around
        it."""
        quoting = Quoting()
        parts = []
        for name, value in self._parts(template, spot):
            if name is None:
                quoting.read(value)
            else:
                why = quoting.breaks(value)
                if why is not None:
                    raise wrong(spot, f"the value of ${{{name}}} {why}: {described(value)}")
            parts.append(value)
        filled = "".join(parts)
        if "${" in filled:
            raise wrong(
                spot,
                "the SQL still has a '${' in it, which Spark would fill in by itself: write it "
                "as concat('$', '{')",
            )
        return filled

    def option(self, template: str, spot: Spot) -> Option:
        """The text with parameters filled in; a Secret if it uses the environment."""
        shown, filled, values = [], [], {}
        for name, value in self._parts(template, spot, with_secrets=True):
            is_secret = name is not None and name.startswith(_ENVIRONMENT)
            if is_secret and name is not None:
                values[name.removeprefix(_ENVIRONMENT)] = value
            shown.append(f"${{{name}}}" if is_secret else value)
            filled.append(value)
        if not values:
            return "".join(filled)
        return Secret("".join(shown), "".join(filled), tuple(values.items()))

    def _parts(
        self, template: str, spot: Spot, *, with_secrets: bool = False
    ) -> Iterator[tuple[str | None, str]]:
        """(name of the placeholder, text) from left to right; the name is None for literal text."""
        end = 0
        for found in _place.finditer(template):
            yield None, template[end : found.start()]
            end = found.end()
            if found[1]:
                yield None, "${"
            elif found[3]:
                raise wrong(spot, "a '${' is not closed; '$${' stands for '${' itself")
            elif found[2].startswith(_ENVIRONMENT):
                yield found[2], self._variable(found[2], spot, is_allowed=with_secrets)
            else:
                yield found[2], self._parameter(found[2], spot)
        yield None, template[end:]

    def _parameter(self, name: str, spot: Spot) -> str:
        if name not in self.parameters:
            raise wrong(
                spot,
                f"${{{name}}} is not declared in [params]: {near(name, self.parameters)} "
                "('${env:NAME}' is the environment, '$${' stands for '${' itself)",
            )
        self.used.add(name)
        return self.parameters[name]

    def _variable(self, location: str, spot: Spot, *, is_allowed: bool) -> str:
        name = location.removeprefix(_ENVIRONMENT)
        if not is_allowed:
            raise wrong(
                spot,
                f"${{{location}}} is a secret, and this text is shown and kept: secrets are "
                "allowed in the options of sources and in storage_options; take a parameter for "
                "what is none",
            )
        if not _is_variable(name):
            raise wrong(spot, f"{name!r} is no name of an environment variable")
        if name not in self.environment:
            raise wrong(spot, f"the environment variable {name} is not set")
        return self.environment[name]


def read_parameters(declared: object, given: Mapping[str, str], spot: Spot) -> dict[str, str]:
    """The value of every parameter: the given one, or its default.

    ``declared`` is the table ``[params]``. Refuses a given parameter that is not declared, and a
    required one that is not given.
    """
    table = declared if declared is not None else {}
    if not isinstance(table, dict):
        raise wrong(spot, f"takes a table [params], got {described(table)}")
    defaults = {name: _default(name, value, spot.at(name)) for name, value in table.items()}
    for name, value in given.items():
        if name not in defaults:
            raise wrong(spot, f"there is no parameter {name!r}: {near(name, defaults)}")
        if not isinstance(value, str) or not _is_plain(value):
            raise wrong(spot.at(name), f"takes a text in UTF-8, got {described(value)}")
    for name, default in defaults.items():
        if default is None and name not in given:
            text = table[name].get("help")  # it is a table: only there is one required
            hint = f" ({text})" if text else ""
            raise wrong(
                spot.at(name),
                f"the parameter has no default and was not given: {name}=…{hint}",
            )
    return {name: given.get(name, default or "") for name, default in defaults.items()}


def _default(name: str, value: Any, spot: Spot) -> str | None:
    """The default value of a parameter; None for a required one."""
    if not _is_name(name):
        raise wrong(
            spot,
            "the name of a parameter begins with a letter or '_' and goes on with letters, "
            "digits, '_' and '-'",
        )
    if isinstance(value, dict):
        return _default_of_table(value, spot)
    if not isinstance(value, str):
        raise wrong(
            spot,
            f"a parameter is a text, got {described(value)}: write it in quotes, "
            "or as { required = true }",
        )
    return _plain_default(value, spot)


def _default_of_table(table: dict[str, Any], spot: Spot) -> str | None:
    for key, value in table.items():
        if key not in KEYS:
            raise wrong(spot.at(key), f"there is no such key: {near(key, KEYS)}")
        wanted = bool if key == "required" else str
        if not isinstance(value, wanted):
            kind = "true or false" if wanted is bool else "a text"
            raise wrong(spot.at(key), f"takes {kind}, got {described(value)}")
    if ("default" in table) == table.get("required", False):
        raise wrong(spot, 'takes either default = "…" or required = true')
    return _plain_default(table["default"], spot.at("default")) if "default" in table else None


def _plain_default(text: str, spot: Spot) -> str:
    if "${" in text:
        raise wrong(spot, "a default has no ${…} in it: use both where the value is used")
    if not _is_plain(text):
        raise wrong(spot, "a parameter cannot hold a NUL")
    return text


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


class Quoting:
    """Reads SQL text in parts, and knows which quotes or comment the next part is inside."""

    def __init__(self) -> None:
        self._inside = ""

    def read(self, text: str) -> None:
        """Continue over a part of the file."""
        at = 0
        while at < len(text):
            if not self._inside:
                found = _opening(text, at)
                if found is None:
                    return
                self._inside, at = found[0].lower(), found.end()
                continue
            closing = _closings[self._inside](text, at)
            if closing is None:
                return
            self._inside, at = "", closing.end()

    def breaks(self, value: str) -> str | None:
        """Why a value may not stand here; None if it may."""
        if not self._inside:
            found = [each for each in _OUTSIDE if each in value]
            return f"has a {found[0]!r}, which would end the statement here" if found else None
        ends = _ENDS.get(self._inside) or (self._inside[-1], "\\")
        found = [each for each in ends if each in value]
        where = "a comment" if self._inside in _COMMENTS else f"{self._inside[-1]} quotes"
        return f"has a {found[0]!r}, and stands inside {where}" if found else None


def plain_options(options: Mapping[str, Option]) -> dict[str, str]:
    """Options with secrets spelt out, only for Spark and stores."""
    return {name: each.text if isinstance(each, Secret) else each for name, each in options.items()}


def hide(pipeline: Pipeline, text: str) -> str:
    """The text with the template of every secret in place of its value.

    Every value from the environment is hidden, plain and as it looks in a uri, in JSON and in a
    Python text.
    """
    shown: dict[str, str] = {}
    options: list[Option] = [*pipeline.storage_options.values()]
    for source in pipeline.sources:
        options += source.options.values()
    for secret in (each for each in options if isinstance(each, Secret)):
        for value, template in [
            (secret.text, secret.template),
            *((each, f"${{env:{name}}}") for name, each in secret.values),
        ]:
            for spelling in _spellings(value):
                shown.setdefault(spelling, template)
    found = sorted((each for each in shown if each), key=len, reverse=True)
    if not found:
        return text
    return re.sub("|".join(map(re.escape, found)), lambda each: shown[each[0]], text)


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
