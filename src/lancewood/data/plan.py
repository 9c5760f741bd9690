"""Which physical columns of which files hold the wanted fields.

Maps field ids and column indices to the tree of a file's own schema, for every file version. Pure:
opens nothing. Names in a file may be old names; ids decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from lancewood.data.codec import FileFacts, pylance_path
from lancewood.errors import FormatError, UnsupportedError
from lancewood.format.logical_type import list_size_of_structs
from lancewood.model.fragment import READABLE_FILE_VERSIONS, DataFile, Fragment
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema

Path = tuple[Field, ...]
"""The nodes from a top-level column down to one with a physical column."""


@dataclass(frozen=True)
class FilePlan:
    """One file that must be read: the wanted fields in it, by physical column."""

    file: DataFile
    columns: Mapping[FieldId, int]
    index: int = 0
    """The number of the file in the fragment."""


@dataclass(frozen=True)
class ColumnPlan:
    """The files to read for one fragment, and the wanted fields that no file holds."""

    files: tuple[FilePlan, ...]
    missing: frozenset[FieldId]

    def bound_to(self, fragment: Fragment) -> ColumnPlan:
        """This plan for another fragment whose files have the same layout."""
        files = fragment.files
        return ColumnPlan(
            tuple(FilePlan(files[each.index], each.columns, each.index) for each in self.files),
            self.missing,
        )


@dataclass(frozen=True)
class FileProjection:
    """What to request from one file, and what its nodes are called there."""

    paths: tuple[str, ...]
    names: Mapping[FieldId, str]
    renamed: frozenset[FieldId]
    """The top-level fields below which, or at which, a name differs from the table's."""
    transplanted: tuple[tuple[Field, tuple[int, ...]], ...] = ()
    """Top-level columns of the file, with their physical columns, that the codec reads only from a
    separate file."""


def plan_columns(fragment: Fragment, wanted: Schema) -> ColumnPlan:
    """Where the wanted part of the table's schema is in a fragment.

    Raises FormatError where the manifest contradicts itself or a non-nullable field is in no file,
    UnsupportedError for file versions and nested blobs that we do not read.
    """
    units = {each[-1].id: each for each in _units(wanted)}
    for path in units.values():
        if path[-1].is_blob and len(path) > 1:
            raise UnsupportedError(
                f"column {'.'.join(each.name for each in path)!r} is a blob inside another column; "
                "Lancewood reads blobs that are columns of their own",
                column=path[0].name,
            )
    files: list[FilePlan] = []
    found: set[FieldId] = set()
    numbered = list(enumerate(fragment.files))
    for index, file in reversed(numbered):  # the newest first; a live id is in one file only
        columns = _columns_in(file, units, found)
        found |= columns.keys()
        files += [FilePlan(file, each, index) for each in _read_together(columns, units)]
    missing = frozenset(units.keys() - found)
    _check_missing(fragment, wanted, missing)
    return ColumnPlan(tuple(reversed(files)), missing)


def listed_columns(schema: Schema, version: tuple[int, int]) -> list[Field]:
    """The fields that have a physical column in a file of this version, in column order."""
    return [path[-1] for path in _physical_columns(schema, version)]


def guess_paths(plan: FilePlan, wanted: Schema) -> tuple[str, ...]:
    """The projection of a file whose columns still have the table's names."""
    units = [path for path in _units(wanted) if path[-1].id in plan.columns]
    return _projected(units, wanted)


def project_file(plan: FilePlan, wanted: Schema, facts: FileFacts, location: str) -> FileProjection:
    """What to request from a file, given its own schema.

    Raises FormatError where the file's tree or types are not those of the table: the codec would
    silently return garbage.
    """
    physical = _columns_of(facts, plan.file.version)
    if len(physical) != facts.num_columns:
        raise FormatError(
            f"data file {location} has {facts.num_columns} columns, its schema describes "
            f"{len(physical)} for version {_dotted(plan.file.version)}",
            file=location,
        )
    first_blob = _first_blob(physical)
    asked: list[Path] = []
    names: dict[FieldId, str] = {}
    renamed: set[FieldId] = set()
    transplanted: dict[FieldId, Field] = {}
    for path in _units(wanted):
        column = plan.columns.get(path[-1].id)
        if column is None:
            continue
        if column >= len(physical):
            raise FormatError(
                f"data file {location} has {len(physical)} columns, the manifest asks for number "
                f"{column}",
                file=location,
            )
        here = physical[column]
        for table_node, file_node in _matched(path, here, location):
            if names.setdefault(table_node.id, file_node.name) != file_node.name:
                raise _shape(path, here, location)
            if table_node.name != file_node.name:
                renamed.add(path[0].id)
        if here[-1].is_blob or column > first_blob:
            transplanted[path[0].id] = here[0]
        else:
            asked.append(here)
    alone = [
        (top, tuple(number for number, each in enumerate(physical) if each[0] is top))
        for top in transplanted.values()
    ]
    paths = _projected(asked, facts.schema)
    return FileProjection(paths, names, frozenset(renamed), tuple(alone))


def _first_blob(physical: Sequence[Path]) -> int:
    """The position of the first blob (v2), after which the codec miscounts the columns of a
    file."""
    located_files = (number for number, each in enumerate(physical) if each[-1].is_blob_v2)
    return next(located_files, len(physical))


def _units(schema: Schema) -> Iterator[Path]:
    def below(path: Path) -> Iterator[Path]:
        if path[-1].is_column_leaf:
            yield path
        else:
            for child in path[-1].children:
                yield from below((*path, child))

    for top in schema.fields:
        yield from below((top,))


@lru_cache(maxsize=256)
def _columns_of(facts: FileFacts, version: tuple[int, int]) -> list[Path]:
    return _physical_columns(facts.schema, version)


