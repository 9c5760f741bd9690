"""Whether a row was really changed by the version that is recorded as the last to change it.

A version that only adds or casts columns marks every row as changed. Such a mark does not count:
the row is judged by the version before. Reads transactions, manifests, deletion files and
sequences, never a column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.rows import (
    Ids,
    Ints,
    LiveRows,
    RowFacts,
    Stretches,
    cut_at,
    distinct,
    stretches_of,
)
from lancewood.engine.snapshot import Descent, Snapshot
from lancewood.errors import LancewoodError, NotFoundError, UnsupportedError
from lancewood.model.fragment import LINEAGE_FIELDS, Fragment, Lineage
from lancewood.model.ids import FieldId, Version
from lancewood.model.manifest import Manifest, decode_fragment, peek_fragment_id
from lancewood.model.transaction import (
    MARKS_PROPERTY,
    Merge,
    MissingTransaction,
    UnknownOperation,
    Update,
)


def common_fields(one: Manifest, other: Manifest) -> frozenset[FieldId]:
    """The fields of columns that are the same in both versions, spilled row ids included. A cast
    below a list or a map rewrites the whole column, but the values of its other fields stay the
    same."""
    return frozenset((LINEAGE_FIELDS["row_ids"],)).union(*(_columns(one) & _columns(other)))


def _field_ids(manifest: Manifest) -> set[int]:
    return {each.id for each in manifest.fields}


def _columns(manifest: Manifest) -> set[frozenset[FieldId]]:
    """For each top-level column the ids of all its fields."""
    tops: dict[int, int] = {}
    columns: dict[int, set[FieldId]] = {}
    for each in manifest.fields:  # children come after their parents
        tops[each.id] = tops.get(each.parent_id, each.id)
        columns.setdefault(tops[each.id], set()).add(FieldId(each.id))
    return {frozenset(each) for each in columns.values()}


def same_columns(one: Fragment, other: Fragment, fields: frozenset[FieldId]) -> bool:
    """Whether the fields are in the same files: then the same rows have the same values."""
    return _locations(one, fields) == _locations(other, fields)


def moved_fields(one: Fragment, other: Fragment, fields: frozenset[FieldId]) -> frozenset[FieldId]:
    """The fields that are not in the same files in both."""
    before, after = _locations(one, fields), _locations(other, fields)
    return frozenset(each for each in fields if before.get(each) != after.get(each))


def kept_columns(one: Fragment, other: Fragment, fields: frozenset[FieldId]) -> bool:
    """Whether the fields that the first has are in the same files in both."""
    return _locations(one, fields).items() <= _locations(other, fields).items()


def same_marks(one: Fragment, other: Fragment) -> bool:
    """Whether the same versions last changed the rows, as far as that is visible without
    reading."""
    what: Lineage = "last_updated_at_versions"
    spilled = frozenset((LINEAGE_FIELDS[what],))
    return one.lineage(what) == other.lineage(what) and same_columns(one, other, spilled)


def _locations(
    fragment: Fragment, fields: frozenset[FieldId]
) -> dict[FieldId, tuple[str, int, int]]:
    locations = {}
    for file in fragment.message.files:
        base = file.base_id if file.HasField("base_id") else -1
        for number, column in zip(file.fields, file.column_indices, strict=False):
            if number in fields:
                locations[FieldId(number)] = file.path, base, column
    return locations


@dataclass(frozen=True)
class Pieces:
    """Stretches of rows that are in both versions, and which version last changed them in each."""

    firsts: Ids
    counts: Ints
    in_since: Ids
    in_until: Ids

    def __len__(self) -> int:
        return len(self.firsts)

    def only(self, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Pieces:
        return Pieces(
            self.firsts[chosen], self.counts[chosen], self.in_since[chosen], self.in_until[chosen]
        )

    def and_also(self, other: Pieces) -> Pieces:
        pairs = zip(_parts(self), _parts(other), strict=True)
        return Pieces(*(np.concatenate(each) for each in pairs))


def _parts(pieces: Pieces) -> tuple[Ids, Ints, Ids, Ids]:
    return pieces.firsts, pieces.counts, pieces.in_since, pieces.in_until


@dataclass
class RowMarks:
    """The marks of rows in two versions, and in those that they lead to."""

    since: Snapshot
    until: Snapshot
    passed: set[bytes] = field(default_factory=set)
    """Fragments whose rows are the same in both versions and need no comparison."""
    _known: dict[bytes, Stretches] = field(default_factory=dict)
    _operations: dict[Version, type | LancewoodError] = field(default_factory=dict)

    @cached_property
    def _descent(self) -> Descent:
        return Descent(self.until)

    def stretches(self, snapshot: Snapshot, raws: Iterable[bytes]) -> Iterator[Stretches]:
        """The live rows of undecoded fragments; cached."""
        for raw in raws:
            known = self._known.get(raw)
            if known is None:
                fragment = Fragment(decode_fragment(raw, snapshot.manifest.name))
                known = self._known[raw] = stretches_of(RowFacts(snapshot, fragment))
            yield known

    def really_updated(self, pieces: Pieces) -> Iterator[Pieces]:
        """Of rows that are in both versions, those that got other values.

        The later of the two marks decides, version by version downwards, until the marks are the
        same or one of them is that of a real change.
        """
        self._learn(pieces.only(pieces.in_since != pieces.in_until))
        while len(pieces := pieces.only(pieces.in_since != pieces.in_until)):
            top = max(int(pieces.in_since.max()), int(pieces.in_until.max()))
            at_top = (pieces.in_since == top) | (pieces.in_until == top)
            marked, pieces = pieces.only(at_top), pieces.only(~at_top)
            earlier = self._before(Version(top))
            if earlier is None:
                yield marked
                continue
            marked = _cut(marked, np.concatenate((earlier.firsts, earlier.ends)))
            at = earlier.find(marked.firsts)
            yield marked.only(at < 0)
            marked, at = marked.only(at >= 0), at[at >= 0]
            marks = earlier.updated[at]
            pieces = pieces.and_also(
                Pieces(
                    marked.firsts,
                    marked.counts,
                    np.where(marked.in_since == top, marks, marked.in_since),
                    np.where(marked.in_until == top, marks, marked.in_until),
                )
            )

    def _before(self, version: Version) -> LiveRows | None:
        """The rows that a version marked without changing them, as they were before it; None for a
        version that marks only what it changed."""
        operation = self._operation(version)
        if isinstance(operation, LancewoodError):
            raise operation
        if operation is not Merge:
            return None
        then, now = self._load(Version(version - 1), version), self._load(version, version)
        name, fields = then.manifest.name, common_fields(then.manifest, now.manifest)
        # Dropping columns writes a file of nulls for a fragment that would have no file left.
        is_drop = _field_ids(now.manifest) < _field_ids(then.manifest)
        are_kept = kept_columns if is_drop else same_columns
        raws = now.manifest.message.fragments
        by_id = {peek_fragment_id(raw, now.manifest.name): raw for raw in raws}
        chosen = []
        for raw in then.manifest.message.fragments:
            other = by_id.get(peek_fragment_id(raw, name)) if raw not in self.passed else None
            if other is not None and are_kept(
                Fragment(decode_fragment(raw, name)),
                Fragment(decode_fragment(other, now.manifest.name)),
                fields,
            ):
                chosen.append(raw)
        return LiveRows.of(self.stretches(then, chosen), name)

    def _learn(self, pieces: Pieces) -> None:
        """Look up the versions that the marks name, several at once."""
        versions = distinct(np.maximum(pieces.in_since, pieces.in_until)).tolist()
        tasks = (partial(self._look, Version(each)) for each in versions)
        self._operations.update(in_order(tasks, workers=WORKERS))

    def _operation(self, version: Version) -> type | LancewoodError:
        if version not in self._operations:
            self._operations.update(self._look(version))
        return self._operations[version]

    def _look(self, version: Version) -> Iterator[tuple[Version, type | LancewoodError]]:
        """The kind of operation that made a version, or why that is unknown."""
        transaction = self._descent.transaction(version)
        operation = transaction.operation
        if isinstance(operation, MissingTransaction):
            yield version, self._refusal(NotFoundError, version, operation.why)
        elif isinstance(operation, UnknownOperation):
            why = f"its operation (number {operation.number}) is not known to this Lancewood"
            yield version, self._refusal(UnsupportedError, version, why)
        elif MARKS_PROPERTY in transaction.properties:
            yield version, Update
        else:
            yield version, type(operation)

    def _load(self, version: Version, because: Version) -> Snapshot:
        for known in (self.since, self.until):
            if known.manifest.version == version:
                return known
        try:
            return self._descent.load(version)
        except NotFoundError as cause:
            why = f"version {version} was cleaned up"
            raise self._refusal(NotFoundError, because, why) from cause

    def _refusal(self, kind: type[LancewoodError], version: Version, why: str) -> LancewoodError:
        return kind(
            f"the changes of {self.until.location.uri} from version {self.since.manifest.version} "
            f"to {self.until.manifest.version} are unknown: version {version} may have changed "
            f"rows, or only added columns, and {why}. Ask for changes since version {version} or "
            "later",
            version=version,
        )


def _cut(pieces: Pieces, edges: Ids) -> Pieces:
    order = np.argsort(pieces.firsts)
    firsts = pieces.firsts[order]
    starts, counts = cut_at(edges, firsts, pieces.counts[order])
    at = order[np.searchsorted(firsts, starts, side="right") - 1]
    return Pieces(starts, counts, pieces.in_since[at], pieces.in_until[at])
