"""Data files that moved to another root: the same bytes under other names, in one commit. Pure.

The format has no operation for this. It is recorded as an Update that rewrites columns in place and
names none of them. Other writers then stay off the fragments, which is all that is needed: one that
changed such a fragment runs again, one that appended or built an index goes on. For us no row is
touched: ids, versions, deletion files and index coverage stay as they are.

Where this makes a table independent, the head changes too: copied index files lie in the own root
from then on, and base paths that nothing refers to any more are no longer declared. What another
writer added to one meanwhile keeps its base path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FragmentId
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest, ManifestHead
from lancewood.model.transaction import (
    Append,
    Clone,
    CreateIndex,
    DataOverlay,
    DataReplacement,
    Delete,
    HeadChanges,
    ManifestPatch,
    Merge,
    MissingTransaction,
    Operation,
    ReserveFragments,
    Rewrite,
    UnknownOperation,
    Update,
    UpdateMemWalState,
)
from lancewood.proto import table_pb2
from lancewood.rules.overlaps import Outcome, Verdict, fine, if_fragments_meet, incompatible, retry
from lancewood.rules.patching import make_patch

_Place: TypeAlias = tuple[str, BaseId | None]
_NOTHING_TO_DO_WITH_FILES = (Append, CreateIndex, ReserveFragments, UpdateMemWalState)
_NAME_THEIR_FRAGMENTS = (Delete, Update, Rewrite, DataReplacement, DataOverlay)


def moved_files(images: Iterable[Fragment]) -> Update:
    """The operation after which fragments have the files of these images."""
    return Update((), tuple(images), (), rewrites_columns=True, moves_files=True)


def moves_files(operation: Operation) -> TypeGuard[Update]:
    """Whether an operation only moves files."""
    return isinstance(operation, Update) and operation.moves_files


def judge_move(mine: Update, theirs: Operation) -> Verdict:
    """Judge a move: compatible with every known operation, since the files themselves decide
    later."""
    if isinstance(theirs, Clone | UnknownOperation | MissingTransaction):
        return incompatible(mine, theirs)
    if isinstance(theirs, _NOTHING_TO_DO_WITH_FILES):
        return fine(mine, theirs)
    if isinstance(theirs, _NAME_THEIR_FRAGMENTS):
        met = if_fragments_meet(mine, theirs)
        return met if met.outcome is Outcome.COMPATIBLE else Verdict(Outcome.REBASE, met.reason)
    return Verdict(Outcome.REBASE, "fragments may have other files now")


def judge_after_move(mine: Operation, theirs: Update) -> Verdict:
    """Judge an operation after a move: only one that lists files as they were must run again."""
    if isinstance(mine, Merge):
        return retry(mine, theirs, "data files were moved")
    if isinstance(mine, Clone | UnknownOperation | MissingTransaction | UpdateMemWalState):
        return incompatible(mine, theirs)
    if isinstance(mine, Update) and mine.rewrites_columns:
        return if_fragments_meet(mine, theirs)
    return fine(mine, theirs)


def apply_move(manifest: Manifest, operation: Update) -> ManifestPatch:
    """Fragments with the same columns in other files, and everything else unchanged; a deletion
    file may have another root, too.

    Raises InvalidInputError for files that do not hold the same columns.
    """
    manifest.expect_lookups(len(operation.updated_fragments))
    changed = {}
    for image in operation.updated_fragments:
        now = manifest.fragment(image.id)
        if not _hold_the_same(now, image):
            raise InvalidInputError(
                f"fragment {image.id} has other columns than the files that it is to have",
                fragment=image.id,
            )
        changed[image.id] = _with_deletions_of(now.with_files(image.files), image)
    return make_patch(manifest, _head_after(manifest, operation, changed), changed=changed)


def rebased_move(base: Manifest, newest: Manifest, operation: Update) -> Update:
    """A move that was built on ``base``, rebased on ``newest``: files still in place are moved.

    A file that was replaced meanwhile stays as it is, and a fragment that is gone is left out.
    Raises RetryableConflictError if nothing is left to do, or if a root of the new files is another
    one now.
    """
    base.expect_lookups(len(operation.updated_fragments))
    newest.expect_lookups(len(operation.updated_fragments))
    images, file_roots = [], set[BaseId | None]()
    for image in operation.updated_fragments:
        if newest.position_of(image.id) is None:
            continue
        then, now = base.fragment(image.id), newest.fragment(image.id)
        copies = _copies(then, image)
        files = [
            same_elsewhere(each, *copies.get(_place(each), _place(each))) for each in now.files
        ]
        moved = _with_deletions_of(now.with_files(files), image)
        if moved != now:
            images.append(moved)
            file_roots.update(base_id for _, base_id in copies.values())
    if not images:
        raise RetryableConflictError("none of the files is where it was")
    _check_file_roots(base, newest, file_roots)
    return replace(operation, updated_fragments=tuple(images))


def same_elsewhere(file: DataFile, path: str, base_id: BaseId | None) -> DataFile:
    """A data file as a copy with another name, in another root."""
    message = table_pb2.DataFile()
    message.CopyFrom(file.message)
    message.path = path
    message.ClearField("base_id")
    if base_id is not None:
        message.base_id = base_id
    return DataFile(message)


def _copies(then: Fragment, image: Fragment) -> dict[_Place, _Place]:
    """The locations of the copies, by the locations of the original files."""
    pairs = zip(then.files, image.files, strict=True)
    return {_place(old): _place(new) for old, new in pairs if _place(old) != _place(new)}


def _with_deletions_of(fragment: Fragment, image: Fragment) -> Fragment:
    """The deletion file of the image, if it is the same one in another root."""
    mine, other = fragment.deletion_file, image.deletion_file
    if mine is None or other is None or mine == other:
        return fragment
    is_same = mine.under(None) == other.under(None)
    return fragment.with_deletion_file(other) if is_same else fragment


def _check_file_roots(
    base: ManifestHead, newest: ManifestHead, file_roots: Set[BaseId | None]
) -> None:
    known = {BaseId(each.id): each for each in newest.base_paths}
    for each in base.base_paths:
        if each.id in file_roots and known.get(BaseId(each.id)) != each:
            raise RetryableConflictError(
                f"base path {each.id} is no longer {each.path!r}", base_id=each.id
            )


def _place(file: DataFile) -> _Place:
    return file.path, file.base_id


def _hold_the_same(one: Fragment, other: Fragment) -> bool:
    """Whether the files of both hold the same columns in the same positions."""
    mine, theirs = one.message.files, other.message.files
    return len(mine) == len(theirs) and all(
        a.fields == b.fields
        and a.column_indices == b.column_indices
        and a.file_major_version == b.file_major_version
        and a.file_minor_version == b.file_minor_version
        for a, b in zip(mine, theirs, strict=True)
    )


def _head_after(
    manifest: Manifest, operation: Update, changed: Mapping[FragmentId, Fragment]
) -> HeadChanges:
    """What changes in the head of the newest version, whose fragments ``changed`` replaces."""
    if not operation.indices_in_own_root and not operation.bases_left:
        return HeadChanges()
    indices = tuple(_moved(each, operation.indices_in_own_root) for each in manifest.indices)
    used = set(_used(changed.get(each.id, each) for each in manifest.fragments))
    used.update(each.base_id for each in indices if each.base_id is not None)
    left = operation.bases_left - used
    return HeadChanges(
        indices=None if indices == manifest.indices else indices,
        base_paths=tuple(each for each in manifest.base_paths if each.id not in left),
    )


def _moved(index: Index, in_own_root: frozenset[bytes]) -> Index:
    if index.base_id is None or index.message.uuid.uuid not in in_own_root:
        return index
    return index.under(None)


def _used(fragments: Iterable[Fragment]) -> Iterator[BaseId]:
    for each in fragments:
        for file in each.message.files:
            if file.HasField("base_id"):
                yield BaseId(file.base_id)
        if each.message.deletion_file.HasField("base_id"):
            yield BaseId(each.message.deletion_file.base_id)
