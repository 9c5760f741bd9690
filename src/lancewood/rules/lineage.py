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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
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


@dataclass(frozen=True)
class Related:
    """The lineage between two schemas, as far as it is known."""

    ids: Lineage
    unknown: tuple[str, ...] = ()
    """Earlier fields that are gone or were renamed and cast: which of the two nobody knows. Dotted
    names."""

    def check(self, what: str) -> None:
        """Raise UnsupportedError, which begins with ``what``, if some of the lineage is unknown."""
        if self.unknown:
            names = ", ".join(map(repr, self.unknown))
            raise UnsupportedError(
                f"{what}: {names} may have been dropped, or renamed and cast, and the versions in "
                "between are gone or do not say which; rename, cast or drop columns until both "
                "sides have the same ones, and try again",
                columns=list(self.unknown),
            )


def related(earlier: Schema, later: Schema, evidence: Evidence) -> Related:
    """The lineage from a later schema back to an earlier one."""
    matching = _Matching(evidence)
    matching.level(earlier.fields, later.fields, ())
    return Related(matching.ids, tuple(matching.unknown))


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


def paired(
    one: Schema,
    other: Schema,
    ones: Lineage,
    others: Lineage,
    merged: Lineage | None = None,
    *,
    only_new: bool = False,
) -> Lineage:
    """The lineage between two schemas that come from a third: from ids of ``other`` to those of
    ``one``. What the third does not have may have come to one from the other, as ``merged`` says.
    What has no relative by that is the same by its name, below the same parent; with ``only_new``
    only what the third does not have."""
    old = (frozenset(ones), frozenset(others)) if only_new else (frozenset(), frozenset())
    common = composed(others, reversed_(ones))
    known = {*common.values()}
    for new, older in (merged or {}).items():
        if new not in common and older not in known:
            common[new] = older
    matching = _Matching(_BY_ENDS, trusted=common, unnamed=old)
    matching.level(one.fields, other.fields, ())
    return matching.ids


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

    def level(
        self, earlier: Sequence[Field], later: Sequence[Field], path: tuple[str, ...]
    ) -> None:
        """Match the fields of one level, and then those below each pair."""
        pairs = dict(self._by_id(earlier, later))
        left = self._left(earlier, pairs.values())
        others = [each for each in later if each.id not in pairs]
        if left and others and not self._is_plain(left, others):
            walked = self.evidence.walked()
            if walked is not None:
                known = {each.id: each for each in left.values()}
                found = (
                    (each.id, known.get(walked[each.id])) for each in others if each.id in walked
                )
                pairs |= {new: old for new, old in found if old is not None}
                left = self._left(earlier, pairs.values())
            named = {each.name for each in others if each.id not in pairs} & left.keys()
            if walked is None and left.keys() - named and len(others) > len(named):
                self.unknown += [".".join((*path, name)) for name in left if name not in named]
        for each in others:
            if each.id not in pairs and each.name in left and self._may_be_named(left, each):
                pairs[each.id] = left.pop(each.name)
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
        return newer.id not in self.unnamed[1] and left[newer.name].id not in self.unnamed[0]

    @staticmethod
    def _left(earlier: Sequence[Field], taken: Iterable[Field]) -> dict[str, Field]:
        ids = {each.id for each in taken}
        return {each.name: each for each in earlier if each.id not in ids}

    @staticmethod
    def _is_plain(left: Mapping[str, Field], others: Sequence[Field]) -> bool:
        """Whether one field was cast, or written anew, under its own name."""
        return len(others) == 1 and [*left] == [others[0].name]


_BY_ENDS = Evidence(is_renamed=lambda older: True, walked=dict)
"""Nothing is known but both schemas."""
