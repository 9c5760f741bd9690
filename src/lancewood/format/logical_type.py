"""``logical_type`` strings of leaves, the Arrow types they mean, and types as people write them.

Only the grammar of one string: a struct, a list, a map and a fixed-size list of structs get their
Arrow type from their children, in ``format.schema``. What pyarrow prints for a type is parsed, too:
``int64``, ``list<string>``, ``decimal128(10, 2)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pyarrow as pa

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.schema import EXTENSION_METADATA, EXTENSION_NAME

BFLOAT16 = "lance.bfloat16"
JSON = "json"
PARENTS = frozenset({"struct", "list", "list.struct", "large_list", "large_list.struct", "map"})

_MAX_NESTED_LISTS = 16
_MAX_LIST_SIZE = (1 << 31) - 1
_UNITS = ("s", "ms", "us", "ns")

_PLAIN: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    **{f"duration:{unit}": pa.duration(unit) for unit in _UNITS},
}
_NAMES = {kind: name for name, kind in _PLAIN.items()}
_VARIABLE = frozenset({"string", "large_string", "binary", "large_binary"})
_FIXED_SIZE_LIST = re.compile(r"fixed_size_list:(.*):([0-9]{1,10})\Z", re.DOTALL)
_NUMBER = re.compile(r"-?[0-9]{1,10}\Z")


def is_parent(text: str) -> bool:
    """Whether a field of this logical type has child fields."""
    return text in PARENTS or list_size_of_structs(text) is not None


def list_size_of_structs(text: str) -> int | None:
    """The n of ``fixed_size_list:struct:n``, the only fixed-size list with a child field."""
    found = _FIXED_SIZE_LIST.match(text)
    return _list_size(text, found[2]) if found and found[1] == "struct" else None


def decode_leaf_type(text: str) -> pa.DataType:
    """The Arrow type of a leaf; raises FormatError for a string outside the grammar.

    ``json`` is the Arrow extension over strings; its bytes in the file are handled by ``data``.
    """
    if text in _PLAIN:
        return _PLAIN[text]
    if text == JSON:
        return pa.json_(pa.string())
    head, _, rest = text.partition(":")
    reader = _READERS.get(head)
    if reader is None:
        raise _unknown(text)
    try:
        return reader(text, rest)
    except (ValueError, OverflowError, pa.ArrowException) as cause:
        raise _unknown(text) from cause


def encode_leaf_type(kind: pa.DataType) -> str | None:
    """The logical type of an Arrow leaf type; None if the format has none.

    Views become their plain kind. For an extension type, pass its storage type.
    """
    if kind in _NAMES:
        return _NAMES[kind]
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed_size_binary:{kind.byte_width}"
    if pa.types.is_timestamp(kind):
        return f"timestamp:{kind.unit}:{kind.tz or '-'}"
    if pa.types.is_decimal128(kind):
        return f"decimal:128:{kind.precision}:{kind.scale}"
    if pa.types.is_decimal256(kind):
        return f"decimal:256:{kind.precision}:{kind.scale}"
    if pa.types.is_fixed_size_list(kind):
        element = _encode_element(kind.value_field)
        return None if element is None else f"fixed_size_list:{element}:{kind.list_size}"
    if pa.types.is_dictionary(kind):
        value, index = encode_leaf_type(kind.value_type), encode_leaf_type(kind.index_type)
        return None if not _fits_dictionary(value) else f"dict:{value}:{index}:false"
    return {"string_view": "string", "binary_view": "binary"}.get(str(kind))


def _encode_element(element: pa.Field) -> str | None:
    metadata = element.metadata or {}
    kind = element.type
    name = metadata.get(EXTENSION_NAME.encode(), b"").decode(errors="replace")
    if isinstance(kind, pa.BaseExtensionType):
        name, kind = kind.extension_name, kind.storage_type
    if name == BFLOAT16 and kind == pa.binary(2):
        return BFLOAT16
    if name:
        return None
    text = encode_leaf_type(kind)
    return text if text is not None and _fits_list(text) else None


def _fits_list(text: str) -> bool:
    return text not in _VARIABLE and text != JSON and not text.startswith("dict:")


def _fits_dictionary(value: str | None) -> bool:
    # A colon in the value type would make the string ambiguous; pylance refuses it too.
    return value is not None and ":" not in value and value not in ("null", JSON)


def _list_size(text: str, digits: str) -> int:
    size = int(digits)
    if not 0 < size <= _MAX_LIST_SIZE:
        raise _unknown(text)
    return size


def _read_fixed_size_list(text: str, _rest: str) -> pa.DataType:
    sizes: list[int] = []
    element = text
    while found := _FIXED_SIZE_LIST.match(element):
        sizes.append(_list_size(text, found[2]))
        element = found[1]
        if len(sizes) > _MAX_NESTED_LISTS:
            raise _unknown(text)
    if not sizes or not (element == BFLOAT16 or _fits_list(element)):
        raise _unknown(text)
    if element == BFLOAT16:
        item = pa.field(
            "item", pa.binary(2), metadata={EXTENSION_NAME: BFLOAT16, EXTENSION_METADATA: ""}
        )
    else:
        item = pa.field("item", decode_leaf_type(element))
    for size in reversed(sizes):
        item = pa.field("item", pa.list_(item, size))
    return item.type


def _read_fixed_size_binary(text: str, rest: str) -> pa.DataType:
    if not rest.isascii() or not rest.isdigit() or not 0 < int(rest[:11]) <= _MAX_LIST_SIZE:
        raise _unknown(text)
    return pa.binary(int(rest))


def _read_timestamp(text: str, rest: str) -> pa.DataType:
    unit, colon, zone = rest.partition(":")
    if unit not in _UNITS or not colon or not zone:
        raise _unknown(text)
    return pa.timestamp(unit, None if zone == "-" else zone)


def _read_decimal(text: str, rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) != 3 or not all(_NUMBER.match(each) for each in parts):
        raise _unknown(text)
    width, precision, scale = (int(each) for each in parts)
    make: Callable[[int, int], pa.DataType] | None = {
        128: pa.decimal128,
        256: pa.decimal256,
    }.get(width)
    if make is None or abs(scale) > 127:
        raise _unknown(text)
    return make(precision, scale)


def _read_dictionary(text: str, rest: str) -> pa.DataType:
    parts = rest.split(":")
    if len(parts) != 3 or parts[2] not in ("false", "true") or not _fits_dictionary(parts[0]):
        raise _unknown(text)
    value, index = _PLAIN.get(parts[0]), _PLAIN.get(parts[1])
    if value is None or index is None or not pa.types.is_integer(index):
        raise _unknown(text)
    return pa.dictionary(index, value)


def _unknown(text: str) -> FormatError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return FormatError(
        f"logical type {shown!r} is not one that Lancewood knows", logical_type=shown
    )


_READERS: dict[str, Callable[[str, str], pa.DataType]] = {
    "fixed_size_list": _read_fixed_size_list,
    "fixed_size_binary": _read_fixed_size_binary,
    "timestamp": _read_timestamp,
    "decimal": _read_decimal,
    "dict": _read_dictionary,
}


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
_UNIT_NAMES = ("s", "ms", "us", "ns")


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
        unit, zone = self._one_of(_UNIT_NAMES), None
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
        unit = self._one_of(_UNIT_NAMES)
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
