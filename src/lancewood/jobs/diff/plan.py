"""What a diff compares, checked: two states of a table, or two tables; which columns, by which key.

Rows that only one state has are paired by their key, where there is one: those that an overwrite
wrote anew, or that were deleted and inserted again, are then the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from lancewood.engine.base import as_list
from lancewood.engine.rows import Ints, LiveRows
from lancewood.engine.schema import checked_names, unknown_column
from lancewood.engine.snapshot import Snapshot, common_version, main_location
from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.jobs.diff.columns import ColumnPair, paired_columns
from lancewood.jobs.diff.compare import apart, compare
from lancewood.jobs.diff.states import Comparison, Doubt, Places, State
from lancewood.jobs.diff.tasks import KINDS
from lancewood.jobs.diff.values import RowReader, portions
from lancewood.jobs.merge_into.keys import (
    Key,
    KeyIndex,
    key_of,
    primary_key,
    resolve_key,
    shown_key,
)
from lancewood.model.refs import called
from lancewood.model.schema import Field

_Kind: TypeAlias = Literal["added", "removed", "changed"]
_BEFORE_ALL = 0
"""The version of a state that comes before the first one of a table."""


@dataclass(frozen=True)
class DiffRequest:
    """What a caller asks of a diff, in the words of ``Table.diff``."""

    columns: Sequence[str] | None = None
    where: str | None = None
    change: str | Sequence[str] | None = None
    on: str | Sequence[str] | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of change to be shown; raises InvalidInputError for any other."""
        if self.change is None:
            return KINDS
        asked = [self.change] if isinstance(self.change, str) else as_list("change", self.change)
        for kind in asked:
            if kind not in KINDS:
                raise InvalidInputError(
                    f"{kind!r} is no kind of change: they are {', '.join(KINDS)}"
                )
        return tuple(kind for kind in KINDS if kind in asked)


_EVERYTHING = DiffRequest()


@dataclass(frozen=True, eq=False)
class DiffPlan:
    """Two states, the columns of them that are compared and shown, and the key."""

    one: Snapshot
    other: Snapshot
    is_one_table: bool
    common: Snapshot | None
    """The newest version that both come from, if it is known."""
    paired: tuple[ColumnPair, ...]
    """All columns that both have."""
    columns: tuple[ColumnPair, ...]
    """The columns that are compared."""
    before: tuple[Field, ...]
    """The columns that are shown of the earlier state."""
    after: tuple[Field, ...]
    key: Key | None

    @property
    def names(self) -> tuple[str, str]:
        """Both states, for people."""
        return named(self.one), named(self.other)

    @property
    def kind(self) -> _Kind:
        """``added`` or ``removed`` if only one side has the table, else ``changed``."""
        if self.one.manifest.version == _BEFORE_ALL:
            return "added"
        return "removed" if self.other.manifest.version == _BEFORE_ALL else "changed"

    def comparisons(self, *, pairs_keys: bool = True) -> Iterator[Comparison]:
        """What is known of the rows without their values, but for those of keys; or if rows that
        only one state has are not to be paired here, without any. In ranges of ids, nearly always
        in one.

        Raises UnsupportedError where rows may have moved, and nothing tells which ones, and
        InvalidInputError for two rows with the same key.
        """
        if not pairs_keys and self.key is not None:
            return self._found()
        return self._settled() if self._only_settled is None else iter((self._only_settled,))

    @cached_property
    def _only_settled(self) -> Comparison | None:
        return _only(self._settled())

    def _settled(self) -> Iterator[Comparison]:
        """Rows that only one state has are paired, if there are some of both."""
        is_stable = all(each.manifest.has_stable_row_ids for each in (self.one, self.other))
        if self.key is not None:
            return (_paired_by(self.key, each) for each in self._found())
        if is_stable or not self.is_one_table:
            return self._found()
        return iter(self._checked([*self._found()]))

    def _found(self) -> Iterator[Comparison]:
        """With a key all rows that only one state has come with the last range."""
        if self._only_found is not None:
            return iter((self._only_found,))
        return self._ranges() if self.key is None else _gathered(self._ranges())

    @cached_property
    def _only_found(self) -> Comparison | None:
        return _only(self._ranges())

    def _ranges(self) -> Iterator[Comparison]:
        if self.is_one_table:
            return compare(self.one, self.other, self.common, self.paired)
        return iter((apart(self.one, self.other, self.paired),))

    def _checked(self, found: Sequence[Comparison]) -> Sequence[Comparison]:
        """What was found, if no row may have moved; raises UnsupportedError."""
        gone, new = (
            sum(rows.row_count for rows in each)
            for each in zip(*((each.deleted, each.inserted) for each in found), strict=True)
        )
        if gone and new:
            raise UnsupportedError(
                f"{named(self.other)} has no stable row ids, so that it is not known which of the "
                f"{gone:,} rows that are gone since {named(self.one)} are among the {new:,} new "
                "ones: say by which columns rows are the same (on=), or declare a primary key"
            )
        return found


