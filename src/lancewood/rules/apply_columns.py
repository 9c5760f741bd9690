"""What follows from operations on columns: Project, Merge, DataReplacement. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.rowids import RowVersions
from lancewood.model.transaction import (
    DataReplacement,
    FieldMessages,
    HeadChanges,
    ManifestPatch,
    Merge,
    Project,
    Replacement,
)
from lancewood.rules.indices import changed_fields, on_live_fields, uncovered, with_relatives
from lancewood.rules.numbering import check_field_ids, check_row_mark, field_mark, hand_out_ids
from lancewood.rules.patching import make_patch


def apply_project(manifest: Manifest, operation: Project) -> ManifestPatch:
    """Another schema over the same files; a file that is left without columns is dropped."""
    live = _ids(operation.fields)
    indices = on_live_fields(manifest.indices, live)
    changes = HeadChanges(
        fields=operation.fields,
        indices=None if indices == manifest.indices else indices,
        max_allocated_field_id=field_mark(manifest, operation.fields),
    )
    gone = _ids(manifest.fields) - live
    if gone:
        _check_files_are_left(manifest, live)
    return make_patch(manifest, changes, live_fields=live if gone else None)


def apply_merge(manifest: Manifest, operation: Merge) -> ManifestPatch:
    """Another schema, and fragments with other files; all their rows count as updated.

    Fragments listed beyond those of the manifest are new rows, and get the next free ids.
    """
    old, new = _ids(manifest.fields), _ids(operation.fields)
    check_field_ids(manifest, new - old)
    last = max((each.id for each in manifest.fragments), default=-1)
    images = _images(manifest, [each for each in operation.fragments if each.id <= last])
    added, marks = _added(manifest, [each for each in operation.fragments if each.id > last])
    indices = on_live_fields(manifest.indices, new)
    stamps: dict[int, RowVersions] = {}
    rewritten: dict[frozenset[FieldId], list[FragmentId]] = {}
    changed = {}
    for now, image in zip(manifest.fragments, images, strict=True):
        if now.message.files == image.message.files:
            continue
        fragment = now.with_files(image.files)
        if manifest.has_stable_row_ids:
            rows = now.physical_rows
            if rows not in stamps:
                stamps[rows] = RowVersions.uniform(manifest.version + 1, rows)
            fragment = fragment.stamped(stamps[rows])
        changed[now.id] = fragment
        if indices:
            rewritten.setdefault(changed_fields(now, image), []).append(now.id)
    for fields, fragments in rewritten.items():
        indices = uncovered(indices, fragments, with_relatives(manifest.fields, fields))
    changes = HeadChanges(
        fields=operation.fields,
        schema_metadata=operation.schema_metadata,
        indices=None if indices == manifest.indices else indices,
        max_fragment_id=marks.max_fragment_id,
        next_row_id=marks.next_row_id,
        max_allocated_field_id=field_mark(manifest, operation.fields),
    )
    return make_patch(manifest, changes, changed=changed, add=added)


def apply_data_replacement(manifest: Manifest, operation: DataReplacement) -> ManifestPatch:
    """Whole columns of some fragments come from other files."""
    manifest.expect_lookups(len(operation.replacements))
    _check_replacements(manifest, operation.replacements)
    live = _ids(manifest.fields)
    written = frozenset(
        number for each in operation.replacements for number in each.new_file.fields
    )
    parents = _whole_parents(manifest.fields, written)
    changed = {}
    for each in operation.replacements:
        now = manifest.fragment(each.fragment_id)
        fragment = _with_file(now, each.new_file, parents).without_dead_files(live)
        if manifest.has_stable_row_ids:
            stamp = RowVersions.uniform(manifest.version + 1, now.physical_rows)
            fragment = fragment.stamped(stamp)
        changed[now.id] = fragment
    indices = uncovered(manifest.indices, changed, with_relatives(manifest.fields, written))
    changes = HeadChanges(indices=None if indices == manifest.indices else indices)
    return make_patch(manifest, changes, changed=changed)


def _check_files_are_left(manifest: Manifest, live: frozenset[FieldId]) -> None:
    """Check that every fragment keeps a file: without one it cannot be read, nor counted by
    pylance."""
    for each in manifest.fragments:
        if all(live.isdisjoint(file.fields) for file in each.message.files):
            raise RetryableConflictError(
                f"fragment {each.id} has none of the columns that stay, and would have no file "
                "left; run it again on the newest version, and write a file for it",
                fragment=each.id,
            )


def _added(
    manifest: Manifest, fragments: Sequence[Fragment]
) -> tuple[tuple[Fragment, ...], HeadChanges]:
    """New fragments with their ids, and the new marks."""
    if not fragments:
        return (), HeadChanges()
    check_row_mark(manifest)
    return hand_out_ids(manifest, fragments)


def _images(manifest: Manifest, images: Sequence[Fragment]) -> Sequence[Fragment]:
    """The given fragments in the manifest's order; raises InvalidInputError for a missing one."""
    if len(images) == manifest.fragment_count and all(
        image.id == now.id for image, now in zip(images, manifest.fragments, strict=True)
    ):
        return images
    given = {each.id: each for each in images}
    known = {each.id for each in manifest.fragments}
    if len(given) != len(images) or given.keys() != known:
        wrong = sorted(given.keys() ^ known)
        raise InvalidInputError(
            f"a Merge lists every fragment once: {len(images)} are given, the table has "
            f"{len(known)}" + (f"; fragment {wrong[0]} is on one side only" if wrong else "")
        )
    return [given[each.id] for each in manifest.fragments]


def _check_replacements(manifest: Manifest, replacements: Sequence[Replacement]) -> None:
    if len({each.new_file.fields for each in replacements}) > 1:
        raise InvalidInputError(
            "all files of a DataReplacement hold the same fields; commit one for each set of them"
        )
    times = Counter(each.fragment_id for each in replacements)
    for fragment, count in times.most_common(1):
        if count > 1:
            raise InvalidInputError(
                f"a DataReplacement names a fragment twice: {fragment}", fragment=fragment
            )
    live = _ids(manifest.fields)
    for each in replacements[:1]:
        unknown = sorted(frozenset(each.new_file.fields) - live)
        if unknown:
            raise InvalidInputError(
                f"no field of version {manifest.version} has the id {unknown[0]}"
            )


def _whole_parents(fields: FieldMessages, leaves: frozenset[FieldId]) -> frozenset[FieldId]:
    """The structs and lists all of whose leaves are among those given."""
    inner = {each.parent_id for each in fields}
    outside = {each.id for each in fields if each.id not in inner and each.id not in leaves}
    for each in reversed(fields):  # children come after their parents
        if each.id in outside and each.parent_id >= 0:
            outside.add(each.parent_id)
    return frozenset(FieldId(each) for each in inner if each >= 0 and each not in outside)


def _with_file(fragment: Fragment, new: DataFile, parents: frozenset[FieldId]) -> Fragment:
    """Replace the file that holds the same columns with the new one, or else add it."""
    for at, each in enumerate(fragment.files):
        if each.fields == new.fields and each.version == new.version:
            files = list(fragment.files)
            files[at] = new
            return fragment.with_files(files)
    return fragment.with_columns(new, parents)


def _ids(fields: FieldMessages) -> frozenset[FieldId]:
    return frozenset(FieldId(each.id) for each in fields)
