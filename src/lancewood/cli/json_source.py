"""Reading one file of JSON: its columns with guessed types first, then its rows.

Arrow reads the blocks; what it would crash on, or change without a word, is looked for before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.cli.json_blocks import json_blocks
from lancewood.cli.json_checks import check_rows, find_inexact
from lancewood.cli.row_source import (
    BLOCK_BYTES,
    GUESSED,
    STDIN,
    bytes_of,
    inexact,
    reading,
    stdin_bytes,
)
from lancewood.cli.text_forms import json_read_type
from lancewood.errors import InvalidInputError

_ZONED = "^.{11}.*[Z+-]"
"""A moment whose time of day is followed by a zone."""


class JsonSource:
    """A file of JSON lines, or of one array of objects."""

    is_text = may_lack_columns = True
    total_rows: int | None = None

    def __init__(self, path: str, name: str) -> None:
        self.name, self._path = name, path
        blocks = self._blocks()
        first = next(blocks, b"")
        if not first:
            raise InvalidInputError(f"{name} holds no row", file=name)
        self.schema = _guess(first)
        self._stdin = (first, blocks) if path == STDIN else None

    def batches(self, wanted: pa.Schema, guessed: frozenset[str]) -> Iterator[pa.RecordBatch]:
        types = pa.schema([pa.field(each.name, json_read_type(each.type)) for each in wanted])
        floats = {
            each.name: each.type
            for each in wanted
            if each.name in guessed and _holds(each.type, pa.types.is_floating)
        }
        with reading(self.name, GUESSED):
            for block in self._all_blocks():
                found = find_inexact(block, floats)
                if found is not None:
                    raise inexact(self.name, *found)
                yield from _read(block, types, "error").to_batches()

    def _all_blocks(self) -> Iterator[bytes]:
        if self._stdin is None:
            yield from self._blocks()
            return
        first, others = self._stdin
        yield first
        yield from others

    def _blocks(self) -> Iterator[bytes]:
        if self._path == STDIN:
            blocks = json_blocks(stdin_bytes(), self.name, BLOCK_BYTES)
            yield from self._checked(blocks)
            return
        with bytes_of(self._path) as stream:
            yield from self._checked(json_blocks(stream, self.name, BLOCK_BYTES))

    def _checked(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        for block in blocks:
            check_rows(block, self.name)
            yield block


def _read(block: bytes, types: pa.Schema | None, unexpected: str) -> pa.Table:
    import pyarrow.json as json

    return json.read_json(
        pa.BufferReader(block),
        read_options=json.ReadOptions(use_threads=False, block_size=len(block)),
        parse_options=json.ParseOptions(
            explicit_schema=types, unexpected_field_behavior=unexpected
        ),
    )


def _guess(block: bytes) -> pa.Schema:
    """The types that the values look like; Arrow alone would drop the zones of moments."""
    found = _read(block, None, "infer").schema
    moments = [each for each in found if _holds(each.type, pa.types.is_timestamp)]
    if not moments:
        return found
    types = pa.schema([pa.field(each.name, json_read_type(each.type)) for each in moments])
    texts = _read(block, types, "ignore")
    for each in moments:
        if found.names.count(each.name) == 1:
            kind = _zoned(texts.column(each.name).combine_chunks(), each.type)
            found = found.set(found.get_field_index(each.name), each.with_type(kind))
    return found


def _zoned(texts: Any, kind: pa.DataType) -> pa.DataType:
    """The type with UTC where all moments have a zone, and text where only some have one."""
    if pa.types.is_timestamp(kind):
        has_zone = set(pc.match_substring_regex(texts, _ZONED).drop_null().to_pylist())
        if len(has_zone) > 1:
            return pa.string()
        return pa.timestamp(kind.unit, "UTC") if True in has_zone else kind
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_zoned(texts.flatten(), kind.value_type)))
    if pa.types.is_struct(kind):
        parts = zip(texts.flatten(), kind, strict=True)
        return pa.struct([each.with_type(_zoned(part, each.type)) for part, each in parts])
    return kind


def _holds(kind: pa.DataType, test: Any) -> bool:
    if pa.types.is_struct(kind):
        return any(_holds(each.type, test) for each in kind)
    if pa.types.is_list(kind):
        return _holds(kind.value_type, test)
    return bool(test(kind))