def plan_diff(
    one: Snapshot,
    other: Snapshot,
    request: DiffRequest = _EVERYTHING,
    *,
    is_one_table: bool = True,
    is_key_needed: bool = True,
) -> DiffPlan:
    """The diff of two states of a table, or of two tables. Those have no row in common without a
    key, which is an error unless ``is_key_needed`` is False.

    Raises InvalidInputError for a column that one of them does not have, and for an ``on``
    that cannot be a key.
    """
    is_alone = any(each.manifest.version == _BEFORE_ALL for each in (one, other))
    common = common_version(one, other) if is_one_table and not is_alone else None
    asked = None if request.columns is None else checked_names(request.columns)
    way_out = "name the columns to compare (columns=), without these"
    paired = paired_columns(one, other, common, asked, way_out)
    compared, before, after = paired, one.schema.fields, other.schema.fields
    if asked is not None:
        compared = tuple(_asked(each, paired, one, other) for each in asked)
        before = tuple(each.before for each in compared)
        after = tuple(each.after for each in compared)
    key = _key(one, other, paired, request.on)
    if key is None and is_key_needed and not is_one_table:
        raise InvalidInputError(
            f"{one.location.uri} and {other.location.uri} share no history: say by which columns "
            "their rows are the same (on=), or declare a primary key"
        )
    return DiffPlan(one, other, is_one_table, common, paired, compared, before, after, key)


def nothing_before(snapshot: Snapshot) -> Snapshot:
    """The state before the first version of a table: its columns, and no row. What a table is
    compared with that only one side has."""
    manifest = snapshot.manifest.bare()
    manifest.message.version = _BEFORE_ALL
    return Snapshot(snapshot.location, manifest, snapshot.scheme)


def is_one_table(one: Snapshot, other: Snapshot) -> bool:
    """Whether two states are of the same table."""
    return _main_uri(one) == _main_uri(other)


def named(snapshot: Snapshot) -> str:
    """A state, for people."""
    head = snapshot.manifest
    if head.version == _BEFORE_ALL:
        return "nothing"
    return f"version {head.version} of {called(head.branch)} of {_main_uri(snapshot)}"


def _main_uri(snapshot: Snapshot) -> str:
    try:
        return main_location(snapshot).uri
    except InvalidInputError:  # a branch that was moved out of its table
        return snapshot.location.uri


def _asked(name: str, paired: Sequence[ColumnPair], one: Snapshot, other: Snapshot) -> ColumnPair:
    """A column by its later name, or else its earlier one."""
    later = {each.after.name: each for each in paired}
    found = later.get(name) or {each.before.name: each for each in paired}.get(name)
    if found is not None:
        return found
    for missing, has in ((one, other), (other, one)):
        if name in has.schema.by_name:
            raise InvalidInputError(
                f"column {name!r} is in {named(has)}, and {named(missing)} has none that is the "
                "same, so that its cells cannot be compared; leave it out",
                column=name,
            )
    raise unknown_column(other.schema, name, other.schema.names)


def _key(
    one: Snapshot,
    other: Snapshot,
    paired: Sequence[ColumnPair],
    on: str | Sequence[str] | None,
) -> Key | None:
    """The key that a caller names, or else the primary key if both have it."""
    if on is None:
        key = key_of(other.schema, primary_key(other.schema))
        return key if key is not None and _has(paired, key) else None
    key = resolve_key(other.schema, on)
    for path in key.paths:
        _asked(path[0], paired, one, other)
    return key


