"""Which commits can follow which: (mine, theirs) → verdict, as one table of pairs.

``theirs`` landed after the version that mine was built on. Pure; be conservative: a transaction
that is missing or whose operation is unknown conflicts with everything.

    COMPATIBLE     mine can be applied after theirs as it is
    REBASE         mine can be applied once it is built on theirs; the engine tries
    RETRY          run the operation again on the newer version
    INCOMPATIBLE   theirs changed what mine rests on; a person must decide
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from pyroaring import BitMap

from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.operations import (
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    MissingTransaction,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    UnknownOperation,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
    operation_name,
)
from lancewood.model.transaction import Transaction
from lancewood.rules.inserted_keys import filters_meet


class Outcome(Enum):
    """What a commit that landed first means for mine."""

    COMPATIBLE = "compatible"
    REBASE = "rebase"
    RETRY = "retry"
    INCOMPATIBLE = "incompatible"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and why."""

    outcome: Outcome
    reason: str = ""


COMPATIBLE = Verdict(Outcome.COMPATIBLE)
_SEVERITY = (Outcome.COMPATIBLE, Outcome.REBASE, Outcome.RETRY, Outcome.INCOMPATIBLE)


def judge(mine: Transaction, theirs: Transaction) -> Verdict:
    """What a transaction that landed first means for mine: the severest of all pairs."""
    return severest(
        judge_operations(my_operation, their_operation)
        for my_operation in mine.operations
        for their_operation in theirs.operations
    )


def severest(verdicts: Iterable[Verdict]) -> Verdict:
    """The first of the most severe verdicts."""
    return max(verdicts, key=lambda each: _SEVERITY.index(each.outcome), default=COMPATIBLE)


def judge_operations(mine: Operation, theirs: Operation) -> Verdict:
    """What an operation that landed first means for mine. An unknown pair is incompatible."""
    rule = RULES.get((type(mine), type(theirs)), _incompatible)
    return rule(mine, theirs)


def _fine(mine: Operation, theirs: Operation) -> Verdict:
    return COMPATIBLE


def _incompatible(mine: Operation, theirs: Operation, because: str = "") -> Verdict:
    return Verdict(Outcome.INCOMPATIBLE, because or _default_reason(theirs))


def _retry(mine: Operation, theirs: Operation, because: str = "") -> Verdict:
    return Verdict(Outcome.RETRY, because or _default_reason(theirs))


def _default_reason(theirs: Operation) -> str:
    if isinstance(theirs, MissingTransaction):
        return f"its transaction is not to be found ({theirs.why})"
    if isinstance(theirs, UnknownOperation):
        return f"its operation (number {theirs.number}) is not known to this Lancewood"
    return f"the two exclude each other ({operation_name(theirs)} landed first)"


def touched_fragments(operation: Operation) -> frozenset[FragmentId]:
    """The fragments that an operation changes or removes, as far as it names them."""
    match operation:
        case Delete(updated_fragments=updated, deleted_fragment_ids=removed):
            return frozenset((*(each.id for each in updated), *removed))
        case Update(updated_fragments=updated, removed_fragment_ids=removed):
            return frozenset((*(each.id for each in updated), *removed))
        case Rewrite(groups=groups):
            return frozenset(each.id for group in groups for each in group.old_fragments)
        case DataReplacement(replacements=replacements):
            return frozenset(each.fragment_id for each in replacements)
        case DataOverlay(fragment_ids=ids):
            return frozenset(ids)
        case _:
            return frozenset()


def _if_fragments_meet(mine: Operation, theirs: Operation) -> Verdict:
    common = touched_fragments(mine) & touched_fragments(theirs)
    return _retry(mine, theirs, f"both change {_named(common)}") if common else COMPATIBLE


def _if_rows_meet(mine: Delete | Update, theirs: Delete | Update) -> Verdict:
    """Both take rows out of fragments, or write columns of them anew: where they share a fragment
    a look at the rows decides, unless one of them removes it as a whole."""
    common = touched_fragments(mine) & touched_fragments(theirs)
    if not common:
        return COMPATIBLE
    gone = common & (_removed_fragments(mine) | _removed_fragments(theirs))
    if gone:
        return _retry(mine, theirs, f"both change {_named(common)}, one removes {_named(gone)}")
    return Verdict(Outcome.REBASE, f"both change {_named(common)}")


