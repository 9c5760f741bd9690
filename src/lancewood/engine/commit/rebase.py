"""Rebasing a transaction on a newer version, where only rows show whether that is allowed.

Two writers that deleted different rows of one fragment are both right: the fragment loses the rows
of both. That needs their deletion files, so it is done here and not in ``rules``. Nothing here
judges operations (``rules.conflicts``) or changes what is visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyroaring import BitMap

from lancewood.engine.location import Location, load_deletions, write_deletions
from lancewood.errors import RetryableConflictError
from lancewood.format.deletion import BITMAP
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import CreateIndex, Delete, Operation, Transaction, Update
from lancewood.rules.indices import changed_fields, uncovered, with_relatives
from lancewood.rules.moves import rebased_move


def rebase_rows(
    location: Location, base: Manifest, newest: Manifest, transaction: Transaction
) -> Transaction:
    """A Delete or Update that was built on ``base``, rebased on ``newest``.

    Raises RetryableConflictError if both deleted a row, or if more than rows was changed; no file
    is written then.
    """
    operation = transaction.operation
    assert isinstance(operation, Delete | Update)
    if isinstance(operation, Update) and operation.moves_files:
        return check_rows(location, base, newest, transaction)
    rebase = _RowRebase(location, base, newest, operation)
    checked = rebase.check()
    done = [rebase.written(*each) for each in checked]
    kept = tuple(each for each in done if each is not None)
    emptied = tuple(
        image.id
        for image, each in zip(operation.updated_fragments, done, strict=True)
        if each is None
    )
    changed: Operation
    if isinstance(operation, Delete):
        removed = (*operation.deleted_fragment_ids, *emptied)
        changed = replace(operation, updated_fragments=kept, deleted_fragment_ids=removed)
    else:
        removed = (*operation.removed_fragment_ids, *emptied)
        changed = replace(operation, updated_fragments=kept, removed_fragment_ids=removed)
    return replace(transaction, operations=(changed,), read_version=newest.version)


def check_rows(
    location: Location, base: Manifest, newest: Manifest, transaction: Transaction
) -> Transaction:
    """Raise what ``rebase_rows`` would raise, without writing a file; so only a change that moved
    files comes back complete."""
    operation = transaction.operation
    assert isinstance(operation, Delete | Update)
    if isinstance(operation, Update) and operation.moves_files:
        moved = rebased_move(base, newest, operation)
        return replace(transaction, operations=(moved,), read_version=newest.version)
    _RowRebase(location, base, newest, operation).check()
    return transaction


def rebase_index(base: Manifest, newest: Manifest, transaction: Transaction) -> Transaction:
    """New indices that no longer cover fragments whose indexed columns were rewritten meanwhile:
    those whose columns come from other files than in the version that was indexed."""
    operation = transaction.operation
    assert isinstance(operation, CreateIndex)
    then = {each.id: each for each in base.fragments}
    rewritten: dict[frozenset[FieldId], list[FragmentId]] = {}
    for now in newest.fragments:
        before = then.get(now.id)
        if before is not None and before.message.files != now.message.files:
            rewritten.setdefault(changed_fields(before, now), []).append(now.id)
    indices = operation.new_indices
    for fields, fragments in rewritten.items():
        indices = uncovered(indices, fragments, with_relatives(newest.fields, fields))
    return replace(transaction, operations=(replace(operation, new_indices=indices),))


class _RowRebase:
    def __init__(
        self, location: Location, base: Manifest, newest: Manifest, operation: Delete | Update
    ) -> None:
        self._location = location
        self._base = base
        self._newest = newest
        self._operation = operation

    def check(self) -> list[tuple[Fragment, BitMap | None]]:
        """Check fragments that go, and return what ``checked`` says of every changed one."""
        self.check_removed()
        return [self.checked(each) for each in self._operation.updated_fragments]

    def check_removed(self) -> None:
        """Check that a fragment that we remove as a whole is unchanged."""
        operation = self._operation
        removed: Iterable[FragmentId]
        if isinstance(operation, Delete):
            removed = operation.deleted_fragment_ids
        else:
            removed = operation.removed_fragment_ids
        for each in removed:
            then, now = self._base.fragment(each), self._now(each)
            if then.deletion_file != now.deletion_file or then.files != now.files:
                raise _conflict(each, "it was changed, and this operation removes it")

    def checked(self, image: Fragment) -> tuple[Fragment, BitMap | None]:
        """Our image of a fragment on the newest version, and the rows that its new deletion file
        has to list; None if it needs none."""
        then, now = self._base.fragment(image.id), self._now(image.id)
        if then.files != now.files and _is_more_than_dropped_columns(then, now):
            raise _conflict(image.id, "its columns have other files now")
        if then.deletion_file == now.deletion_file:
            return image, None
        before = self._deletions(self._base, then)
        theirs = self._deletions(self._newest, now) - before
        deleted = self._deletions(self._newest, image) - before
        affected = deleted | self._rewritten(image)
        if not affected.isdisjoint(theirs):
            raise row_conflict(self._base, then, (affected & theirs).min())
        if not deleted:
            return image.with_deletion_file(now.deletion_file), None
        return image, deleted | theirs | before

    def written(self, image: Fragment, deleted: BitMap | None) -> Fragment | None:
        """The image with its deletion file; None if no row is left."""
        if deleted is None:
            return image
        return write_deletions(self._location.store, self._newest.version, image, deleted, BITMAP)

    def _rewritten(self, image: Fragment) -> BitMap:
        """The rows whose columns we rewrote."""
        operation = self._operation
        if not isinstance(operation, Update) or not operation.rewrites_columns:
            return BitMap()
        known = operation.updated_offsets.get(image.id)
        return BitMap(range(image.physical_rows)) if known is None else known

    def _now(self, fragment_id: FragmentId) -> Fragment:
        if self._newest.position_of(fragment_id) is None:
            raise _conflict(fragment_id, "it was removed")
        return self._newest.fragment(fragment_id)

    def _deletions(self, manifest: Manifest, fragment: Fragment) -> BitMap:
        return load_deletions(self._location, manifest, fragment) or BitMap()


def _is_more_than_dropped_columns(then: Fragment, now: Fragment) -> bool:
    kept = {each.path for each in now.files}
    return now.files != tuple(each for each in then.files if each.path in kept)


def _conflict(fragment_id: FragmentId, why: str) -> RetryableConflictError:
    return RetryableConflictError(f"fragment {fragment_id}: {why}", fragment=fragment_id)


def row_conflict(base: Manifest, fragment: Fragment, offset: int) -> RetryableConflictError:
    """The error for a row, by its offset, that both sides changed since a version."""
    ids = fragment.row_ids if base.has_stable_row_ids else None
    which, facts = f"row {offset} of fragment {fragment.id}", {}
    if ids is not None:
        row_id = ids.value_at(offset)
        facts["row_id"] = row_id
        which = (
            f"the row with _rowid {row_id} (version {base.version} shows it where "
            f"_rowid = {row_id})"
        )
    return RetryableConflictError(f"both change {which}", fragment=fragment.id, **facts)
