"""How a column is to be encoded: the ``lance-encoding:`` keys in its field metadata.

Keys and values that the codec does not understand are refused before a file is begun: the codec
ignores some mistakes, fails late on others, and ends the process on a few. Valid ones go into the
data file and the manifest as they are. They are hints: the codec decides whether a page gets
smaller, and 2.0 files support only compression of strings and bytes.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.format.logical_type import JSON, decode_leaf_type, is_parent
from lancewood.model.schema import BLOB, OLD_PACKED, PACKED, Field, Schema

PREFIX = "lance-encoding:"
COMPRESSION = f"{PREFIX}compression"
LEVEL = f"{PREFIX}compression-level"
STRUCTURAL = f"{PREFIX}structural-encoding"
CODECS = ("zstd", "lz4", "fsst", "none")
LEVELS = range(1, 23)
STRUCTURES = ("miniblock", "fullzip")

_VARIABLE = frozenset({"string", "large_string", "binary", "large_binary", JSON})
_NOT_FSST_IN_2_0 = _VARIABLE - {"string"}
"""The codec panics on the long ones and misreads bytes; on other types it has no effect."""


def check_encodings(schema: Schema, file_version: str) -> None:
    """Raise InvalidInputError or UnsupportedError for what a file of this version cannot take."""
    for top in schema.fields:
        _check(top, top.name, file_version, in_map=False)


def check_encoding_keys(schema: Schema) -> None:
    """Raise InvalidInputError for a key that no codec knows, most likely misspelt.

    For new schemas: in one that was read, a newer writer may have set it.
    """
    for field in schema.walk():
        for key in field.metadata:
            if key.startswith(PREFIX) and key not in _KNOWN:
                close = difflib.get_close_matches(key, _KNOWN, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise InvalidInputError(
                    f"column {field.name!r} has the metadata {key!r}, which is not known{hint}. "
                    f"The prefix {PREFIX!r} is reserved for {', '.join(_KNOWN)}",
                    column=field.name,
                    key=key,
                )


def check_hints(field: Field, path: str, file_version: str) -> None:
    """Raise InvalidInputError for an invalid value of one field's own keys.

    Ignores what decides the layout of a file, and the fields below.
    """
    texts = _texts(field)
    for key, text in texts.items():
        asked = _VALUES.get(key)
        if asked is not None and not asked[0](text):
            raise _refused(path, key, text, f"expected {asked[1]}")
    _check_compression(field, path, texts, file_version)


def _texts(field: Field) -> dict[str, str]:
    return {
        key: value.decode(errors="replace")
        for key, value in field.metadata.items()
        if key in _KNOWN
    }


def _check(field: Field, path: str, file_version: str, *, in_map: bool) -> None:
    check_hints(field, path, file_version)
    texts = _texts(field)
    if BLOB in texts:
        _check_blob(field, path, texts[BLOB], file_version)
    elif field.is_blob_v2:
        raise _unwritable_blob(path, file_version)
    if PACKED in texts:
        _check_packed_value(field, path, PACKED, texts[PACKED], file_version)
    if field.metadata.get(OLD_PACKED, b"").lower() == b"true":
        _check_packed_value(field, path, OLD_PACKED, "true", file_version)
    if field.is_packed:
        if in_map:
            raise _refused(path, PACKED, "true", "the codec does not pack inside a map")
        for child in field.children:
            _check_packable(child, f"{path}.{child.name}", file_version)
    is_map = in_map or field.logical_type == "map"
    for child in field.children:
        _check(child, f"{path}.{child.name}", file_version, in_map=is_map)


def _check_compression(
    field: Field, path: str, texts: Mapping[str, str], file_version: str
) -> None:
    codec, level = texts.get(COMPRESSION), texts.get(LEVEL)
    if level is not None and codec != "zstd":
        raise _refused(path, LEVEL, level, f"only {COMPRESSION!r} = 'zstd' has levels")
    if codec is None:
        return
    if is_parent(field.logical_type) and not field.is_packed:
        below = ", ".join(repr(each.name) for each in field.children)
        raise _refused(
            path, COMPRESSION, codec, f"a {field.logical_type} is stored as {below}: put it there"
        )
    if file_version == "2.0" and codec == "fsst" and field.logical_type in _NOT_FSST_IN_2_0:
        raise _refused(path, COMPRESSION, codec, "in 2.0 files it is for the type string only")


def _check_blob(field: Field, path: str, text: str, file_version: str) -> None:
    if field.is_blob_v2 or (field.logical_type == "large_binary" and file_version == "2.2"):
        raise _unwritable_blob(path, file_version)
    if field.logical_type != "large_binary":
        raise _refused(path, BLOB, text, "a blob is of the type large_binary")
    if "." in path:
        raise UnsupportedError(
            f"column {path!r} is a blob inside another column, which Lancewood does not write; "
            f"drop the metadata {BLOB!r}",
            column=path,
        )
    if text.lower() != "true":
        raise _refused(path, BLOB, text, "every value counts as true: leave the key out")


def _unwritable_blob(path: str, file_version: str) -> UnsupportedError:
    return UnsupportedError(
        f"column {path!r} is a blob, which Lancewood does not write into version {file_version} "
        f"files; drop the metadata {BLOB!r}, or write version 2.1",
        column=path,
    )


def _check_packed_value(field: Field, path: str, key: str, text: str, file_version: str) -> None:
    """Check the key's value. Outside of structs it has no effect, but the format's own example has
    it on a string."""
    if is_parent(field.logical_type) and field.logical_type != "struct":
        raise _refused(path, key, text, f"a {field.logical_type} cannot be packed")
    if field.logical_type == "struct" and file_version == "2.0" and text.lower() != "true":
        raise _refused(path, key, text, "in 2.0 files every value counts as true: leave it out")


def _check_packable(child: Field, path: str, file_version: str) -> None:
    """Check a child of a packed struct: only values of whole bytes can be packed."""
    kind = child.logical_type
    if is_parent(kind) or kind in ("bool", "null") or kind.startswith("dict:"):
        is_possible = False
    elif kind in _VARIABLE or _is_vector(kind):
        is_possible = file_version == "2.2" or (_is_vector(kind) and file_version == "2.0")
    else:
        is_possible = True
    if not is_possible or child.is_blob:
        raise UnsupportedError(
            f"column {path!r} is {kind}, which a packed struct of a {file_version} file cannot "
            f"hold; drop the metadata {PACKED!r}",
            column=path,
        )


def _is_vector(kind: str) -> bool:
    return not is_parent(kind) and pa.types.is_fixed_size_list(decode_leaf_type(kind))


def _refused(path: str, key: str, text: str, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {path!r} has the metadata {key!r} = {text!r}: {why}", column=path, key=key
    )


def _is_level(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 3 and int(text) in LEVELS


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) < 19 and int(text) > 0


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False


_Check = tuple[Callable[[str], bool], str]


def _one_of(*words: str, any_case: bool = False) -> _Check:
    def test(text: str) -> bool:
        return (text.lower() if any_case else text) in words

    return test, "one of " + ", ".join(words)


_COUNT: _Check = (_is_count, "a whole number from 1")
_SHARE: _Check = (_is_share, "a number above 0 and up to 1")
_LEVEL: _Check = (_is_level, f"a whole number from {LEVELS[0]} to {LEVELS[-1]}")
_VALUES: Mapping[str, _Check] = {
    COMPRESSION: _one_of(*CODECS),
    LEVEL: _LEVEL,
    STRUCTURAL: _one_of(*STRUCTURES, any_case=True),
    PACKED: _one_of("true", "false", any_case=True),
    f"{PREFIX}bss": _one_of("off", "on", "auto"),
    f"{PREFIX}rle-threshold": _SHARE,
    f"{PREFIX}dict-divisor": _COUNT,
    f"{PREFIX}dict-size-ratio": _SHARE,
    f"{PREFIX}dict-values-compression": _one_of("zstd", "lz4", "none"),
    f"{PREFIX}dict-values-compression-level": _LEVEL,
    f"{PREFIX}minichunk-size": _COUNT,
}
_KNOWN = (
    BLOB,
    *_VALUES,
    f"{PREFIX}blob-inline-size-threshold",
    f"{PREFIX}blob-dedicated-size-threshold",
    f"{PREFIX}blob-pack-file-size-threshold",
)
