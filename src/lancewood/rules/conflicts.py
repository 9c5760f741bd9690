"""Which commits can follow which: (mine, theirs) → verdict, as one table of pairs.

``theirs`` landed after the version that mine was built on. Pure and conservative: a transaction
that is missing or whose operation is unknown conflicts with everything, and so does a clone, which
is the first version of a branch that was created again or reset.

    COMPATIBLE     mine can be applied after theirs as it is
    REBASE         mine can be applied once it is built on theirs; the engine tries
    RETRY          run the operation again on the newer version
    INCOMPATIBLE   theirs changed what mine depends on; a person must decide
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lancewood.model.transaction import (
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    Merge,
    MissingTransaction,
    Operation,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Rewrite,
    Transaction,
    UnknownOperation,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
)
from lancewood.rules import overlaps
from lancewood.rules.moves import judge_after_move, judge_move, moves_files
from lancewood.rules.overlaps import Verdict, severest


def judge(mine: Transaction, theirs: Transaction) -> Verdict:
    """What a transaction that landed first means for mine: the severest of all pairs."""
    return severest(
        judge_operations(my_operation, their_operation)
        for my_operation in mine.operations
        for their_operation in theirs.operations
    )


def judge_operations(mine: Operation, theirs: Operation) -> Verdict:
    """What an operation that landed first means for mine. An unknown pair is incompatible."""
    if isinstance(mine, Restore) and mine.base_paths is not None:
        return overlaps.retry(mine, theirs, "base paths are set on the newest version only")
    if moves_files(mine):
        return judge_move(mine, theirs)
    if moves_files(theirs):
        return judge_after_move(mine, theirs)
    rule = RULES.get((type(mine), type(theirs)), overlaps.incompatible)
    return rule(mine, theirs)


Rule: TypeAlias = Callable[[Any, Any], Verdict]

_CODES: Mapping[str, Rule] = {
    ".": overlaps.fine,
    "R": overlaps.retry,
    "I": overlaps.incompatible,
    "f": overlaps.if_fragments_meet,
    "B": overlaps.if_rows_meet,
    "n": overlaps.if_nulls_may_vanish,
    "k": overlaps.update_after_append,
    "K": overlaps.update_after_update,
    "w": overlaps.if_wal_meets,
    "o": overlaps.overwrite_after_overwrite,
    "r": overlaps.overwrite_after_restore,
    "c": overlaps.if_overwrite_sets_same_config,
    "h": overlaps.update_after_replacement,
    "u": overlaps.index_after_update,
    "M": overlaps.index_after_merge,
    "x": overlaps.index_after_index,
    "v": overlaps.if_index_covers_rewritten,
    "p": overlaps.index_after_replacement,
    "t": overlaps.if_index_on_replaced_field,
    "m": overlaps.if_schema_metadata_changes,
    "q": overlaps.project_after_config,
    "Q": overlaps.config_after_project,
    "s": overlaps.if_restore_meets_schema_metadata,
    "g": overlaps.config_after_config,
    "D": overlaps.replacement_after_delete,
    "U": overlaps.replacement_after_update,
    "P": overlaps.replacement_after_project,
    "X": overlaps.replacement_after_replacement,
    "b": overlaps.bases_after_bases,
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

TABLE = """
    mine \\ theirs      App Del Upd Ovw Idx Rew Mrg Prj Rst Rsv Cfg Rpl Ovl Wal Cln Bas Unk Mis
    Append              .   .   .   I   .   .   n   n   I   .   .   .   .   I   I   .   I   I
    Delete              .   B   B   I   .   f   R   .   I   .   .   f   .   I   I   .   I   I
    Update              k   B   K   I   .   f   R   n   I   .   .   h   f   w   I   .   I   I
    Overwrite           .   .   .   o   .   .   .   .   r   .   c   .   .   I   I   .   I   I
    CreateIndex         .   .   u   I   x   v   M   .   I   .   .   p   .   I   I   .   I   I
    Rewrite             .   f   f   I   v   f   R   .   I   .   .   f   f   .   I   .   I   I
    Merge               R   R   R   I   .   R   R   I   I   .   m   R   R   I   I   .   I   I
    Project             n   .   n   I   .   .   R   R   I   .   q   n   n   I   I   .   I   I
    Restore             .   .   .   .   .   .   .   .   .   .   s   .   .   I   I   .   I   I
    ReserveFragments    .   .   .   I   .   .   .   .   I   .   .   .   .   .   I   .   I   I
    UpdateConfig        .   .   .   c   .   .   m   Q   s   .   g   .   .   .   I   .   I   I
    DataReplacement     .   D   U   I   t   f   R   P   I   .   .   X   .   I   I   .   I   I
    DataOverlay         .   f   f   I   .   f   R   n   I   .   .   .   .   I   I   .   I   I
    UpdateMemWalState   I   I   .   I   .   .   I   I   I   .   .   I   I   I   I   .   I   I
    Clone               I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I   I
    UpdateBases         .   .   .   .   .   .   .   .   .   .   .   .   .   .   I   b   I   I
"""


def _read_table(text: str) -> dict[tuple[type, type], Rule]:
    kinds = {each.__name__: each for each in COLUMNS}
    rules = {}
    for line in text.strip().splitlines()[1:]:
        name, *codes = line.split()
        for column, code in zip(COLUMNS, codes, strict=True):
            rules[kinds[name], column] = _CODES[code]
    return rules


RULES: Mapping[tuple[type, type], Rule] = _read_table(TABLE)