def _has(paired: Sequence[ColumnPair], key: Key) -> bool:
    names = {each.after.name for each in paired}
    return all(path[0] in names for path in key.paths)


def _only(found: Iterator[Comparison]) -> Comparison | None:
    """The comparison, if one range is enough."""
    first = next(found)
    return first if next(found, None) is None else None


def _gathered(found: Iterator[Comparison]) -> Iterator[Comparison]:
    """Comparisons with all rows that only one state has in the last of them: the key pairs rows
    whichever ranges they are in."""
    none, held, last = LiveRows.joined(()), list[Comparison](), next(found)
    for each in found:
        held.append(replace(last, doubts=()))
        yield replace(last, deleted=none, inserted=none)
        last = each
    yield replace(
        last,
        deleted=LiveRows.joined(each.deleted for each in (*held, last)),
        inserted=LiveRows.joined(each.inserted for each in (*held, last)),
    )


def _paired_by(key: Key, found: Comparison) -> Comparison:
    """A comparison with the rows that only one state has paired by their key."""
    if not len(found.deleted.firsts) or not len(found.inserted.firsts):
        return found
    tops = {path[0] for path in key.paths}
    columns = [each for each in found.columns if each.name in tops]
    before = _Keys(key, found.before, found.deleted, [each.before for each in columns], columns)
    after = _Keys(key, found.after, found.inserted, [each.after for each in columns], columns)
    index = before.index()
    after.index()
    match = index.find(after.values)
    there = np.flatnonzero(match >= 0)
    here = match[there]
    doubt = Doubt(found.columns, before.rows(here), after.rows(there))
    return replace(
        found,
        deleted=before.rows(_others(len(before), here)),
        inserted=after.rows(_others(len(after), there)),
        doubts=(*found.doubts, doubt) if len(there) else found.doubts,
    )


def _others(count: int, chosen: Ints) -> Ints:
    left = np.ones(count, np.bool_)
    left[chosen] = False
    return np.flatnonzero(left)


@contextmanager
def comparable_keys(key: Key, rows: pa.RecordBatch, snapshot: Snapshot) -> Iterator[None]:
    """Raise InvalidInputError where key columns of a state cannot become the type of the key."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        kinds = ", ".join(f"{each.name}: {each.type}" for each in rows.schema)
        raise InvalidInputError(
            f"the key of {named(snapshot)} ({kinds}) cannot be compared with that of the other "
            f"side ({', '.join(map(str, key.types))}): {cause}; cast one of the columns, or give "
            "others (on=)"
        ) from cause


def not_unique(snapshot: Snapshot, shown: str, values: object) -> InvalidInputError:
    """The error for two rows with the same key."""
    return InvalidInputError(
        f"two rows of {named(snapshot)} have the key {shown}, so that it does not say which rows "
        "are the same; give columns whose values are unique (on=)",
        key=values,
    )


class _Keys:
    """The keys of rows that only one state has."""

    def __init__(
        self,
        key: Key,
        state: State,
        rows: LiveRows,
        fields: Sequence[Field],
        columns: Sequence[ColumnPair],
    ) -> None:
        self._key, self._state = key, state
        reader = RowReader(state, fields)
        names = [each.name for each in columns]
        placed, parts = list[Places](), list[list[pa.Array]]()
        for (places,) in portions(state.portion_rows(fields), rows):
            found = reader.at(places)
            batch = pa.RecordBatch.from_arrays([found[each.name] for each in fields], names=names)
            with comparable_keys(key, batch, state.snapshot):
                parts.append(key.values(batch))
            placed.append(places)
        self._places = Places(*(np.concatenate(each) for each in zip(*placed, strict=True)))
        self.values = [pa.concat_arrays(each) for each in zip(*parts, strict=True)]

    def __len__(self) -> int:
        return len(self._places.parts)

    def index(self) -> KeyIndex:
        """Raises InvalidInputError for two rows with the same key."""
        index = KeyIndex(self.values)
        twice = index.duplicate()
        if twice is None:
            return index
        shown, values = shown_key(self._key, self.values, twice[0])
        raise not_unique(self._state.snapshot, shown, values)

    def rows(self, chosen: Ints) -> LiveRows:
        """Some of the rows, each by itself."""
        return LiveRows.without_ids(*self._places.at(chosen), np.ones(len(chosen), np.int64))
