"""What follows from operations on rows: Delete, Update, Rewrite. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyroaring import BitMap

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import FIRST_VERSION, RowIdSequence, RowVersions
from lancewood.model.transaction import (
    Delete,
    HeadChanges,
    ManifestPatch,
    Rewrite,
    RewriteGroup,
    Update,
)
from lancewood.rules.indices import (
    Indices,
    changed_fields,
    check_no_fragment_reuse,
    uncovered,
    with_moved_rows,
    with_relatives,
    with_rewritten_fragments,
)
from lancewood.rules.moves import apply_move
from lancewood.rules.numbering import (
    check_fragment_id,
    check_unique_rows,
    hand_out_ids,
    next_fragment_id,
)
from lancewood.rules.patching import make_patch


def apply_delete(manifest: Manifest, operation: Delete) -> ManifestPatch:
    """Fragments get new deletion files, or are removed."""
    manifest.expect_lookups(len(operation.updated_fragments))
    return make_patch(
        manifest,
        HeadChanges(),
        changed=_with_deletions(manifest, operation.updated_fragments),
        remove=frozenset(operation.deleted_fragment_ids),
    )


def apply_update(manifest: Manifest, operation: Update) -> ManifestPatch:
    """Rows are deleted in place and written to new fragments, or columns get new files."""
    if operation.moves_files:
        return apply_move(manifest, operation)
    manifest.expect_lookups(len(operation.updated_fragments))
    if operation.rewrites_columns:
        changed = {
            each.id: _with_new_files(manifest, each, operation)
            for each in operation.updated_fragments
        }
    else:
        changed = _with_deletions(manifest, operation.updated_fragments)
    touched = (*changed, *operation.removed_fragment_ids)
    added, marks = hand_out_ids(
        manifest, operation.new_fragments, lambda ids: _created_at(manifest, touched, ids)
    )
    indices = manifest.indices
    if operation.rewrites_columns:
        indices = _without_rewritten(manifest, changed, operation.fields_modified)
    elif manifest.has_stable_row_ids and operation.fields_for_preserving_frag_bitmap:
        written = operation.fields_for_preserving_frag_bitmap
        moved_only = [
            done.id
            for done, given in zip(added, operation.new_fragments, strict=True)
            if _holds_only_moved_rows(given)
        ]
        indices = with_moved_rows(
            indices, touched, moved_only, with_relatives(manifest.fields, written)
        )
    changes = HeadChanges(
        max_fragment_id=marks.max_fragment_id if added else None,
        next_row_id=marks.next_row_id,
        indices=None if indices == manifest.indices else indices,
    )
    return make_patch(
        manifest,
        changes,
        add=added,
        changed=changed,
        remove=frozenset(operation.removed_fragment_ids),
    )


def apply_rewrite(manifest: Manifest, operation: Rewrite) -> ManifestPatch:
    """Fragments are replaced by others that hold the same rows."""
    if operation.rewritten_indices:
        raise UnsupportedError(
            "Lancewood does not commit a Rewrite with indices that were rewritten; leave them out, "
            "and the fragments are scanned"
        )
    check_no_fragment_reuse(manifest.indices, "a compaction")
    manifest.expect_lookups(sum(len(each.old_fragments) for each in operation.groups))
    added: list[Fragment] = []
    remove: set[FragmentId] = set()
    groups = []
    for group in operation.groups:
        old = [each.id for each in group.old_fragments]
        twice = remove.intersection(old)
        if twice:
            raise InvalidInputError(f"a fragment is rewritten twice: {min(twice)}")
        remove.update(old)
        _check_same_rows(manifest, group)
        added.extend(group.new_fragments)
        groups.append((BitMap(old), BitMap(each.id for each in group.new_fragments)))
    _check_reserved(manifest, [each.id for each in added])
    check_unique_rows(added)
    indices = with_rewritten_fragments(
        manifest.indices, groups, ids_are_stable=manifest.has_stable_row_ids
    )
    changes = HeadChanges(indices=None if indices == manifest.indices else indices)
    return make_patch(manifest, changes, add=tuple(added), remove=frozenset(remove))


def _with_deletions(manifest: Manifest, images: Iterable[Fragment]) -> dict[FragmentId, Fragment]:
    changed = {}
    for each in images:
        if each.deletion_file is None:
            raise InvalidInputError(
                f"fragment {each.id} is to lose rows, but has no deletion file", fragment=each.id
            )
        changed[each.id] = manifest.fragment(each.id).with_deletion_file(each.deletion_file)
    return changed


def _with_new_files(manifest: Manifest, image: Fragment, operation: Update) -> Fragment:
    """The newest fragment with the files of the image, without columns that were dropped since."""
    live = frozenset(FieldId(each.id) for each in manifest.fields)
    now = manifest.fragment(image.id)
    changed = now.with_files(image.files).with_deletion_file(image.deletion_file)
    changed = changed.without_dead_files(live)
    if not manifest.has_stable_row_ids:
        return changed
    version, rows = manifest.version + 1, now.physical_rows
    offsets = operation.updated_offsets.get(image.id)
    stamped = RowVersions.uniform(version, rows)
    if offsets is not None:
        before = now.last_updated_at or RowVersions.uniform(FIRST_VERSION, rows)
        stamped = before.with_value_at(offsets, version)
    return changed.stamped(stamped)


def _without_rewritten(
    manifest: Manifest, changed: Mapping[FragmentId, Fragment], named: Iterable[FieldId]
) -> Indices:
    """Indices no longer cover columns that were rewritten: those that are named, and those that the
    files of a fragment show."""
    indices, written = manifest.indices, frozenset(named)
    if not indices:
        return indices
    by_fields: dict[frozenset[FieldId], list[FragmentId]] = {}
    for number, each in changed.items():
        fields = changed_fields(manifest.fragment(number), each) | written
        by_fields.setdefault(fields, []).append(number)
    for fields, fragments in by_fields.items():
        indices = uncovered(indices, fragments, with_relatives(manifest.fields, fields))
    return indices


def _holds_only_moved_rows(fragment: Fragment) -> bool:
    given = fragment.lineage("row_ids")
    return isinstance(given, bytes) and len(RowIdSequence.decode(given)) == fragment.physical_rows


def _created_at(
    manifest: Manifest, touched: Iterable[FragmentId], ids: RowIdSequence
) -> RowVersions:
    """The versions that created rows, looked up in their old fragments.

    For transactions of writers that leave this to the commit.
    """
    fragments = [manifest.fragment(each) for each in touched]
    known = [each.row_ids for each in fragments]
    sequences = [each for each in known if each is not None]
    versions = [
        each.created_at or RowVersions.uniform(FIRST_VERSION, each.physical_rows)
        for each, ids_of in zip(fragments, known, strict=True)
        if ids_of is not None
    ]
    at = RowIdSequence.concat(sequences).find(ids.to_numpy())
    if len(at) and at.min() < 0:
        raise InvalidInputError("a new fragment lists row ids that none of the old ones has")
    return RowVersions.from_values(RowVersions.concat(versions).values_at(at))


def _check_same_rows(manifest: Manifest, group: RewriteGroup) -> None:
    """Raise InvalidInputError if a compaction would lose rows, add some, or lose their ids."""
    before = [manifest.fragment(each.id).num_rows for each in group.old_fragments]
    known = [each for each in before if each is not None]
    after = sum(each.physical_rows for each in group.new_fragments)
    if len(known) == len(before) and sum(known) != after:
        raise InvalidInputError(
            f"a compaction of {sum(known)} rows wrote {after}: fragments "
            f"{', '.join(str(each.id) for each in group.old_fragments[:8])}"
        )
    for each in group.new_fragments:
        if each.deletion_file is not None:
            raise InvalidInputError(f"fragment {each.id} is new, but has a deletion file")
        if manifest.has_stable_row_ids and each.row_ids is None:
            raise InvalidInputError(f"fragment {each.id} is new, and its rows have no ids")


def _check_reserved(manifest: Manifest, ids: list[FragmentId]) -> None:
    free = next_fragment_id(manifest)
    for each in ids:
        check_fragment_id(each)
        if each >= free or manifest.position_of(each) is not None:
            raise InvalidInputError(
                f"the new fragment has the id {each}, which was not reserved for it; commit "
                "ReserveFragments first"
            )
    if len(set(ids)) != len(ids):
        raise InvalidInputError("two new fragments have the same id")