def _removed_fragments(operation: Delete | Update) -> frozenset[FragmentId]:
    if isinstance(operation, Delete):
        return frozenset(operation.deleted_fragment_ids)
    return frozenset(operation.removed_fragment_ids)


def _named(fragments: frozenset[FragmentId]) -> str:
    some = sorted(fragments)
    shown = ", ".join(map(str, some[:8])) + (", …" if len(some) > 8 else "")
    return f"fragment {shown}" if len(some) == 1 else f"fragments {shown}"


def _if_nulls_may_vanish(mine: Operation, theirs: Operation) -> Verdict:
    """A schema change that may tighten a column to non-null, against rows that may hold nulls."""
    for each in (mine, theirs):
        if isinstance(each, Merge | Project) and not each.preserves_nullability:
            return _retry(mine, theirs, "the schema change may make a column non-nullable")
    return COMPATIBLE


def _update_after_append(mine: Update, theirs: Append) -> Verdict:
    if mine.inserted_rows is not None:
        return _retry(mine, theirs, "the appended rows may hold keys that this upsert inserts")
    return COMPATIBLE


def _update_after_update(mine: Update, theirs: Update) -> Verdict:
    if mine.inserted_rows is not None and theirs.new_fragments:
        if theirs.inserted_rows is None:
            return _retry(mine, theirs, "it does not tell which keys it inserted")
        if filters_meet(mine.inserted_rows, theirs.inserted_rows):
            return _retry(mine, theirs, "both may insert the same keys")
    return _if_rows_meet(mine, theirs)


def _if_wal_meets(mine: Update, theirs: UpdateMemWalState) -> Verdict:
    if mine.compacted_sstables:
        return _retry(mine, theirs, "both change the write-ahead log")
    return COMPATIBLE


def _overwrite_after_overwrite(mine: Overwrite, theirs: Overwrite) -> Verdict:
    common = sorted(set(mine.config_upserts) & set(theirs.config_upserts))
    if common:
        return _incompatible(mine, theirs, f"both set the configuration {', '.join(common)}")
    return _retry(mine, theirs, "both replace the whole table")


def _if_overwrite_sets_same_config(mine: Operation, theirs: Operation) -> Verdict:
    one, other = (mine, theirs) if isinstance(mine, Overwrite) else (theirs, mine)
    if not (isinstance(one, Overwrite) and isinstance(other, UpdateConfig)):
        return _incompatible(mine, theirs)
    if other.touches_schema:
        return _incompatible(mine, theirs, "metadata of a schema that is replaced would change")
    common = sorted(set(one.config_upserts) & set(other.config.entries))
    if common or (other.config.replace and one.config_upserts):
        keys = ", ".join(common) or "as a whole"
        return _incompatible(mine, theirs, f"both set the configuration {keys}")
    return COMPATIBLE


def _index_after_update(mine: CreateIndex, theirs: Update) -> Verdict:
    changed = frozenset(theirs.fields_modified)
    for index in mine.new_indices:
        if index.touches(changed) and not index.fragments.isdisjoint(_bitmap(theirs)):
            return Verdict(Outcome.REBASE, f"the column of index {index.name!r} was rewritten")
    return COMPATIBLE


def _bitmap(operation: Operation) -> BitMap:
    return BitMap(touched_fragments(operation))


def _index_after_index(mine: CreateIndex, theirs: CreateIndex) -> Verdict:
    my_names = {each.name for each in (*mine.new_indices, *mine.removed_indices)}
    their_names = {each.name for each in (*theirs.new_indices, *theirs.removed_indices)}
    common = sorted(my_names & their_names)
    return _retry(mine, theirs, f"both change index {', '.join(common)}") if common else COMPATIBLE


