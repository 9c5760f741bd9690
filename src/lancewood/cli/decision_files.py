"""Files of decisions on conflicts, read with the types that the columns of the tables have.

A file is what ``lw conflicts -o`` writes: what conflicts are shown with, and values by column. The
types of all of it are known from the tables, so that no value has to be guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import pyarrow as pa

from lancewood.errors import InvalidInputError, MergeConflictError
from lancewood.files.formats import FileFormat, require_format
from lancewood.files.sources import ImportOptions, SourceFiles
from lancewood.files.text_forms import from_read

_TEXT = pa.string()
_NAMES = {"_conflict": _TEXT, "take": _TEXT}
"""Read as text, whatever the digits look like."""
_SIDE = "ours"
_VALUE = "merged"
_ADVICE = re.compile(r"(\. Types are guessed[^;]*)?;[^;]*--cast [^;]*")
"""What the errors of files of rows say about an option of imports."""


class FoundConflicts(Protocol):
    """The conflicts of a table that is merged."""

    @property
    def schema(self) -> pa.Schema: ...

    def names(self) -> list[str]: ...


def read_decisions(path: str, conflicts: Mapping[str, FoundConflicts]) -> pa.Table:
    """The decisions in a file; ``conflicts`` are those of the tables that are merged.

    Raises InvalidInputError for a value that its column cannot hold. Where tables have columns of
    one name and of different types, those count whose conflicts the file names.
    """
    try:
        return _read_for(path, conflicts)
    except InvalidInputError as cause:
        raise InvalidInputError(_ADVICE.sub("", cause.message), **cause.facts) from cause


def _read_for(path: str, conflicts: Mapping[str, FoundConflicts]) -> pa.Table:
    schemas = _known_schemas(conflicts)
    found, disputed = _read(path, schemas.values())
    if not any(found.column(name).null_count < len(found) for name in disputed):
        return found
    named = frozenset(found.column("_conflict").to_pylist())
    meant = [
        schema
        for table, schema in schemas.items()
        if not named.isdisjoint(conflicts[table].names())
    ]
    found, disputed = _read(path, meant)
    for name in disputed:
        if found.column(name).null_count < len(found):
            raise InvalidInputError(
                f"{path} has values for column {name!r}, which has different types in the tables "
                f"that are merged: {', '.join(schemas)}; decide them in a file for each, with lw "
                "resolve",
                column=name,
            )
    return found


def _known_schemas(conflicts: Mapping[str, FoundConflicts]) -> dict[str, pa.Schema]:
    """What conflicts of the tables are shown with, but for tables whose columns are in conflict:
    they are not merged."""
    found = {}
    for table, each in conflicts.items():
        with suppress(MergeConflictError):
            found[table] = each.schema
    return found


def _read(path: str, schemas: Iterable[pa.Schema]) -> tuple[pa.Table, list[str]]:
    """The decisions in a file, and its columns that have no one type in tables of these conflicts.

    A name of what is shown may be that of a column as well: what is there says which type is read.
    """
    is_csv = require_format(path, None) is FileFormat.CSV
    types = dict(_NAMES)
    twofold: dict[str, tuple[pa.DataType, pa.DataType]] = {}
    disputed = set[str]()
    for schema in schemas:
        shown = _shown_types(schema, is_csv)
        values = {each.name: each.type for each in schema.field(_SIDE).type}
        twofold |= {name: (shown[name], values[name]) for name in values.keys() & shown.keys()}
        own = {f"{_VALUE}.{name}": kind for name, kind in values.items()}
        for name, kind in {**values, **shown, **own, **_NAMES}.items():
            if types.setdefault(name, kind) != kind:
                disputed.add(name)
    twofold = {name: kinds for name, kinds in twofold.items() if name not in disputed}
    types = {name: kind for name, kind in types.items() if name not in {*disputed, *twofold}}
    source = SourceFiles([path], _options(types))
    names = source.schema.names
    if is_csv:
        # What has no type here may look like numbers in one row and not in another.
        types = dict.fromkeys(names, _TEXT) | types
    for name in (each for each in names if each in twofold and not is_csv):
        of_shown, of_column = twofold[name]
        is_shown = _is_alike(source.schema.field(name).type, of_shown)
        types[name] = of_shown if is_shown else of_column
    source = SourceFiles([path], _options(types))
    found = source.reader(lambda rows, size: None).read_all().combine_chunks()
    for name in twofold:
        if name in names:
            found = _as_column(found, name, twofold[name][1])
    return found, [each for each in names if each in disputed]


def _is_alike(found: pa.DataType, shown: pa.DataType) -> bool:
    """Whether what a column looks like is what conflicts are shown with."""
    if pa.types.is_struct(found) and pa.types.is_struct(shown):
        return {each.name for each in found} <= {each.name for each in shown}
    return bool(found == shown)


def _options(types: Mapping[str, pa.DataType]) -> ImportOptions:
    return ImportOptions(table=pa.schema([*types.items()]))


def _shown_types(schema: pa.Schema, is_csv: bool) -> dict[str, pa.DataType]:
    """The types of what conflicts are shown with. In CSV all of it is text, and a struct is a
    column for each of its fields."""
    found: dict[str, pa.DataType] = {}
    for each in schema:
        if each.name in _NAMES:
            continue
        found[each.name] = _TEXT if is_csv else each.type
        if is_csv and pa.types.is_struct(each.type):
            found |= {f"{each.name}.{part.name}": _TEXT for part in each.type}
    return found


def _as_column(found: pa.Table, name: str, kind: pa.DataType) -> pa.Table:
    """Decisions in which texts in a column become its type, if all of them can be that."""
    values: Any = found.column(name).combine_chunks()
    if values.type != _TEXT:
        return found
    with suppress(InvalidInputError):
        values = from_read(values, kind)
    at = found.schema.get_field_index(name)
    return found.set_column(at, pa.field(name, values.type), values)