def _physical_columns(schema: Schema, version: tuple[int, int]) -> list[Path]:
    if version != (2, 0):
        return list(_units(schema))
    found: list[Path] = []

    def visit(path: Path) -> None:
        found.append(path)
        if not path[-1].is_column_leaf:
            for child in path[-1].children:
                visit((*path, child))

    for top in schema.fields:
        visit((top,))
    return found


def _columns_in(
    file: DataFile, units: Mapping[FieldId, Path], found: set[FieldId]
) -> dict[FieldId, int]:
    if file.version not in READABLE_FILE_VERSIONS.values():
        raise UnsupportedError(
            f"data file {file.path} has version {_dotted(file.version)}; Lancewood reads 2.0 to "
            "2.3: rewrite the table with pylance",
            file=file.path,
        )
    fields, indices = file.fields, file.column_indices
    if len(fields) != len(indices):
        raise FormatError(
            f"data file {file.path} lists {len(fields)} fields and {len(indices)} columns",
            file=file.path,
        )
    columns: dict[FieldId, int] = {}
    for field, index in zip(fields, indices, strict=True):
        if field not in units or field in found:
            continue
        if index < 0 or field in columns:
            raise FormatError(
                f"data file {file.path} lists field {field} "
                + ("twice" if field in columns else "without a column"),
                file=file.path,
            )
        columns[field] = index
    return columns


def _read_together(
    columns: Mapping[FieldId, int], units: Mapping[FieldId, Path]
) -> list[dict[FieldId, int]]:
    """Groups of columns that one reader can read.

    The codec counts the items, not the rows, of a fixed-size list of structs, and then refuses to
    read it together with other columns: it is read by itself. So are blobs.
    """
    groups: dict[FieldId | None, dict[FieldId, int]] = {}
    for field, index in columns.items():
        path = units[field]
        is_alone = path[0].is_blob or any(
            list_size_of_structs(each.logical_type) is not None for each in path
        )
        groups.setdefault(path[0].id if is_alone else None, {})[field] = index
    return list(groups.values())


def _check_missing(fragment: Fragment, wanted: Schema, missing: frozenset[FieldId]) -> None:
    """Raise for a non-nullable field of which nothing is stored."""
    if not missing:
        return

    def is_absent(field: Field) -> bool:
        if field.is_column_leaf:
            return field.id in missing
        return all(is_absent(each) for each in field.children)

    def check(field: Field, path: str) -> None:
        if is_absent(field):
            if not field.nullable:
                raise FormatError(
                    f"fragment {fragment.id} holds no values of column {path!r}, which may not be "
                    "null",
                    fragment=fragment.id,
                    column=path,
                )
            return
        if not field.is_column_leaf:
            for child in field.children:
                check(child, f"{path}.{child.name}")

    for top in wanted.fields:
        check(top, top.name)


def _matched(path: Path, here: Path, location: str) -> Iterator[tuple[Field, Field]]:
    """Each node of the table's path with the file's, their types compared."""
    if len(path) != len(here):
        raise _shape(path, here, location)
    for table_node, file_node in zip(path, here, strict=True):
        is_same = _is_same_type(table_node.logical_type, file_node.logical_type)
        if not is_same or table_node.is_blob != file_node.is_blob:
            raise _shape(path, here, location)
        yield table_node, file_node
    if path[-1].is_packed and not path[-1].is_blob:
        yield from _matched_children(path, here, location)


def _matched_children(path: Path, here: Path, location: str) -> Iterator[tuple[Field, Field]]:
    """The children of a packed struct, which have no ids in the file: by name, else by position."""
    ours, theirs = path[-1].children, here[-1].children
    by_name = {each.name: each for each in theirs}
    if not all(each.name in by_name for each in ours):
        if len(ours) != len(theirs):
            raise _shape(path, here, location)
        by_name = {each.name: there for each, there in zip(ours, theirs, strict=True)}
    for each in ours:
        yield from _matched((*path, each), (*here, by_name[each.name]), location)


_SIBLINGS = (
    {"string", "large_string"},
    {"binary", "large_binary"},
    {"list", "list.struct"},
    {"large_list", "large_list.struct"},
)


def _is_same_type(table: str, file: str) -> bool:
    return table == file or any(table in each and file in each for each in _SIBLINGS)


def _shape(path: Path, here: Path, location: str) -> FormatError:
    asked, found = _described(path), _described(here)
    return FormatError(
        f"data file {location}: the table has {asked}, the file has {found} in that place",
        file=location,
        column=path[0].name,
    )


def _described(path: Path) -> str:
    types = " of ".join(
        f"blob of {each.logical_type}" if each.is_blob else each.logical_type
        for each in reversed(path)
    )
    return f"{'.'.join(each.name for each in path)!r} ({types})"


def _projected(asked: Sequence[Path], schema: Schema) -> tuple[str, ...]:
    """The shortest names to request: a whole column where all of it is wanted."""
    chosen: dict[FieldId, set[FieldId]] = {}
    for here in asked:
        chosen.setdefault(here[0].id, set()).add(here[-1].id)
    whole = {
        top.id
        for top in schema.fields
        if top.id in chosen and chosen[top.id] == {path[-1].id for path in _units(Schema((top,)))}
    }
    paths: dict[str, None] = {}
    for here in asked:
        nodes = here[:1] if here[0].id in whole else _askable(here)
        paths[pylance_path(each.name for each in nodes)] = None
    return tuple(paths)


def _askable(path: Path) -> Path:
    """The path down to the first node that the codec reads only as a whole."""
    for index, each in enumerate(path):
        if each.logical_type == "map" or list_size_of_structs(each.logical_type) is not None:
            return path[: index + 1]
    return path


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
