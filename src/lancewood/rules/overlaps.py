"""The conditions behind the codes of the conflict matrix: when two operations overlap. Pure.

Each takes mine and theirs, which landed first, and returns a verdict. ``rules.conflicts`` says
which condition judges which pair.

Upserts record filters of the keys that they inserted, which come as 64-bit hashes
(``jobs.merge_into.key_hashes``). What is not proven disjoint counts as overlapping,
including forms of other writers:

    bloom         pylance's own form and size, so that each can prove the other's keys disjoint
    exact         our hashes behind a mark, where the bloom filter would fill up or pylance would
                  leave such keys out; pylance takes the form for one that may meet its own
    exact, empty  too many keys to tell, or kinds that cannot be told: meets every filter

Operations of one transaction were all built on one version. A later one therefore has a fragment's
state from before the earlier ones, and would undo what they did to it. Staged operations were each
built on the one before, and count as such a list if none names what an earlier one made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from lancewood.errors import InvalidInputError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import ManifestHead
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
    operation_name,
    operation_text,
)
from lancewood.proto import table_pb2, transaction_pb2
from lancewood.rules.numbering import next_fragment_id


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


KeyFilter: TypeAlias = transaction_pb2.KeyExistenceFilter
Hashes: TypeAlias = npt.NDArray[np.uint64]
_Words: TypeAlias = npt.NDArray[np.uint32]

MOST_IN_BLOOM = 2_048
"""Number of keys in a filter at most: with more on both sides its blocks become too full."""
MOST_EXACT = 65_536
"""Number of keys that are listed at most: more would make the transaction, which every later writer
reads, larger than half a megabyte."""

_BLOCKS = 1_024
_WORDS = 8
_BYTES = _BLOCKS * _WORDS * 4
_ITEMS = 8_192
_PROBABILITY = 0.00057
_SALTS = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    dtype=np.uint32,
)
_MARK = int.from_bytes(b"lwxxh64\0", "little")
"""The first of our exact hashes, as a mark: equal keys under another hash function would look
different."""


def make_key_filter(
    field_ids: Sequence[FieldId], hashes: Hashes | None, *, is_known_to_pylance: bool
) -> KeyFilter:
    """The filter of these keys; None means too many of them to be hashed.

    ``is_known_to_pylance``: pylance would put keys of these types into a filter too.
    """
    made = KeyFilter(field_ids=field_ids)
    if hashes is None:
        made.exact.SetInParent()
        return made
    distinct = np.unique(hashes)
    if is_known_to_pylance and len(distinct) <= MOST_IN_BLOOM:
        made.bloom.bitmap = _bloom_words(distinct).astype("<u4").tobytes()
        made.bloom.num_bits = _BYTES * 8
        made.bloom.number_of_items = _ITEMS
        made.bloom.probability = _PROBABILITY
    else:
        made.exact.SetInParent()
        if len(distinct) <= MOST_EXACT:
            made.exact.key_hashes.append(_MARK)
            made.exact.key_hashes.extend(distinct.tolist())
    return made


def filters_meet(mine: KeyFilter, theirs: KeyFilter) -> bool:
    """Whether a key may be in both. False only if they provably share none."""
    if not mine.field_ids or list(mine.field_ids) != list(theirs.field_ids):
        return True
    my_hashes, their_hashes = _exact_hashes(mine), _exact_hashes(theirs)
    if my_hashes is not None and their_hashes is not None:
        return bool(np.isin(my_hashes, their_hashes).any())
    my_words, their_words = _bloom(mine), _bloom(theirs)
    if my_words is not None and their_words is not None:
        return bool((my_words & their_words).all(axis=1).any())
    if my_hashes is not None and their_words is not None:
        return _may_hold_one(their_words, my_hashes)
    if my_words is not None and their_hashes is not None:
        return _may_hold_one(my_words, their_hashes)
    return True


def _exact_hashes(keys: KeyFilter) -> Hashes | None:
    """The hashes of an exact filter of ours, else None."""
    if not keys.HasField("exact"):
        return None
    found = np.array(keys.exact.key_hashes, dtype=np.uint64)
    return found[1:] if len(found) and found[0] == _MARK else None


def _bloom(keys: KeyFilter) -> _Words | None:
    """The blocks of a bloom filter; None where it has another form, or is empty.

    pylance leaves keys of some types out of its filter, so an empty one proves nothing.
    """
    if not keys.HasField("bloom"):
        return None
    bloom = keys.bloom
    if (len(bloom.bitmap), bloom.num_bits) != (_BYTES, _BYTES * 8):
        return None
    words = np.frombuffer(bloom.bitmap, dtype="<u4").reshape(_BLOCKS, _WORDS)
    return words if words.any() else None


def _bloom_words(hashes: Hashes) -> _Words:
    words = np.zeros((_BLOCKS, _WORDS), dtype=np.uint32)
    blocks, masks = _places(hashes)
    np.bitwise_or.at(words, blocks, masks)
    return words


def _may_hold_one(words: _Words, hashes: Hashes) -> bool:
    blocks, masks = _places(hashes)
    return bool((words[blocks] & masks).all(axis=1).any())


def _places(hashes: Hashes) -> tuple[npt.NDArray[np.int64], _Words]:
    """The block of each hash, and the one bit it sets in each of the block's words."""
    upper, lower = hashes >> np.uint64(32), hashes.astype(np.uint32)
    blocks = ((upper * np.uint64(_BLOCKS)) >> np.uint64(32)).astype(np.int64)
    bits = (lower[:, None] * _SALTS) >> np.uint32(27)
    return blocks, np.left_shift(np.uint32(1), bits)


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


