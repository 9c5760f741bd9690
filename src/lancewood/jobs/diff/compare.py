"""Which rows differ between two states of a table, on whatever branches.

A row is the same in both if it is in the same file at the same offset, or has the same row id and
either both lines have ids that no other hands out, or a version that both come from had given it
out. Fragments with the same bytes are passed
over without being decoded, then those that are made of the same files. Of rows that are in both,
those in the same places have the same values, and so have those that were only moved, which their
marks say: a mark is the number of a version, and means the same in both up to the version that both
come from. Of the others the values decide, which are not read here: they are the doubtful ones. So
are rows of columns that were written anew in place, whether or not a writer marked them.

Rows that a writer changed in place without a mark, and that a compaction moved afterwards, are not
found: only all values would show them. Reads deletion files and sequences, never a column. Very
many rows are compared in ranges of ids, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lancewood.engine.rows import Ids, Ints, LiveRows, RowFacts, cut_at, distinct, open_fragment
from lancewood.engine.snapshot import Snapshot, has_settled_ids
from lancewood.jobs.diff.columns import ColumnPair, places
from lancewood.jobs.diff.ranges import ALL_IDS, IdRange, NumberedRows, id_ranges
from lancewood.jobs.diff.states import Comparison, Doubt, Part, State, with_common_base_ids
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.manifest import decode_fragment
from lancewood.model.rowids import RowIdSequence
from lancewood.model.schema import Schema

_Mask: TypeAlias = npt.NDArray[np.bool_]
_Label: TypeAlias = tuple[str, int, int]
"""Fragments of two states that have the same one hold the same rows."""

_APART = 1 << 63
"""Added to ids that one side gave out after the two parted, and that the other side may have given
to another row. No table gives out ids as large as this."""


def compare(
    one: Snapshot, other: Snapshot, common: Snapshot | None, columns: tuple[ColumnPair, ...]
) -> Iterator[Comparison]:
    """Compare two states of a table, in at least one range of ids: ``common`` is the version that
    both come from, if it is known, ``columns`` are those that both have."""
    return Comparing(one, other, common, columns).comparisons()


def apart(one: Snapshot, other: Snapshot, columns: tuple[ColumnPair, ...]) -> Comparison:
    """Two tables that share no history: no row of one is known to be one of the other."""
    before, after = _whole(one), _whole(other)
    return Comparison(before, after, columns, before.rows, after.rows, ())


def _whole(snapshot: Snapshot) -> State:
    parts = tuple(_decoded(snapshot, snapshot.manifest.message.fragments))
    numbers = map(_addresses, range(len(parts)), parts)
    return State(snapshot, parts, _numbered(snapshot, parts, numbers).rows())


class AlignedRows(NamedTuple):
    """The rows of two states by id, in pieces that each lie within one stretch of a state,
    or within one of both."""

    old: LiveRows
    new: LiveRows
    firsts: Ids
    """The first id of each piece."""
    counts: Ints
    here: Ints
    """The stretch of ``old`` that has the piece; -1 if none has."""
    there: Ints

    @classmethod
    def of(cls, old: LiveRows, new: LiveRows, among: tuple[Ids, Ints] | None = None) -> AlignedRows:
        """All rows of both, or only those in stretches, which ascend."""
        edges = np.concatenate((old.firsts, old.ends, new.firsts, new.ends))
        if among is None:
            edges = distinct(edges)
            firsts, counts = edges[:-1], np.diff(edges).astype(np.int64)
        else:
            firsts, counts = cut_at(edges, *among)
        return cls(old, new, firsts, counts, old.find(firsts), new.find(firsts))

    @property
    def deleted(self) -> LiveRows:
        """Rows that only ``old`` has."""
        at = np.flatnonzero((self.here >= 0) & (self.there < 0))
        return self.old.pieces(self.here[at], self.firsts[at], self.counts[at])

    @property
    def inserted(self) -> LiveRows:
        """Rows that only ``new`` has."""
        at = np.flatnonzero((self.there >= 0) & (self.here < 0))
        return self.new.pieces(self.there[at], self.firsts[at], self.counts[at])

    def both(self, chosen: _Mask | None = None) -> tuple[LiveRows, LiveRows]:
        """Rows that both have, as each has them, of all pieces or of those that are chosen."""
        is_in_both = (self.here >= 0) & (self.there >= 0)
        at = np.flatnonzero(is_in_both if chosen is None else is_in_both & chosen)
        firsts, counts = self.firsts[at], self.counts[at]
        return (
            self.old.pieces(self.here[at], firsts, counts),
            self.new.pieces(self.there[at], firsts, counts),
        )


@dataclass(eq=False)
class Comparing:
    """Two states that are compared as ``compare`` does, range by range as the caller asks for."""

    one: Snapshot
    other: Snapshot
    common: Snapshot | None
    columns: tuple[ColumnPair, ...]

    def comparisons(self) -> Iterator[Comparison]:
        """All rows, in at least one range."""
        return map(self.rows, id_ranges(*self.numbered))

    def rows(self, ids: IdRange = ALL_IDS, among: tuple[Ids, Ints] | None = None) -> Comparison:
        """The rows in a range of ids; or of those only the ones in stretches, which ascend."""
        old, new = self.numbered
        before = State(self.one, self._parts.one, old.rows(ids))
        after = State(self.other, self._parts.other, new.rows(ids))
        return self._compared_rows(before, after, among)

    @cached_property
    def numbered(self) -> tuple[NumberedRows, NumberedRows]:
        """The rows of both in the fragments that differ."""
        mine, theirs = self._parts.one, self._parts.other
        numbers = self._numbers(mine)
        return (
            _numbered(self.one, mine, numbers),
            _numbered(self.other, theirs, self._matched(numbers, theirs)),
        )

    def unchanged(self, numbers: Iterable[FragmentId]) -> dict[FragmentId, Fragment]:
        """Of these fragments of one those whose rows and values are the same in the other, as the
        other has them."""
        found, manifest = dict[FragmentId, Fragment](), self.other.manifest
        asked = [*numbers]
        self.one.manifest.expect_lookups(len(asked))
        for number in asked:
            position = self.one.manifest.position_of(number)
            assert position is not None, "asked for a fragment of the first state"
            at = self._passed.get(self._shown[0][position])
            if at is not None:
                raw = manifest.message.fragments[at]
                found[number] = Fragment(decode_fragment(raw, manifest.name))
            elif number in self._parts.same:
                found[number] = self._parts.same[number]
        return found

    @cached_property
    def _shown(self) -> tuple[Sequence[bytes], Sequence[bytes]]:
        return with_common_base_ids(self.one, self.other)

    @cached_property
    def _passed(self) -> Mapping[bytes, int]:
        """Fragments that both have in the same form, with their positions in the other."""
        if self._replaced:
            return {}
        mine = set(self._shown[0])
        return {each: at for at, each in enumerate(self._shown[1]) if each in mine}

    @cached_property
    def _compared(self) -> tuple[ColumnPair, ...]:
        """The columns, as far as their fields are compared."""
        return tuple(ColumnPair(*each.compared()) for each in self.columns)

    def _compared_rows(
        self, before: State, after: State, among: tuple[Ids, Ints] | None
    ) -> Comparison:
        rows = AlignedRows.of(before.rows, after.rows, among)
        then, now = rows.both(~self._stayed(before, rows.here, after, rows.there))
        return Comparison(
            before,
            after,
            self.columns,
            deleted=rows.deleted,
            inserted=rows.inserted,
            doubts=tuple(self._doubts(before.parts, then, after.parts, now)),
        )

    def _stayed(self, before: State, here: Ints, after: State, there: Ints) -> _Mask:
        """Which pieces of stretches of both states are in the same places in all columns: nearly
        all, and nothing else is looked at."""
        kept = np.full(len(after.parts), -1)
        for at, by in self._parts.partners.items():
            if not self._moved(before.parts[by], after.parts[at]):
                kept[at] = by
        old, new = before.rows, after.rows
        if not len(old.firsts) or not len(new.firsts):
            return np.zeros(len(here), np.bool_)
        is_kept = kept[new.fragments[there]] == old.fragments[here]
        return np.asarray(is_kept & (old.origins[here] == new.origins[there]))

    @cached_property
    def _parts(self) -> _Parts:
        """The fragments of both that differ."""
        one = [*_decoded(self.one, self._shown[0], self._passed)]
        other = [*_decoded(self.other, self._shown[1], self._passed)]
        partners = _partners(one, other, _first_file)
        taken = set(partners.values())
        for at, by in _partners(one, other, self._kept_number).items():
            if by not in taken and at not in partners and self._is_kept(one[by], other[at]):
                partners[at] = by
        same = {at: by for at, by in partners.items() if self._is_same(one[by], other[at])}
        known = set(same.values())
        left = [at for at in range(len(one)) if at not in known]
        right = [at for at in range(len(other)) if at not in same]
        position = {at: number for number, at in enumerate(left)}
        return _Parts(
            tuple(one[at] for at in left),
            tuple(other[at] for at in right),
            {number: position[partners[at]] for number, at in enumerate(right) if at in partners},
            {one[by].fragment.id: other[at].fragment for at, by in same.items()},
        )

    def _kept_number(self, part: Part) -> _Label | None:
        """The number of a fragment that both states have from the version that they come from."""
        last = None if self.common is None else self.common.manifest.max_fragment_id
        if last is None or part.fragment.id > last:
            return None
        return "", part.fragment.id, part.fragment.physical_rows

    def _is_kept(self, one: Part, other: Part) -> bool:
        """Whether two fragments of one number and other files are one fragment. With stable row ids
        files that were moved to another root are left to the marks of rows, which tell as much."""
        if not self._is_stable:
            return True
        is_one_root = self.one.location.uri == self.other.location.uri
        is_moved = is_one_root and _root(one) != _root(other)
        return not is_moved and _ids(one) == _ids(other)

    def _is_same(self, one: Part, other: Part) -> bool:
        """Whether two fragments of the same rows have the same ones left, with the same values."""
        return not self._moved(one, other) and _same_deletions(one, other)

    def _moved(self, one: Part, other: Part) -> tuple[int, ...]:
        """The columns that are in other places, by position."""
        if one.shown.message.files == other.shown.message.files and not self._replaced:
            return ()
        return tuple(
            at
            for at, compared in enumerate(self._compared)
            if places(one.shown, compared.before) != places(other.shown, compared.after)
        )

    @cached_property
    def _replaced(self) -> tuple[ColumnPair, ...]:
        """The columns whose values are elsewhere even in the same files: one that was dropped, and
        added again, is null in files that hold the earlier one."""
        return tuple(each for each in self.columns if not each.is_alike)

    @cached_property
    def _unmarked(self) -> tuple[ColumnPair, ...]:
        """The columns that may differ in rows whose marks say that nothing changed them: also those
        that one has not, and that are compared as if it had them, without a value."""
        return tuple(
            each for each in self.columns if not each.is_alike or each.before is each.after
        )

    @cached_property
    def _is_stable(self) -> bool:
        sides = (self.one.manifest, self.other.manifest)
        return all(each.has_stable_row_ids for each in sides)

    def _numbers(self, parts: Sequence[Part]) -> list[RowIdSequence]:
        """The numbers of all physical rows of one: their ids, or if there are none, addresses."""
        if self._is_stable:
            return [_ids(each) for each in parts]
        return [_addresses(at, each) for at, each in enumerate(parts)]

    def _matched(
        self, numbers: Sequence[RowIdSequence], theirs: Sequence[Part]
    ) -> Iterator[RowIdSequence]:
        """Numbers of all physical rows of the other: for rows in the same files those of one."""
        first_apart = self._first_apart() if self._is_stable else 0
        for at, part in enumerate(theirs):
            if at in self._parts.partners:
                yield numbers[self._parts.partners[at]]
            elif self._is_stable:
                yield _ids(part).shifted(first_apart, _APART)
            else:
                yield _addresses(len(numbers) + at, part)

    def _first_apart(self) -> int:
        """From this id on the two sides may have given the same one to different rows; no id is as
        large as that if both have only ids that no other line hands out."""
        if has_settled_ids(self.one) and has_settled_ids(self.other):
            return _APART
        return 0 if self.common is None else self.common.manifest.next_row_id

    def _doubts(
        self, mine: Sequence[Part], then: LiveRows, theirs: Sequence[Part], now: LiveRows
    ) -> Iterator[Doubt]:
        if not len(then.firsts):
            return
        pairs = then.fragments * len(theirs) + now.fragments
        known = distinct(pairs)
        chosen = dict[tuple[int, ...], list[int]]()
        in_place = np.zeros(len(known), np.bool_)
        for at, pair in enumerate(known.tolist()):
            one, other = divmod(pair, len(theirs))
            if self._is_in_place(one, other):
                in_place[at] = True
                moved = self._moved(mine[one], theirs[other])
                if moved:
                    chosen.setdefault(moved, []).append(at)
        found = np.searchsorted(known, pairs)
        stayed = in_place[found] & (then.offsets == now.offsets)
        for positions, numbers in chosen.items():
            here = stayed & np.isin(found, numbers)
            columns = tuple(self.columns[each] for each in positions)
            yield Doubt(columns, then.only(here), now.only(here))
        only_moved = self._only_moved(then, now)
        for columns, rows in (
            (self.columns, ~stayed & ~only_moved),
            (self._unmarked, ~stayed & only_moved),
        ):
            if columns and rows.any():
                yield Doubt(columns, then.only(rows), now.only(rows))

    def _is_in_place(self, one: int, other: int) -> bool:
        """Whether two parts are made of the same files, so that rows at one offset are one row."""
        if self._parts.partners.get(other) == one:
            return True
        label = _first_file(self._parts.one[one])
        return label is not None and label == _first_file(self._parts.other[other])

    def _only_moved(self, then: LiveRows, now: LiveRows) -> _Mask:
        """Which rows no version has changed since the two parted, according to their marks."""
        if not self._is_stable or self.common is None:
            return np.zeros(len(then.firsts), np.bool_)
        last = np.uint64(self.common.manifest.version)
        same: _Mask = (then.updated == now.updated) & (then.updated <= last)
        return same


class _Parts(NamedTuple):
    """The fragments of two states that differ, and which of them belong together."""

    one: tuple[Part, ...]
    other: tuple[Part, ...]
    partners: Mapping[int, int]
    """Positions of parts of the other, with those of the parts of one that have their rows."""
    same: Mapping[FragmentId, Fragment]
    """Fragments of one that the other has in another form, with the same rows and values."""


def _decoded(
    snapshot: Snapshot, shown: Sequence[bytes], passed: Container[bytes] = ()
) -> Iterator[Part]:
    name, raws = snapshot.manifest.name, snapshot.manifest.message.fragments
    for at in [at for at, seen in enumerate(shown) if seen not in passed]:
        fragment = Fragment(decode_fragment(raws[at], name))
        is_same = raws[at] == shown[at]
        other = fragment if is_same else Fragment(decode_fragment(shown[at], name))
        yield Part(RowFacts(snapshot, fragment), other)


def _partners(
    one: Sequence[Part], other: Sequence[Part], label_of: Callable[[Part], _Label | None]
) -> dict[int, int]:
    """Positions in the second list, with those in the first whose fragments have the same label,
    and so the same rows. A label that two fragments of a state have tells nothing."""
    mine, theirs = (_by_label(each, label_of) for each in (one, other))
    return {theirs[each]: mine[each] for each in theirs.keys() & mine.keys()}


def _by_label(
    parts: Sequence[Part], label_of: Callable[[Part], _Label | None]
) -> Mapping[_Label, int]:
    found, twice = dict[_Label, int](), set[_Label]()
    for at, part in enumerate(parts):
        label = label_of(part) if part.fragment.physical_rows else None
        if label in found:
            twice.add(label)
        elif label is not None:
            found[label] = at
    return {label: at for label, at in found.items() if label not in twice}


def _first_file(part: Part) -> _Label | None:
    """The first file of a fragment, which is that of no other."""
    for file in part.shown.message.files:
        return file.path, file.file_size_bytes, part.fragment.physical_rows
    return None


def _root(part: Part) -> int | None:
    """The base id of the first file of a fragment."""
    for file in part.shown.message.files:
        return file.base_id if file.HasField("base_id") else None
    return None


def _same_deletions(one: Part, other: Part) -> bool:
    mine, theirs = one.shown.message, other.shown.message
    if mine.HasField("deletion_file") != theirs.HasField("deletion_file"):
        return False
    if mine.deletion_file == theirs.deletion_file:
        return True
    counts = {one.shown.num_deleted_rows, other.shown.num_deleted_rows}
    return len(counts) == 1 and one.facts.deleted == other.facts.deleted


def _ids(part: Part) -> RowIdSequence:
    ids = part.facts.row_ids
    assert ids is not None, "asked of a table without stable row ids"
    return ids


def _addresses(number: int, part: Part) -> RowIdSequence:
    rows = part.fragment.physical_rows
    if not rows:  # its writer did not record how many there are
        rows = open_fragment(part.facts.snapshot, part.fragment, Schema(())).physical_rows()
    return RowIdSequence.from_range(number << 32, rows)


def _numbered(
    snapshot: Snapshot, parts: Sequence[Part], numbers: Iterable[RowIdSequence]
) -> NumberedRows:
    return NumberedRows(snapshot.manifest.name, [each.facts for each in parts], list(numbers))