def _if_index_covers_rewritten(mine: Operation, theirs: Operation) -> Verdict:
    index, rewrite = (mine, theirs) if isinstance(mine, CreateIndex) else (theirs, mine)
    if not isinstance(index, CreateIndex):
        return _incompatible(mine, theirs)
    old = _bitmap(rewrite)
    for each in index.new_indices:
        if not each.fragments.isdisjoint(old):
            return _retry(mine, theirs, f"index {each.name!r} covers rewritten fragments")
    return COMPATIBLE


def _if_index_on_replaced_field(mine: Operation, theirs: Operation) -> Verdict:
    index, change = (mine, theirs) if isinstance(mine, CreateIndex) else (theirs, mine)
    if not (isinstance(index, CreateIndex) and isinstance(change, DataReplacement)):
        return _incompatible(mine, theirs)
    fields = _replaced_fields(change)
    for each in index.new_indices:
        if each.touches(fields):
            return _retry(mine, theirs, f"the column of index {each.name!r} was replaced")
    return COMPATIBLE


def _replaced_fields(operation: DataReplacement) -> frozenset[FieldId]:
    return frozenset(
        number for each in operation.replacements for number in each.new_file.fields if number >= 0
    )


def _if_schema_metadata_changes(mine: Operation, theirs: Operation) -> Verdict:
    if any(isinstance(each, UpdateConfig) and each.touches_schema for each in (mine, theirs)):
        return _retry(mine, theirs, "schema or field metadata changed")
    return COMPATIBLE


def _if_restore_meets_schema_metadata(mine: Operation, theirs: Operation) -> Verdict:
    if any(isinstance(each, UpdateConfig) and each.touches_schema for each in (mine, theirs)):
        return _incompatible(mine, theirs, "schema or field metadata changed")
    return COMPATIBLE


def _config_after_config(mine: UpdateConfig, theirs: UpdateConfig) -> Verdict:
    if _keys_meet(mine.config, theirs.config):
        return _incompatible(mine, theirs, "both change the same configuration key")
    if _keys_meet(mine.table_metadata, theirs.table_metadata):
        return _incompatible(mine, theirs, "both change the same key of the table's metadata")
    if mine.schema_metadata and theirs.schema_metadata:
        return _incompatible(mine, theirs, "both change the schema's metadata")
    if set(mine.field_metadata) & set(theirs.field_metadata):
        return _incompatible(mine, theirs, "both change the metadata of one field")
    return COMPATIBLE


def _keys_meet(mine: MapUpdate, theirs: MapUpdate) -> bool:
    if (mine.replace and theirs) or (theirs.replace and mine):
        return True
    return not set(mine.entries).isdisjoint(theirs.entries)


def _replacement_after_delete(mine: DataReplacement, theirs: Delete) -> Verdict:
    gone = touched_fragments(mine) & frozenset(theirs.deleted_fragment_ids)
    if gone:
        return _incompatible(mine, theirs, f"fragment {min(gone)} was deleted")
    return COMPATIBLE


def _replacement_after_update(mine: DataReplacement, theirs: Update) -> Verdict:
    gone = touched_fragments(mine) & frozenset(theirs.removed_fragment_ids)
    if gone:
        return _incompatible(mine, theirs, f"fragment {min(gone)} was removed")
    if theirs.rewrites_columns and _replaced_fields(mine).isdisjoint(theirs.fields_modified):
        return COMPATIBLE
    return _if_fragments_meet(mine, theirs)


def _replacement_after_project(mine: DataReplacement, theirs: Project) -> Verdict:
    lost = _replaced_fields(mine) - {each.id for each in theirs.fields}
    if lost:
        return _incompatible(mine, theirs, f"field {min(lost)} was dropped")
    return _if_nulls_may_vanish(mine, theirs)


def _replacement_after_replacement(mine: DataReplacement, theirs: DataReplacement) -> Verdict:
    if _replaced_fields(mine).isdisjoint(_replaced_fields(theirs)):
        return COMPATIBLE
    return _if_fragments_meet(mine, theirs)