def severest(verdicts: Iterable[Verdict]) -> Verdict:
    """The first of the most severe verdicts."""
    return max(verdicts, key=lambda each: _SEVERITY.index(each.outcome), default=COMPATIBLE)


def check_list(operations: Sequence[Operation]) -> None:
    """Raise InvalidInputError if two of the operations change the same fragment."""
    found = _both_change(operations)
    if found is not None:
        first, second, number = found
        raise InvalidInputError(
            f"{operation_name(first)} and {operation_name(second)} of one "
            f"transaction both change fragment {number}, as it was before either; commit "
            "the first, and build the second on the version after it",
            fragment=number,
        )


def dependence(base: ManifestHead, operations: Sequence[Operation]) -> str | None:
    """Why operations, each built on the state that the one before made of ``base``, could not all
    have been built on ``base``; None if they could."""
    found = _both_change(operations)
    if found is not None:
        first, second, number = found
        names = f"{operation_name(first)} and {operation_name(second)}"
        return f"{names} both change fragment {number}"
    known, file_roots = next_fragment_id(base), {each.id for each in base.base_paths}
    for each in operations:
        name = operation_name(each)
        made = max(_named_fragments(each), default=-1)
        if made >= known:
            return f"{name} rests on fragment {made}, which an earlier step made"
        if isinstance(each, Restore) and each.version > base.version:
            return f"{name} goes back to version {each.version}, which is an earlier step"
        for file in _new_files(each):
            if file.HasField("base_id") and file.base_id not in file_roots:
                return (
                    f"{name} keeps files at base path {file.base_id}, which an earlier step added"
                )
    return None


def _both_change(
    operations: Sequence[Operation],
) -> tuple[Operation, Operation, FragmentId] | None:
    """Two operations that change the same fragment."""
    if len(operations) < 2:
        return None
    changed: dict[FragmentId, int] = {}
    for at, each in enumerate(operations):
        for number in _changed_fragments(each):
            first = changed.setdefault(number, at)
            if first != at:
                return operations[first], each, number
    return None


def _changed_fragments(operation: Operation) -> frozenset[FragmentId]:
    if isinstance(operation, Merge):
        return frozenset(each.id for each in operation.fragments)
    return touched_fragments(operation)


def _named_fragments(operation: Operation) -> Iterator[int]:
    """Fragments that must exist before the operation, or whose ids must have been reserved."""
    yield from _changed_fragments(operation)
    if isinstance(operation, Rewrite):
        yield from (each.id for group in operation.groups for each in group.new_fragments)
    elif isinstance(operation, CreateIndex):
        yield from (each.fragments.max() for each in operation.new_indices if each.fragments)


def _new_files(operation: Operation) -> Iterator[table_pb2.DataFile]:
    fragments: Iterable[Fragment] = ()
    match operation:
        case Append(fragments=new) | Overwrite(fragments=new) | Merge(fragments=new):
            fragments = new
        case Delete(updated_fragments=changed):
            fragments = changed
        case Update(updated_fragments=changed, new_fragments=new):
            fragments = (*changed, *new)
        case Rewrite(groups=groups):
            fragments = (each for group in groups for each in group.new_fragments)
        case DataReplacement(replacements=replacements):
            yield from (each.new_file.message for each in replacements)
    for fragment in fragments:
        yield from fragment.message.files
