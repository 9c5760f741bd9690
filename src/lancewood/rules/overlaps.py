"""The conditions behind the codes of the conflict matrix: when two operations overlap.

Each takes mine and theirs, which landed first, and returns a verdict. ``rules.conflicts`` says
which condition judges which pair. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyroaring import BitMap

from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.transaction import (
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
    Restore,
    Rewrite,
    UnknownOperation,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
    operation_text,
)
from lancewood.rules.inserted_keys import filters_meet
from lancewood.rules.verdicts import COMPATIBLE, Outcome, Verdict, severest


def fine(mine: Operation, theirs: Operation) -> Verdict:
    return COMPATIBLE


def incompatible(mine: Operation, theirs: Operation, because: str = "") -> Verdict:
    return Verdict(Outcome.INCOMPATIBLE, because or _default_reason(theirs))


def retry(mine: Operation, theirs: Operation, because: str = "") -> Verdict:
    return Verdict(Outcome.RETRY, because or _default_reason(theirs))


def _default_reason(theirs: Operation) -> str:
    if isinstance(theirs, MissingTransaction):
        return f"its transaction cannot be found ({theirs.why})"
    if isinstance(theirs, UnknownOperation):
        return f"its operation (number {theirs.number}) is not known to this Lancewood"
    if isinstance(theirs, Clone):
        return "the branch was made anew or reset there, and the same numbers are other rows now"
    return f"the two exclude each other: {operation_text(theirs)} landed first"


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


def if_fragments_meet(mine: Operation, theirs: Operation) -> Verdict:
    common = touched_fragments(mine) & touched_fragments(theirs)
    return retry(mine, theirs, f"both change {_named(common)}") if common else COMPATIBLE


def if_rows_meet(mine: Delete | Update, theirs: Delete | Update) -> Verdict:
    """Judge two changes that delete rows of fragments, or rewrite columns of them: if they share a
    fragment, its rows decide, unless one of them removes it as a whole."""
    common = touched_fragments(mine) & touched_fragments(theirs)
    if not common:
        return COMPATIBLE
    gone = common & (_removed_fragments(mine) | _removed_fragments(theirs))
    if gone:
        return retry(mine, theirs, f"both change {_named(common)}, one removes {_named(gone)}")
    return Verdict(Outcome.REBASE, f"both change {_named(common)}")


def _removed_fragments(operation: Delete | Update) -> frozenset[FragmentId]:
    if isinstance(operation, Delete):
        return frozenset(operation.deleted_fragment_ids)
    return frozenset(operation.removed_fragment_ids)


def _named(fragments: frozenset[FragmentId]) -> str:
    some = sorted(fragments)
    shown = ", ".join(map(str, some[:8])) + (", …" if len(some) > 8 else "")
    return f"fragment {shown}" if len(some) == 1 else f"fragments {shown}"


def if_nulls_may_vanish(mine: Operation, theirs: Operation) -> Verdict:
    """A schema change that may tighten a column to non-null, against rows that may hold nulls."""
    for each in (mine, theirs):
        if isinstance(each, Merge | Project) and not each.preserves_nullability:
            return retry(mine, theirs, "the schema change may make a column non-nullable")
    return COMPATIBLE


def update_after_append(mine: Update, theirs: Append) -> Verdict:
    if mine.inserted_rows is not None:
        return retry(mine, theirs, "the appended rows may hold keys that this upsert inserts")
    return COMPATIBLE


def update_after_update(mine: Update, theirs: Update) -> Verdict:
    if _writes_keys(mine, theirs.fields_modified):
        return retry(mine, theirs, _KEYS_CHANGED)
    if mine.inserted_rows is not None and theirs.new_fragments:
        if theirs.inserted_rows is None:
            return retry(mine, theirs, "it does not say which keys it inserted")
        if filters_meet(mine.inserted_rows, theirs.inserted_rows):
            return retry(mine, theirs, "both may insert the same keys")
    return if_rows_meet(mine, theirs)


def update_after_replacement(mine: Update, theirs: DataReplacement) -> Verdict:
    if _writes_keys(mine, _replaced_fields(theirs)):
        return retry(mine, theirs, _KEYS_CHANGED)
    return if_fragments_meet(mine, theirs)


_KEYS_CHANGED = "it wrote a key column anew, which may hold keys that this upsert inserts"


def _writes_keys(upsert: Update, fields: Iterable[FieldId]) -> bool:
    """Whether one of the fields is part of the key by which an upsert matched its rows."""
    keys = upsert.inserted_rows
    return keys is not None and not frozenset(keys.field_ids).isdisjoint(fields)


def if_wal_meets(mine: Update, theirs: UpdateMemWalState) -> Verdict:
    if mine.compacted_sstables:
        return retry(mine, theirs, "both change the write-ahead log")
    return COMPATIBLE


def overwrite_after_overwrite(mine: Overwrite, theirs: Overwrite) -> Verdict:
    common = sorted(set(mine.config_upserts) & set(theirs.config_upserts))
    if common:
        return incompatible(mine, theirs, f"both set the configuration {', '.join(common)}")
    return retry(mine, theirs, "both replace the whole table")


def overwrite_after_restore(mine: Overwrite, theirs: Restore) -> Verdict:
    """The restore may have brought back other base paths than those that files were written to."""
    if any(file.base_id is not None for each in mine.fragments for file in each.files):
        return retry(mine, theirs, "base paths that files were written to may be other ones now")
    return COMPATIBLE


def if_overwrite_sets_same_config(mine: Operation, theirs: Operation) -> Verdict:
    one, other = (mine, theirs) if isinstance(mine, Overwrite) else (theirs, mine)
    if not (isinstance(one, Overwrite) and isinstance(other, UpdateConfig)):
        return incompatible(mine, theirs)
    if other.touches_schema:
        return incompatible(mine, theirs, "metadata of a schema that is replaced would change")
    common = sorted(set(one.config_upserts) & set(other.config.entries))
    if common or (other.config.replace and one.config_upserts):
        keys = ", ".join(common) or "as a whole"
        return incompatible(mine, theirs, f"both set the configuration {keys}")
    return COMPATIBLE


def index_after_update(mine: CreateIndex, theirs: Update) -> Verdict:
    return _if_files_changed(mine, theirs) if theirs.rewrites_columns else COMPATIBLE


def index_after_merge(mine: CreateIndex, theirs: Merge) -> Verdict:
    if mine.new_indices:
        return Verdict(Outcome.REBASE, "columns may come from other files now")
    return COMPATIBLE


def index_after_replacement(mine: CreateIndex, theirs: DataReplacement) -> Verdict:
    return severest((if_index_on_replaced_field(mine, theirs), _if_files_changed(mine, theirs)))


def _if_files_changed(mine: CreateIndex, theirs: Operation) -> Verdict:
    """Columns were rewritten: the files of the fragments show which ones."""
    for index in mine.new_indices:
        if not index.fragments.isdisjoint(_bitmap(theirs)):
            return Verdict(Outcome.REBASE, f"columns under index {index.name!r} were rewritten")
    return COMPATIBLE


def _bitmap(operation: Operation) -> BitMap:
    return BitMap(touched_fragments(operation))


def index_after_index(mine: CreateIndex, theirs: CreateIndex) -> Verdict:
    my_names = {each.name for each in (*mine.new_indices, *mine.removed_indices)}
    their_names = {each.name for each in (*theirs.new_indices, *theirs.removed_indices)}
    common = sorted(my_names & their_names)
    return retry(mine, theirs, f"both change index {', '.join(common)}") if common else COMPATIBLE


def if_index_covers_rewritten(mine: Operation, theirs: Operation) -> Verdict:
    index, rewrite = (mine, theirs) if isinstance(mine, CreateIndex) else (theirs, mine)
    if not isinstance(index, CreateIndex):
        return incompatible(mine, theirs)
    old = _bitmap(rewrite)
    for each in index.new_indices:
        if not each.fragments.isdisjoint(old):
            return retry(mine, theirs, f"index {each.name!r} covers rewritten fragments")
    if isinstance(rewrite, Rewrite) and index is mine:
        renamed = {each.old_uuid for each in rewrite.rewritten_indices}
        for each in index.removed_indices:
            if each.message.uuid.uuid in renamed:
                return retry(mine, theirs, f"index {each.name!r} was rewritten, too")
    return COMPATIBLE


def if_index_on_replaced_field(mine: Operation, theirs: Operation) -> Verdict:
    index, change = (mine, theirs) if isinstance(mine, CreateIndex) else (theirs, mine)
    if not (isinstance(index, CreateIndex) and isinstance(change, DataReplacement)):
        return incompatible(mine, theirs)
    fields = _replaced_fields(change)
    for each in index.new_indices:
        if each.touches(fields):
            return retry(mine, theirs, f"the column of index {each.name!r} was replaced")
    return COMPATIBLE


def _replaced_fields(operation: DataReplacement) -> frozenset[FieldId]:
    return frozenset(
        number for each in operation.replacements for number in each.new_file.fields if number >= 0
    )


def if_schema_metadata_changes(mine: Operation, theirs: Operation) -> Verdict:
    if any(isinstance(each, UpdateConfig) and each.touches_schema for each in (mine, theirs)):
        return retry(mine, theirs, "schema or field metadata changed")
    return COMPATIBLE


def project_after_config(mine: Project, theirs: UpdateConfig) -> Verdict:
    if any(theirs.field_metadata.values()):
        return retry(mine, theirs, "the metadata of a field changed")
    return COMPATIBLE


def config_after_project(mine: UpdateConfig, theirs: Project) -> Verdict:
    lost = frozenset(mine.field_metadata) - {each.id for each in theirs.fields}
    if lost:
        return incompatible(mine, theirs, f"field {min(lost)} was dropped")
    return COMPATIBLE


def if_restore_meets_schema_metadata(mine: Operation, theirs: Operation) -> Verdict:
    if any(isinstance(each, UpdateConfig) and each.touches_schema for each in (mine, theirs)):
        return incompatible(mine, theirs, "schema or field metadata changed")
    return COMPATIBLE


def config_after_config(mine: UpdateConfig, theirs: UpdateConfig) -> Verdict:
    if _keys_meet(mine.config, theirs.config):
        return incompatible(mine, theirs, "both change the same configuration key")
    if _keys_meet(mine.table_metadata, theirs.table_metadata):
        return incompatible(mine, theirs, "both change the same key of the table's metadata")
    if mine.schema_metadata and theirs.schema_metadata:
        return incompatible(mine, theirs, "both change the schema's metadata")
    if set(mine.field_metadata) & set(theirs.field_metadata):
        return incompatible(mine, theirs, "both change the metadata of one field")
    return COMPATIBLE


def _keys_meet(mine: MapUpdate, theirs: MapUpdate) -> bool:
    if (mine.replace and theirs) or (theirs.replace and mine):
        return True
    return not set(mine.entries).isdisjoint(theirs.entries)


def replacement_after_delete(mine: DataReplacement, theirs: Delete) -> Verdict:
    gone = touched_fragments(mine) & frozenset(theirs.deleted_fragment_ids)
    if gone:
        return incompatible(mine, theirs, f"fragment {min(gone)} was deleted")
    return COMPATIBLE


def replacement_after_update(mine: DataReplacement, theirs: Update) -> Verdict:
    gone = touched_fragments(mine) & frozenset(theirs.removed_fragment_ids)
    if gone:
        return incompatible(mine, theirs, f"fragment {min(gone)} was removed")
    if theirs.rewrites_columns and _replaced_fields(mine).isdisjoint(theirs.fields_modified):
        return COMPATIBLE
    return if_fragments_meet(mine, theirs)


def replacement_after_project(mine: DataReplacement, theirs: Project) -> Verdict:
    lost = _replaced_fields(mine) - {each.id for each in theirs.fields}
    if lost:
        return incompatible(mine, theirs, f"field {min(lost)} was dropped")
    return if_nulls_may_vanish(mine, theirs)


def replacement_after_replacement(mine: DataReplacement, theirs: DataReplacement) -> Verdict:
    if _replaced_fields(mine).isdisjoint(_replaced_fields(theirs)):
        return COMPATIBLE
    return if_fragments_meet(mine, theirs)


def bases_after_bases(mine: UpdateBases, theirs: UpdateBases) -> Verdict:
    for one in mine.new_bases:
        for other in theirs.new_bases:
            same_name = one.HasField("name") and other.HasField("name") and one.name == other.name
            if one.path == other.path or same_name or (one.id and one.id == other.id):
                return incompatible(mine, theirs, f"both add the base path {one.path!r}")
    return COMPATIBLE