def _bases_after_bases(mine: UpdateBases, theirs: UpdateBases) -> Verdict:
    for one in mine.new_bases:
        for other in theirs.new_bases:
            same_name = one.HasField("name") and other.HasField("name") and one.name == other.name
            if one.path == other.path or same_name or (one.id and one.id == other.id):
                return _incompatible(mine, theirs, f"both add the base path {one.path!r}")
    return COMPATIBLE


Rule: TypeAlias = Callable[[Any, Any], Verdict]

_CODES: Mapping[str, Rule] = {
    ".": _fine,
    "R": _retry,
    "I": _incompatible,
    "f": _if_fragments_meet,
    "B": _if_rows_meet,
    "n": _if_nulls_may_vanish,
    "k": _update_after_append,
    "K": _update_after_update,
    "w": _if_wal_meets,
    "o": _overwrite_after_overwrite,
    "c": _if_overwrite_sets_same_config,
    "u": _index_after_update,
    "x": _index_after_index,
    "v": _if_index_covers_rewritten,
    "p": _if_index_on_replaced_field,
    "m": _if_schema_metadata_changes,
    "s": _if_restore_meets_schema_metadata,
    "g": _config_after_config,
    "D": _replacement_after_delete,
    "U": _replacement_after_update,
    "P": _replacement_after_project,
    "X": _replacement_after_replacement,
    "b": _bases_after_bases,
}

COLUMNS: tuple[type, ...] = (
    Append,
    Delete,
    Update,
    Overwrite,
    CreateIndex,
    Rewrite,
    Merge,
    Project,
    Restore,
    ReserveFragments,
    UpdateConfig,
    DataReplacement,
    DataOverlay,
    UpdateMemWalState,
    Clone,
    UpdateBases,
    UnknownOperation,
    MissingTransaction,
)
"""Theirs, from left to right in the table below; mine are the same, without the last two."""

_TABLE = """
    mine \\ theirs      App Del Upd Ovw Idx Rew Mrg Prj Rst Rsv Cfg Rpl Ovl Wal Cln Bas Unk Mis
    Append              .   .   .   I   .   .   n   n   I   .   .   .   .   I   .   .   I   I
    Delete              .   B   B   I   .   f   R   .   I   .   .   f   .   I   .   .   I   I
    Update              k   B   K   I   .   f   R   n   I   .   .   f   f   w   .   .   I   I
    Overwrite           .   .   .   o   .   .   .   .   .   .   c   .   .   I   .   .   I   I
    CreateIndex         .   .   u   I   x   v   .   .   I   .   .   p   .   I   .   .   I   I
    Rewrite             .   f   f   I   v   f   R   .   I   .   .   f   f   .   .   .   I   I
    Merge               R   R   R   I   .   R   R   I   I   .   m   R   R   I   .   .   I   I
    Project             n   .   n   I   .   .   R   R   I   .   .   n   n   I   .   .   I   I
    Restore             .   .   .   .   .   .   .   .   .   .   s   .   .   I   .   .   I   I
    ReserveFragments    .   .   .   I   .   .   .   .   I   .   .   .   .   .   .   .   I   I
    UpdateConfig        .   .   .   c   .   .   m   .   s   .   g   .   .   .   .   .   I   I
    DataReplacement     .   D   U   I   p   f   R   P   I   .   .   X   .   I   .   .   I   I
    DataOverlay         .   f   f   I   .   f   R   n   I   .   .   .   .   I   .   .   I   I
    UpdateMemWalState   I   I   .   I   .   .   I   I   I   .   .   I   I   I   I   .   I   I
    Clone               I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I
    UpdateBases         .   .   .   .   .   .   .   .   .   .   .   .   .   .   .   b   I   I
"""


def _read_table(text: str) -> dict[tuple[type, type], Rule]:
    kinds = {each.__name__: each for each in COLUMNS}
    rules = {}
    for line in text.strip().splitlines()[1:]:
        name, *codes = line.split()
        for column, code in zip(COLUMNS, codes, strict=True):
            rules[kinds[name], column] = _CODES[code]
    return rules


RULES: Mapping[tuple[type, type], Rule] = _read_table(_TABLE)
