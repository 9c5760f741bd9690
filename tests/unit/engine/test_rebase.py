"""Rows that two writers took out of one fragment, in memory: no data file is opened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyroaring import BitMap
from tests.metadata import data_file
from tests.unit.rules.manifests import (
    after,
    coverage,
    fragment,
    get,
    index,
    start,
    with_indices,
)

from lancewood.engine.commit.rebase import rebase_index, rebase_rows
from lancewood.engine.location.deletion_vectors import load_deletions, write_deletions
from lancewood.engine.location.location import Location
from lancewood.errors import RetryableConflictError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Project,
    Replacement,
    Transaction,
    Update,
)
from lancewood.store.memory import MemoryStore

ZERO, ONE = FragmentId(0), FragmentId(1)
PLACE = Location(MemoryStore())
BASE = start(fragment("f", 6), fragment("g", 4))


def without(manifest: Manifest, number: int, *offsets: int) -> Fragment:
    """A fragment of which exactly these rows are deleted."""
    image = write_deletions(PLACE.store, manifest.version, get(manifest, number), BitMap(offsets))
    assert image is not None
    return image


def delete(manifest: Manifest, number: int, *offsets: int) -> Delete:
    return Delete((without(manifest, number, *offsets),), (), "some")


def rebased(base: Manifest, newest: Manifest, operation: Operation) -> Operation:
    done = rebase_rows(PLACE, base, newest, Transaction.new(base.version, operation))
    assert done.read_version == newest.version
    return done.operation


def deleted(manifest: Manifest, fragment: Fragment) -> list[int]:
    return list(load_deletions(PLACE, manifest, fragment) or ())


def test_the_union_of_both_is_deleted() -> None:
    mine = delete(BASE, 0, 1, 2)
    newest = after(BASE, delete(BASE, 0, 4))
    done = rebased(BASE, newest, mine)
    assert isinstance(done, Delete)
    (image,) = done.updated_fragments
    assert deleted(newest, image) == [1, 2, 4]
    assert image.num_deleted_rows == 3
    assert image.deletion_file is not None
    assert image.deletion_file.is_bitmap
    assert image.deletion_file.read_version == newest.version
    assert done.predicate == "some"


def test_rows_that_were_gone_before_both_do_not_count() -> None:
    base = after(BASE, delete(BASE, 0, 0))
    mine = delete(base, 0, 0, 2)
    newest = after(base, delete(base, 0, 0, 4))
    done = rebased(base, newest, mine)
    assert isinstance(done, Delete)
    assert deleted(newest, done.updated_fragments[0]) == [0, 2, 4]


def test_a_row_that_both_took_is_a_conflict() -> None:
    mine = delete(BASE, 0, 1, 2)
    newest = after(BASE, delete(BASE, 0, 2, 4))
    with pytest.raises(RetryableConflictError, match="both change the row with _rowid 2"):
        rebased(BASE, newest, mine)


def test_a_conflict_in_one_fragment_writes_no_file_for_another() -> None:
    mine = Delete((without(BASE, 0, 1), without(BASE, 1, 3)), (), "some")
    newest = after(BASE, Delete((without(BASE, 0, 2), without(BASE, 1, 3)), (), "theirs"))
    before = [each.key for each in PLACE.store.list("_deletions/")]
    with pytest.raises(RetryableConflictError, match=r"both change the row with _rowid \d+"):
        rebased(BASE, newest, mine)
    assert [each.key for each in PLACE.store.list("_deletions/")] == before


def test_a_fragment_that_both_emptied_goes() -> None:
    mine = Delete((without(BASE, 0, 0, 1, 2), without(BASE, 1, 3)), ())
    newest = after(BASE, delete(BASE, 0, 3, 4, 5))
    done = rebased(BASE, newest, mine)
    assert isinstance(done, Delete)
    assert done.deleted_fragment_ids == (ZERO,)
    assert [each.id for each in done.updated_fragments] == [1]


def test_an_update_whose_fragment_is_emptied_removes_it() -> None:
    mine = Update((), (without(BASE, 0, 0, 1, 2),), (fragment("new", 3),))
    newest = after(BASE, delete(BASE, 0, 3, 4, 5))
    done = rebased(BASE, newest, mine)
    assert isinstance(done, Update)
    assert (done.removed_fragment_ids, done.updated_fragments) == ((ZERO,), ())
    assert done.new_fragments == mine.new_fragments


def test_a_fragment_that_nobody_else_touched_keeps_its_image() -> None:
    mine = Delete((without(BASE, 0, 1), without(BASE, 1, 3)), ())
    newest = after(BASE, delete(BASE, 0, 4))
    done = rebased(BASE, newest, mine)
    assert isinstance(done, Delete)
    assert done.updated_fragments[1] == mine.updated_fragments[1]


def test_a_fragment_that_is_gone_is_a_conflict() -> None:
    mine = delete(BASE, 0, 1)
    newest = after(BASE, Delete((), (ZERO,)))
    with pytest.raises(RetryableConflictError, match="fragment 0: it was removed"):
        rebased(BASE, newest, mine)


def test_a_fragment_that_is_to_go_must_be_as_it_was() -> None:
    mine = Delete((), (ZERO,))
    assert rebased(BASE, after(BASE, delete(BASE, 1, 0)), mine) == mine
    with pytest.raises(RetryableConflictError, match="this operation removes it"):
        rebased(BASE, after(BASE, delete(BASE, 0, 1)), mine)
    column = DataReplacement((Replacement(ZERO, data_file("h", 1)),))
    with pytest.raises(RetryableConflictError, match="this operation removes it"):
        rebased(BASE, after(BASE, column), mine)


def test_columns_that_were_written_meanwhile_are_a_conflict() -> None:
    mine = delete(BASE, 0, 1)
    image = get(BASE, 0).with_columns(data_file("h", 1))
    newest = after(BASE, Update((), (image,), (), (FieldId(1),), rewrites_columns=True))
    with pytest.raises(RetryableConflictError, match="other files now"):
        rebased(BASE, newest, mine)


def test_columns_that_were_dropped_are_none() -> None:
    base = start(Fragment.make([data_file("f", 0), data_file("g", 1)], 6))
    mine = delete(base, 0, 1)
    newest = after(after(base, Project(base.fields[:1])), delete(base, 0, 4))
    done = rebased(base, newest, mine)
    assert isinstance(done, Delete)
    assert deleted(newest, done.updated_fragments[0]) == [1, 4]
    new = after(newest, done)
    assert [each.path for each in get(new, 0).files] == ["f"]


def in_place(offsets: BitMap | None, manifest: Manifest = BASE) -> Update:
    image = get(manifest, 0).with_columns(data_file("h", 1))
    known = {} if offsets is None else {ZERO: offsets}
    return Update((), (image,), (), (FieldId(1),), rewrites_columns=True, updated_offsets=known)


def test_columns_written_in_place_hold_for_the_rows_that_are_left() -> None:
    newest = after(BASE, delete(BASE, 0, 4))
    done = rebased(BASE, newest, in_place(BitMap([1, 2])))
    assert isinstance(done, Update)
    new = get(after(newest, done), 0)
    assert deleted(newest, new) == [4]
    assert [each.path for each in new.files] == ["f", "h"]
    assert list(new.last_updated_at or ()) == [1, 3, 3, 1, 1, 1]


@pytest.mark.parametrize("offsets", [BitMap([4]), None], ids=["that row", "any row"])
def test_a_row_that_was_written_in_place_and_deleted_is_a_conflict(offsets: BitMap | None) -> None:
    newest = after(BASE, delete(BASE, 0, 4))
    with pytest.raises(RetryableConflictError, match="both change the row with _rowid 4"):
        rebased(BASE, newest, in_place(offsets))


def test_rows_deleted_with_an_update_in_place_are_joined() -> None:
    update = in_place(BitMap([1]))
    image = without(BASE, 0, 5).with_columns(data_file("h", 1))
    mine = Update((), (image,), (), (FieldId(1),), (), True, updated_offsets=update.updated_offsets)
    newest = after(BASE, delete(BASE, 0, 4))
    done = rebased(BASE, newest, mine)
    assert isinstance(done, Update)
    assert deleted(newest, done.updated_fragments[0]) == [4, 5]
    assert [each.path for each in done.updated_fragments[0].files] == ["f", "h"]


# Indices


def replaced(manifest: Manifest) -> Manifest:
    return after(manifest, DataReplacement((Replacement(ONE, data_file("h", 1)),)))


def written_in_place(manifest: Manifest) -> Manifest:
    image = get(manifest, 1).with_columns(data_file("h", 1))
    return after(manifest, Update((), (image,), (), (FieldId(1),), rewrites_columns=True))


def merged(manifest: Manifest) -> Manifest:
    images = [get(manifest, 0), get(manifest, 1).with_columns(data_file("h", 1))]
    return after(manifest, Merge(tuple(images), manifest.fields))


@pytest.mark.parametrize("theirs", [replaced, written_in_place, merged])
def test_a_new_index_loses_fragments_whose_column_was_rewritten(
    theirs: Callable[[Manifest], Manifest],
) -> None:
    newest = after(theirs(BASE), Append((fragment("k", 1),)))
    mine = CreateIndex(
        (index("a", [0], [0, 1], "BTree"), index("b", [1], [0, 1], "BTree")),
        (index("old", [0], [0], "BTree"),),
    )
    done = rebase_index(BASE, newest, Transaction.new(BASE.version, mine))
    assert done.read_version == BASE.version
    operation = done.operation
    assert isinstance(operation, CreateIndex)
    assert operation.removed_indices == mine.removed_indices
    made = with_indices(BASE, *operation.new_indices)
    assert coverage(made) == {"a": {0, 1}, "b": {0}}


def test_a_new_index_may_name_fragments_that_are_gone() -> None:
    newest = after(BASE, Delete((), (ONE,)))
    mine = CreateIndex((index("a", [0], [0, 1], "BTree"),), ())
    assert rebase_index(BASE, newest, Transaction.new(BASE.version, mine)).operation == mine
