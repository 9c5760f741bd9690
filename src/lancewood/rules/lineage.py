"""Which fields of one schema of a table are which of another, whatever they are called there.

A field keeps its id as long as it lives, unless its values were written anew: a cast gives it
another id under the same name. Ids alone do not say it: that of a dropped field may be given to
another one, two branches give one id to different new fields, and a field may have been cast and
renamed. So a lineage is followed from version to version where both ends leave a doubt; what is
called the same at both ends, and has no other relative, counts as the same. Fields inside structs,
lists and maps are followed like columns, each below its own parent. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lancewood.errors import UnsupportedError
from lancewood.model.ids import FieldId
from lancewood.model.schema import Field, Schema

Lineage: TypeAlias = Mapping[FieldId, FieldId]
"""From the ids of fields in a later schema to their ids in an earlier one. A field that the earlier
schema does not have is absent."""

COLUMNS_PROPERTY = "lancewood.columns"
"""In transactions that compose several changes: the ids of fields whose values were written anew,
with their earlier ids, as ``5=1 7=2``."""
MERGED_COLUMNS_PROPERTY = "lancewood.merged_columns"
"""In transactions that merge another state: the ids of fields, and those that they have there, as
``5=1 7=``, which is nowhere there. Ids that are the same are left out. Without it fields of one
name are the same."""
_is_rewritten = re.compile(r"([0-9]{1,9})=([0-9]{1,9})").fullmatch
_is_merged = re.compile(r"([0-9]{1,9})=([0-9]{0,9})").fullmatch
_UNHELD = -1_000
"""Ids from here downwards are in no data file, so that fields with them are read as null."""


@dataclass(frozen=True)
class Evidence:
    """What is known of the way between two schemas, asked for only where the ends leave a doubt."""

    is_renamed: Callable[[Field], bool]
    """Whether the id of an earlier field still means that field, although its name changed."""
    walked: Callable[[], Lineage | None]
    """The lineage along every version between; None if one of them does not say."""
    is_replaced: Callable[[Field], bool] = lambda older: False
    """Whether an earlier field is known to have been dropped under another name, so that a field
    of its name is another one."""


@dataclass(frozen=True)
class Related:
    """The lineage between two schemas, as far as it is known."""

    ids: Lineage
    unknown: tuple[str, ...] = ()
    """Earlier fields of which nobody knows what became of them: they are gone, or were renamed, and
    perhaps cast. Dotted names."""
    by_name: frozenset[FieldId] = frozenset()
    """Later fields that are called like their earlier ones, and of which nothing else is known: a
    merge may say that they came from elsewhere."""

    @property
    def certain(self) -> Lineage:
        """The lineage without what is known by its name alone."""
        return {new: old for new, old in self.ids.items() if new not in self.by_name}

    def check(self, what: str, way_out: str) -> None:
        """Raise UnsupportedError, which begins with ``what`` and ends with ``way_out``, if some of
        the lineage is unknown."""
        if self.unknown:
            names = ", ".join(map(repr, self.unknown))
            raise UnsupportedError(
                f"{what}: {names} may have been dropped, or renamed and cast, and the versions in "
                f"between are gone or do not say which; {way_out}",
                columns=list(self.unknown),
            )

    def only(self, columns: Collection[str]) -> Related:
        """The lineage, with ``unknown`` cut to these columns and the fields inside them."""
        unknown = (each for each in self.unknown if each.split(".")[0] in columns)
        return replace(self, unknown=tuple(unknown))


def related(earlier: Schema, later: Schema, evidence: Evidence) -> Related:
    """The lineage from a later schema back to an earlier one."""
    matching = _Matching(evidence)
    matching.level(earlier.fields, later.fields, ())
    return Related(matching.ids, tuple(matching.unknown), frozenset(matching.by_name))


def one_step(earlier: Schema, later: Schema, rewritten: Lineage | None = None) -> Lineage | None:
    """The lineage of one version; None if it is unknown.

    An operation that both drops fields and adds others is composed of several: only its writer
    knows what was ``rewritten`` under another id and another name, and records it (``recorded``).
    """
    walked = None if rewritten is None else {each: each for each in later.by_id} | dict(rewritten)
    found = related(earlier, later, Evidence(lambda older: True, lambda: walked))
    return None if found.unknown else found.ids


def recorded(lineage: Lineage) -> dict[str, str]:
    """The property that records which fields have another id than before."""
    pairs = sorted((new, old) for new, old in lineage.items() if new != old)
    return {COLUMNS_PROPERTY: " ".join(f"{new}={old}" for new, old in pairs)}


def rewritten_in(properties: Mapping[str, str]) -> Lineage | None:
    """The fields that the properties of a transaction say have another id than before; None if
    they say nothing that can be read."""
    text = properties.get(COLUMNS_PROPERTY)
    found = [_is_rewritten(each) for each in text.split()] if text is not None else [None]
    if not all(found):
        return None
    return {FieldId(int(each[1])): FieldId(int(each[2])) for each in found if each}


def recorded_merge(lineage: Lineage, merged: Schema, after: Schema) -> dict[str, str]:
    """The property that records which fields of a merged state a version has; none where their
    names tell."""
    if lineage == by_names(merged, after):
        return {}
    pairs = (
        f"{new}={lineage.get(new, '')}" for new in sorted(after.by_id) if lineage.get(new) != new
    )
    return {MERGED_COLUMNS_PROPERTY: " ".join(pairs)}


def merged_in(properties: Mapping[str, str], merged: Schema, after: Schema) -> Lineage:
    """The lineage of a version back to a state that its transaction merged."""
    text = properties.get(MERGED_COLUMNS_PROPERTY)
    pairs = [] if text is None else [_is_merged(each) for each in text.split()]
    if text is None or not all(pairs):
        return by_names(merged, after)
    known = {int(each[1]): each[2] for each in pairs if each}
    found = ((new, known.get(new, str(new))) for new in after.by_id)
    texts = {str(each): each for each in merged.by_id}
    return {new: texts[old] for new, old in found if old in texts}


def by_names(earlier: Schema, later: Schema) -> Lineage:
    """The lineage of a schema that replaced another one: fields are the same by their names."""
    matching = _Matching(_BY_ENDS, trusts_ids=False)
    matching.level(earlier.fields, later.fields, ())
    return matching.ids


def unchanged(schema: Schema) -> Lineage:
    """The lineage from a schema to itself."""
    return {each.id: each.id for each in schema.walk()}


def composed(later: Lineage, earlier: Lineage) -> dict[FieldId, FieldId]:
    """The lineage over two stretches of the way, of which ``later`` comes last."""
    return {new: earlier[middle] for new, middle in later.items() if middle in earlier}


def reversed_(lineage: Lineage) -> Lineage:
    """The lineage seen from the earlier schema."""
    return {old: new for new, old in lineage.items()}


def shared(ones: Related, others: Related, merged: Lineage) -> Lineage:
    """The lineage between two states that come from a third: from ids of the second state to those
    of the first. What is certain counts first, then which columns one of them ``merged`` from the
    other, and last what is known by its name alone."""
    certain = composed(others.certain, reversed_(ones.certain))
    by_name = composed(others.ids, reversed_(ones.ids))
    found, taken = dict[FieldId, FieldId](), set[FieldId]()
    for new, old in (*certain.items(), *merged.items(), *by_name.items()):
        if new not in found and old not in taken:
            found[new] = old
            taken.add(old)
    return found


def paired(
    one: Schema,
    other: Schema,
    known: Lineage,
    unnamed: tuple[Set[FieldId], Set[FieldId]] = (frozenset(), frozenset()),
) -> Lineage:
    """The lineage from ids of ``other`` to those of ``one``: what is ``known`` of it, and what else
    has the same name below the same parent, but for fields that are ``unnamed``, of one and of
    other."""
    matching = _Matching(_BY_ENDS, trusted=known, unnamed=unnamed)
    matching.level(one.fields, other.fields, ())
    return matching.ids


def moved_names(earlier: Schema, later: Schema, lineage: Lineage) -> tuple[str, ...]:
    """Dotted names that both schemas have, for different fields, of which one is in the other
    schema under another name."""
    olds, news = dict(_named(earlier.fields)), dict(_named(later.fields))
    kept = {*lineage.values()}
    return tuple(
        name
        for name, new in news.items()
        if name in olds
        and lineage.get(new) != olds[name]
        and (new in lineage or olds[name] in kept)
    )


def untold_names(one: Schema, other: Schema, known: Lineage, old: Lineage) -> tuple[str, ...]:
    """Dotted names of fields of which names do not tell what they are in the other schema: each has
    some that are nowhere in the other, or an id has another name there. ``known`` fields, and
    those that ``old`` relates, from ids of other to those of one, are left out."""
    ones, others = (
        {name: number for name, number in _named(schema.fields) if number not in told}
        for schema, told in (
            (one, {*known.values(), *old.values()}),
            (other, {*known, *old}),
        )
    )
    numbers = {number: name for name, number in others.items()}
    found = {name for name, number in ones.items() if numbers.get(number, name) != name}
    if ones.keys() - others.keys() and others.keys() - ones.keys():
        found |= ones.keys() ^ others.keys()
    return tuple(sorted(found))


def _named(fields: Iterable[Field], above: str = "") -> Iterator[tuple[str, FieldId]]:
    """The fields by their dotted names."""
    for each in fields:
        yield above + each.name, each.id
        yield from _named(each.children, f"{above}{each.name}.")


def unheld(wanted: Field) -> Field:
    """A nullable copy of ``wanted`` under ids that no data file uses, so that it reads as null."""
    children = tuple(map(unheld, wanted.children))
    number = wanted.id if wanted.id <= _UNHELD else FieldId(_UNHELD - wanted.id)
    return replace(wanted, id=number, nullable=True, children=children)


def as_in(
    wanted: Field,
    lineage: Lineage,
    earlier: Mapping[FieldId, Field],
    absent: Callable[[Field], Field] = unheld,
) -> Field | None:
    """A field as an earlier schema has it: with the ids and types that it had there, and the names
    that it has now, so that values read as one fit the other. Fields below it that the earlier
    schema lacks are as ``absent`` makes them. None if it lacks the whole field.
    """
    older = earlier.get(lineage.get(wanted.id, FieldId(_UNHELD)))
    if older is None:
        return None
    if older.logical_type != wanted.logical_type or _stored(older) != _stored(wanted):
        return replace(older, name=wanted.name, nullable=wanted.nullable)
    children = [as_in(each, lineage, earlier, absent) or absent(each) for each in wanted.children]
    return replace(wanted, id=older.id, children=tuple(children))


def is_held(number: FieldId) -> bool:
    """Whether a field with this id may be in a file; see ``unheld``."""
    return number > _UNHELD


def _stored(each: Field) -> tuple[bool, bool]:
    return each.is_blob, each.is_packed


@dataclass
class _Matching:
    """Matches fields level by level, parents before children."""

    evidence: Evidence
    trusts_ids: bool = True
    trusted: Lineage | None = None
    """Pairs that are known; the others have no id in common."""
    unnamed: tuple[Set[FieldId], Set[FieldId]] = (frozenset(), frozenset())
    """Earlier and later fields that are not matched by their names."""
    ids: dict[FieldId, FieldId] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    by_name: set[FieldId] = field(default_factory=set)

    def level(
        self, earlier: Sequence[Field], later: Sequence[Field], path: tuple[str, ...]
    ) -> None:
        """Match the fields of one level, and then those below each pair."""
        pairs = dict(self._by_id(earlier, later))
        left = self._left(earlier, pairs.values())
        others = [each for each in later if each.id not in pairs]
        if left and others and not self._is_plain(left, others):
            walked = self.evidence.walked()
            if walked is None:
                self.unknown += (".".join((*path, each)) for each in self._lost(left, others))
            else:
                known = {each.id: each for each in left.values()}
                found = (
                    (each.id, known.get(walked[each.id])) for each in others if each.id in walked
                )
                pairs |= {new: old for new, old in found if old is not None}
                left = self._left(earlier, pairs.values())
        for each in others:
            if each.id not in pairs and each.name in left and self._may_be_named(left, each):
                pairs[each.id] = left.pop(each.name)
                self.by_name.add(each.id)
        for each in later:
            older = pairs.get(each.id)
            if older is not None:
                self.ids[each.id] = older.id
                self.level(older.children, each.children, (*path, older.name))

    def _by_id(
        self, earlier: Sequence[Field], later: Sequence[Field]
    ) -> Iterator[tuple[FieldId, Field]]:
        known = {each.id: each for each in earlier}
        for each in later if self.trusts_ids else ():
            if self.trusted is not None:
                number = self.trusted.get(each.id)
                if number in known:
                    yield each.id, known[number]
            elif each.id in known and self._is_same(known[each.id], each):
                yield each.id, known[each.id]

    def _is_same(self, older: Field, newer: Field) -> bool:
        if older.logical_type != newer.logical_type:
            return False
        return older.name == newer.name or self.evidence.is_renamed(older)

    def _may_be_named(self, left: Mapping[str, Field], newer: Field) -> bool:
        older = left[newer.name]
        if newer.id in self.unnamed[1] or older.id in self.unnamed[0]:
            return False
        return not self.evidence.is_replaced(older)

    @staticmethod
    def _left(earlier: Sequence[Field], taken: Iterable[Field]) -> dict[str, Field]:
        ids = {each.id for each in taken}
        return {each.name: each for each in earlier if each.id not in ids}

    def _lost(self, left: Mapping[str, Field], others: Sequence[Field]) -> list[str]:
        """Earlier fields of which their names do not tell what became of them: those that may have
        another name now, and those whose id is that of a field of another name."""
        names = {each.name for each in others}
        lost = [name for name in left if name not in names and not names <= left.keys()]
        ids = {each.id: each.name for each in others}
        moved = (name for name, each in left.items() if ids.get(each.id, name) != name)
        return [*dict.fromkeys((*lost, *moved))]

    @staticmethod
    def _is_plain(left: Mapping[str, Field], others: Sequence[Field]) -> bool:
        """Whether one field was cast, or written anew, under its own name."""
        return len(others) == 1 and [*left] == [others[0].name]


_BY_ENDS = Evidence(is_renamed=lambda older: True, walked=dict)
"""Nothing is known but both schemas."""
