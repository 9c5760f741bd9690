"""Which columns of an earlier version the columns of a later one are: lineages, read from history.

``rules.lineage`` says what makes a field the same. Where the schemas of both versions leave a
doubt, the data files that both have, and then the transactions of the versions in between, decide.
Reads no data file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import NamedTuple

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.snapshot import (
    Descent,
    Snapshot,
    branch_location,
    first_holding,
    landed,
    load_snapshot,
    main_location,
)
from lancewood.errors import NotFoundError
from lancewood.format.schema import decode_schema
from lancewood.model.ids import FieldId, Version, is_detached
from lancewood.model.lines import Reached, Vector, held_by, line_of
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.refs import BranchName
from lancewood.model.schema import Field, Schema
from lancewood.model.transaction import (
    Clone,
    Merge,
    MissingTransaction,
    Overwrite,
    Project,
    Restore,
    Transaction,
    UnknownOperation,
)
from lancewood.rules.lineage import (
    Evidence,
    Lineage,
    Related,
    as_in,
    by_names,
    composed,
    merged_in,
    one_step,
    related,
    reversed_,
    rewritten_in,
    unchanged,
)

_MOST_VERSIONS = 1_000
"""If the versions are further apart, their transactions are not read."""
_MOST_MERGES = 64
"""Number of merges of one line into another that are looked at, the newest first."""


def related_columns(since: Snapshot, until: Snapshot) -> Related:
    """The lineage of the columns of a version back to an earlier one of its history."""
    way = _Way(since, until)
    evidence = Evidence(way.is_renamed, lambda: way.lineage, way.is_replaced)
    return related(since.schema, until.schema, evidence)


def find_earlier(since: Snapshot, until: Snapshot, columns: Schema) -> Mapping[str, Field]:
    """What to read at ``since`` for columns of ``until``, by their names there.

    A column that was cast has its earlier type; a newer one is left out, and a newer field inside
    another one is read as null. Any may be null there, whatever it may be now.
    """
    followed = related_columns(since, until)
    what = f"what changed in {until.location.uri} since version {since.manifest.version}"
    followed.check(f"{what} cannot be told", "ask what changed since a later version")
    ids, earlier = followed.ids, since.schema.by_id
    found = {each.name: as_in(each, ids, earlier) for each in columns.fields}
    return {name: replace(each, nullable=True) for name, each in found.items() if each is not None}


def merged_columns(held: Snapshot, holder: Snapshot) -> Lineage | None:
    """The lineage of columns that came to a version by merges of another line, back to a version of
    that line: from ids of ``holder`` to those of ``held``. Empty where there was no merge; None
    where a merge is gone that might tell.

    The newest merge counts first: it says of all columns which they are there. A column is followed
    from the merge on, on either line, and through what was merged if that had the column by a merge
    as well.
    """
    own, there = landed(held), landed(holder)
    if own is None or there is None or is_detached(there.manifest.version):
        return {}
    line, found = line_of(own.manifest).id, dict[FieldId, FieldId]()
    reached = held_by(there.manifest).get(line)
    for _ in range(_MOST_MERGES):
        if reached is None:
            return found
        after = first_holding(there, line, reached.version)
        before = _held_before(after)
        merged = None if before is None else _merged_in(after, before)
        is_restored = held_by(after.manifest)[line] != reached
        if before is None or merged is None or is_restored:
            return None
        is_direct = line_of(merged.manifest).id == line
        to_held = _either_way(own, merged) if is_direct else merged_columns(own, merged)
        if to_held is None:
            return None
        made_by = Descent(after).transaction(after.manifest.version)
        at_merge = merged_in(made_by.properties, merged.schema, after.schema)
        came = composed(related_columns(after, there).ids, at_merge)
        known = {*found.values()}
        for new, old in composed(came, to_held).items():
            if new not in found and old not in known:
                found[new] = old
        # What is in what was merged is told; it may lack what an older state had.
        is_newer = is_direct and own.manifest.version >= merged.manifest.version
        if is_newer or own.schema.by_id.keys() <= {*to_held.values()}:
            return found
        reached = before.get(line)
    return None


def merged_from_others(one: Snapshot, other: Snapshot) -> Iterator[Lineage | None]:
    """The lineages of columns that both versions have by merges of a third line, from ids of
    ``other`` to those of ``one``; None for a line whose state is gone that both hold."""
    states = landed(one), landed(other)
    if states[0] is None or states[1] is None:
        return
    mine, theirs = (held_by(each.manifest) for each in states if each is not None)
    own = {line_of(each.manifest).id for each in states if each is not None}
    for line in sorted(mine.keys() & theirs.keys() - own):
        reached = min(mine[line], theirs[line], key=lambda each: each.version)
        state = _state_of(states[0], line, reached)
        back = None if state is None else merged_columns(state, one)
        there = None if state is None or back is None else merged_columns(state, other)
        yield None if back is None or there is None else composed(there, reversed_(back))


def _state_of(known: Snapshot, line: str, reached: Reached) -> Snapshot | None:
    """A version of another line of the table; None if it is gone."""
    branch = None if reached.branch is None else BranchName.found(reached.branch)
    with suppress(NotFoundError):
        found = load_snapshot(
            branch_location(main_location(known), branch), version=reached.version
        )
        if line_of(found.manifest).id == line:
            return found
    return None


def _held_before(after: Snapshot) -> Vector | None:
    """What the version before one held of other lines; nothing before the first of a line. None
    where it is gone."""
    if after.manifest.version <= line_of(after.manifest).first:
        return {}
    try:
        return held_by(load_snapshot(after.location, version=after.manifest.version - 1).manifest)
    except NotFoundError:
        return None


def _merged_in(after: Snapshot, before: Vector) -> Snapshot | None:
    """The state that a version merged: of all that it took over, the one that holds the others.
    None where that is gone, or not to be told."""
    own = line_of(after.manifest).id
    came = {
        line: reached
        for line, reached in held_by(after.manifest).items()
        if line != own and (line not in before or before[line].version < reached.version)
    }
    for line, reached in came.items():
        state = _state_of(after, line, reached)
        has = {} if state is None else held_by(state.manifest)
        if all(each in has and has[each].version >= other.version for each, other in came.items()):
            return state
    return None


def _either_way(older: Snapshot, other: Snapshot) -> Lineage:
    """The lineage from one of two versions of a line to the first, whichever is the earlier."""
    if other.manifest.version >= older.manifest.version:
        return related_columns(older, other).ids
    return reversed_(related_columns(other, older).ids)


@dataclass
class _Way:
    """The versions from an earlier one to a later one."""

    since: Snapshot
    until: Snapshot

    def is_renamed(self, older: Field) -> bool:
        """Whether an id still means a field of the earlier version, under another name: ids are
        never reused, a data file of both versions holds it, or every version between has it."""
        manifests = (self.since.manifest, self.until.manifest)
        if all(each.writer_flags & FLAG_FIELD_IDS_NOT_REUSED for each in manifests):
            return True
        if self._is_held_in_files(frozenset(each.id for each in older.walk()), manifests):
            return True
        return self.lineage is not None and self.lineage.get(older.id) == older.id

    def _is_held_in_files(self, ids: frozenset[FieldId], manifests: Sequence[Manifest]) -> bool:
        paths = {
            file.path
            for fragment in manifests[0].fragments
            for file in fragment.message.files
            if not ids.isdisjoint(file.fields)
        }
        return any(
            file.path in paths and not ids.isdisjoint(file.fields)
            for fragment in manifests[1].fragments
            for file in fragment.message.files
        )

    def is_replaced(self, older: Field) -> bool:
        """Whether a field of the earlier version was dropped while it had another name, so that a
        later field of its first name is another one. False where nobody knows."""
        if self._steps is None or self._steps.back:
            return False
        number, name = older.id, older.name
        for step in self._steps.onwards:
            later = reversed_(step.lineage)
            if number not in later:
                return name != older.name
            number = later[number]
            name = step.after.by_id[number].name
        return False

    @cached_property
    def lineage(self) -> Lineage | None:
        """The lineage by the transactions in between; None if they do not all say what they did."""
        if self._steps is None:
            return None
        common, onwards, back = self._steps
        later, earlier = (_composed(common, each) for each in (onwards, back))
        landed_schema = onwards[-1].after if onwards else common
        last = one_step(landed_schema, self.until.schema)
        return None if last is None else composed(last, composed(later, reversed_(earlier)))

    @cached_property
    def _steps(self) -> _Steps | None:
        """How columns changed since both versions come from one; None where a transaction in
        between does not say it.

        A version comes from the one before it, from the one that it restores, or, if its branch was
        reset, from one of another branch. So the way leads back to what both come from, and from
        there on.
        """
        end = landed(self.until) if is_detached(self.until.manifest.version) else self.until
        if end is None:
            return None
        way = self._to_common(end)
        if way is None:
            return None
        onwards, back, common = way
        later, earlier = (_steps_of(common, each[::-1]) for each in (onwards, back))
        return None if later is None or earlier is None else _Steps(common, later, earlier)

    def _to_common(
        self, end: Snapshot
    ) -> tuple[list[Transaction], list[Transaction], Schema] | None:
        """What versions did since both come from one: on the way to the later one, and to the
        earlier one, the newest first; and the schema of that one."""
        here, there = end.manifest.version, self.since.manifest.version
        if is_detached(there) or here - there > _MOST_VERSIONS:
            return None
        descent = Descent(end)
        done = dict(_transactions(descent, range(there + 1, here + 1)))
        onwards, back = list[Transaction](), list[Transaction]()
        while here != there:
            newer = max(here, there)
            if len(onwards) + len(back) > _MOST_VERSIONS:
                return None
            if newer not in done:
                done |= _transactions(descent, [newer])
            parent = _parent(newer, done[newer])
            if newer == here:
                onwards.append(done[newer])
                here = parent
            else:
                back.append(done[newer])
                there = parent
        if there == self.since.manifest.version:
            return onwards, back, self.since.schema
        try:
            return onwards, back, descent.load(there).schema
        except NotFoundError:
            return None


def _transactions(
    descent: Descent, versions: Iterable[int]
) -> Iterator[tuple[Version, Transaction]]:
    """The transactions of versions, in their order."""

    def look(version: Version) -> Iterator[tuple[Version, Transaction]]:
        yield version, descent.transaction(version)

    return in_order((partial(look, Version(each)) for each in versions), workers=WORKERS)


def _parent(version: Version, made_by: Transaction) -> Version:
    """The version that one continues: what it restored, or where its branch was reset to."""
    for each in reversed(made_by.operations):
        if isinstance(each, Restore):
            return each.version
        if isinstance(each, Clone):
            return each.ref_version
    return Version(version - 1)


class _Step(NamedTuple):
    """A change of the columns."""

    after: Schema
    lineage: Lineage


class _Steps(NamedTuple):
    """The changes of columns since a version that two others come from, the oldest first."""

    common: Schema
    onwards: Sequence[_Step]
    """On the way to the later version."""
    back: Sequence[_Step]
    """On the way to the earlier version."""


def _steps_of(schema: Schema, transactions: Iterable[Transaction]) -> Sequence[_Step] | None:
    """How transactions changed the columns, one after the other; None if one does not say it."""
    steps = list[_Step]()
    for transaction in transactions:
        for each in transaction.operations:
            if isinstance(each, MissingTransaction | UnknownOperation):
                return None
            if isinstance(each, Merge | Project | Overwrite):
                after = decode_schema(each.fields, {})
                if isinstance(each, Overwrite):
                    found: Lineage | None = by_names(schema, after)
                else:
                    found = one_step(schema, after, rewritten_in(transaction.properties))
                if found is None:
                    return None
                steps.append(_Step(after, found))
                schema = after
    return steps


def _composed(schema: Schema, steps: Iterable[_Step]) -> Lineage:
    """The lineage over all steps from a schema on."""
    lineages = (each.lineage for each in steps)
    return reduce(lambda earlier, later: composed(later, earlier), lineages, unchanged(schema))
