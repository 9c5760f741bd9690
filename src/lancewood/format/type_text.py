"""Types as text: ``int64``, ``list<string>``, ``decimal128(10, 2)``.

Parses what pyarrow prints for a type, and the format's own logical types (``timestamp:us:UTC``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.logical_type import decode_leaf_type

_NAMED: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "int": pa.int64(),
    "float16": pa.float16(),
    "half": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "date": pa.date32(),
    "date32": pa.date32(),
    "date32[day]": pa.date32(),
    "date64": pa.date64(),
    "date64[ms]": pa.date64(),
    "timestamp": pa.timestamp("us"),
    "json": pa.json_(pa.string()),
    "extension<arrow.json>": pa.json_(pa.string()),
}
EXAMPLES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float", "double", "decimal128(10, 2)", "string", "binary", "json"),
    *("date32", "time64[us]", "timestamp[us]", "timestamp[us, tz=UTC]", "duration[us]"),
    *("list<float>", "fixed_size_list<float>[768]", "struct<a: int64>", "map<string, int64>"),
)
"""The types to offer: names, and one example of every kind that takes parameters."""
_TOKEN = re.compile(r"\s*(?:([A-Za-z_0-9.:+/=-]+)|([<>\[\](),]))")
_UNITS = ("s", "ms", "us", "ns")


def parse_column(text: str) -> pa.Field:
    """A column from ``name:type``, with `` not null`` at its end where nulls are not allowed."""
    name, colon, after = text.partition(":")
    if not colon or not name.strip():
        raise InvalidInputError(
            f"column {text!r} is not NAME:TYPE, as in id:int64 or 'id:int64 not null'"
        )
    bare, nullable = _cut_not_null(after)
    kind = parse_type(bare)
    try:
        return pa.field(name.strip(), kind, nullable)
    except ValueError as cause:
        raise InvalidInputError(f"column {text!r} is not possible: {cause}") from cause


def parse_type(text: str) -> pa.DataType:
    """The Arrow type that the text names; raises InvalidInputError that shows examples."""
    bare = text.strip()
    if bare.lower() in _NAMED:
        return _NAMED[bare.lower()]
    try:
        return decode_leaf_type(bare)
    except FormatError:
        pass
    reader = _Reader(bare)
    try:
        found = reader.type()
        reader.end()
        return found
    except (ValueError, IndexError, OverflowError, RecursionError, pa.ArrowException) as cause:
        raise InvalidInputError(
            f"type {text.strip()!r} is not known: there are {', '.join(EXAMPLES)}", type=text
        ) from cause


def _cut_not_null(text: str) -> tuple[str, bool]:
    bare = text.strip()
    found = re.search(r"\s+not\s+null$", bare, re.IGNORECASE)
    return (bare[: found.start()], False) if found else (bare, True)


class _Reader:
    """A parser of one type, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0

    def type(self) -> pa.DataType:
        word = self._word()
        make = self._makers().get(word.lower())
        if make is not None:
            return make()
        return _NAMED.get(word.lower()) or _logical(word)

    def end(self) -> None:
        if self._at != len(self._tokens):
            raise ValueError("there is more after the type")

    def _makers(self) -> dict[str, Callable[[], pa.DataType]]:
        return {
            "list": lambda: pa.list_(self._in_angles(self._item)),
            "large_list": lambda: pa.large_list(self._in_angles(self._item)),
            "fixed_size_list": self._fixed_size_list,
            "struct": lambda: pa.struct(self._in_angles(self._fields)),
            "map": self._map,
            "dictionary": self._dictionary,
            "timestamp": self._timestamp,
            "duration": lambda: pa.duration(self._unit()),
            "time32": lambda: pa.time32(self._unit()),
            "time64": lambda: pa.time64(self._unit()),
            "date32": lambda: self._dated(pa.date32()),
            "date64": lambda: self._dated(pa.date64()),
            "fixed_size_binary": lambda: pa.binary(self._number_in("[", "]")),
            "decimal": lambda: self._decimal(pa.decimal128),
            "decimal128": lambda: self._decimal(pa.decimal128),
            "decimal256": lambda: self._decimal(pa.decimal256),
            "extension": self._json,
        }

    def _in_angles(self, read: Callable[[], object]) -> object:
        self._take("<")
        found = read()
        self._take(">")
        return found

    def _item(self) -> pa.Field:
        """A list's item: a type, with or without a name before it."""
        name = "item"
        if self._peek().endswith(":") and self._peek() != ":":
            name = self._word()[:-1]
        return pa.field(name, self.type(), self._nullable())

    def _fields(self) -> Sequence[pa.Field]:
        found = [self._named_field()]
        while self._peek() == ",":
            self._take(",")
            found.append(self._named_field())
        return found

    def _named_field(self) -> pa.Field:
        name = self._word()
        if not name.endswith(":"):
            # Written without a space after the colon, as in struct<a:int64>.
            name, colon, rest = name.partition(":")
            if not colon:
                raise ValueError("a field of a struct is NAME: TYPE")
            self._at -= 1
            self._tokens[self._at] = rest
        return pa.field(name.rstrip(":"), self.type(), self._nullable())

    def _nullable(self) -> bool:
        if self._peek().lower() == "not":
            self._word()
            if self._word().lower() != "null":
                raise ValueError("not what?")
            return False
        return True

    def _fixed_size_list(self) -> pa.DataType:
        item = self._in_angles(self._item)
        return pa.list_(item, self._number_in("[", "]"))

    def _map(self) -> pa.DataType:
        self._take("<")
        key = self.type()
        self._take(",")
        value = pa.field("value", self.type(), self._nullable())
        self._take(">")
        return pa.map_(key, value)

    def _dictionary(self) -> pa.DataType:
        self._take("<")
        value = self._setting("values")
        self._take(",")
        index = self._setting("indices")
        if self._peek() == ",":
            self._take(",")
            self._word()
        self._take(">")
        return pa.dictionary(index, value)

    def _setting(self, name: str) -> pa.DataType:
        word = self._word()
        if not word.startswith(f"{name}="):
            raise ValueError(f"{name}= was expected")
        return parse_type(word.partition("=")[2])

    def _timestamp(self) -> pa.DataType:
        self._take("[")
        unit, zone = self._one_of(_UNITS), None
        if self._peek() == ",":
            self._take(",")
            word = self._word()
            if not word.startswith("tz="):
                raise ValueError("tz= was expected")
            zone = word.removeprefix("tz=")
        self._take("]")
        return pa.timestamp(unit, zone)

    def _unit(self) -> str:
        self._take("[")
        unit = self._one_of(_UNITS)
        self._take("]")
        return unit

    def _dated(self, kind: pa.DataType) -> pa.DataType:
        if self._peek() == "[":
            self._take("[")
            self._one_of(("day", "ms"))
            self._take("]")
        return kind

    def _json(self) -> pa.DataType:
        self._take("<")
        if self._word() != "arrow.json":
            raise ValueError("only JSON is known among the extension types")
        self._take(">")
        return pa.json_(pa.string())

    def _decimal(self, make: Callable[[int, int], pa.DataType]) -> pa.DataType:
        self._take("(")
        precision = int(self._word())
        self._take(",")
        scale = int(self._word())
        self._take(")")
        return make(precision, scale)

    def _number_in(self, left: str, right: str) -> int:
        self._take(left)
        number = int(self._word())
        self._take(right)
        if number < 1:
            raise ValueError("a size is at least 1")
        return number

    def _one_of(self, allowed: Sequence[str]) -> str:
        word = self._word()
        if word not in allowed:
            raise ValueError(f"{word!r} is none of {allowed}")
        return word

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _word(self) -> str:
        word = self._tokens[self._at]
        if word in "<>[](),":
            raise ValueError(f"a word was expected, not {word!r}")
        self._at += 1
        return word

    def _take(self, mark: str) -> None:
        if self._peek() != mark:
            raise ValueError(f"{mark!r} was expected")
        self._at += 1


def _logical(word: str) -> pa.DataType:
    """One of the format's logical types; raises ValueError for other words."""
    try:
        return decode_leaf_type(word)
    except FormatError as cause:
        raise ValueError(str(cause)) from cause


def _tokens(text: str) -> list[str]:
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidInputError(f"type {text!r} is not known: it has {text[at:].strip()[:1]!r}")
        found.append(match[1] or match[2])
        at = match.end()
    return found
