"""Files that moved to another home, in memory: who may go on, and what becomes of fragments."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.metadata import data_file
from tests.unit.rules.manifests import (
    FIELDS,
    after,
    coverage,
    field,
    fragment,
    get,
    index,
    start,
    with_deleted,
    with_indices,
)

from lancewood.errors import InvalidInputError, RetryableConflictError
from lancewood.format.transaction import decode_transaction, encode_transaction
from lancewood.model.fragment import DataFile, DeletionFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import (
    MOVED_PROPERTY,
    Append,
    Clone,
    CreateIndex,
    DataReplacement,
    Delete,
    MapUpdate,
    Merge,
    MissingTransaction,
    Operation,
    Overwrite,
    Project,
    Replacement,
    ReserveFragments,
    Restore,
    Rewrite,
    RewriteGroup,
    Transaction,
    UnknownOperation,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
)
from lancewood.proto import table_pb2
from lancewood.rules.conflicts import judge_operations
from lancewood.rules.moves import moved_files, rebased_move, same_elsewhere
from lancewood.rules.overlaps import Outcome

C, B, R, I = (  # noqa: E741
    Outcome.COMPATIBLE,
    Outcome.REBASE,
    Outcome.RETRY,
    Outcome.INCOMPATIBLE,
)
COLD = table_pb2.BasePath(id=1, name="cold", path="/cold")
AT_COLD = BaseId(1)
TABLE = after(start(fragment("f", 6), fragment("g", 4), fragment("h", 2)), UpdateBases((COLD,)))
ZERO = FragmentId(0)


def to_cold(manifest: Manifest, *numbers: int) -> Update:
    """The fragments, with their files under names that say so."""
    return moved_files(_cold(get(manifest, each)) for each in numbers)


def _cold(image: Fragment) -> Fragment:
    return image.with_files(
        [same_elsewhere(each, f"cold-{each.path}", AT_COLD) for each in image.files]
    )


def places(image: Fragment) -> list[tuple[str, int | None]]:
    return [(each.path, each.base_id) for each in image.files]


def image(number: int) -> Fragment:
    return get(TABLE, number)


def delete(*numbers: int, whole: tuple[int, ...] = ()) -> Delete:
    images = tuple(with_deleted(image(each), 1) for each in numbers)
    return Delete(images, tuple(map(FragmentId, whole)))


def in_place(*numbers: int) -> Update:
    images = tuple(image(each).with_columns(data_file("n", 1)) for each in numbers)
    return Update((), images, (), (FieldId(1),), rewrites_columns=True)


def rows_of(number: int) -> Update:
    return Update((), (with_deleted(image(number), 1),), (fragment("new", 1),))


def rewrite(number: int) -> Rewrite:
    return Rewrite((RewriteGroup((image(number),), (fragment("new", 6),)),))


def replacement(number: int) -> DataReplacement:
    return DataReplacement((Replacement(FragmentId(number), data_file("n", 0)),))


MERGE = Merge(tuple(TABLE.fragments), (*FIELDS, field(2, "c")), preserves_nullability=True)
MOVE = to_cold(TABLE, 0, 1)

AFTER_OTHERS: list[tuple[Operation, Outcome]] = [
    (Append((fragment("new", 1),)), C),
    (delete(0), B),
    (delete(whole=(1,)), B),
    (delete(2), C),
    (in_place(0), B),
    (in_place(2), C),
    (rows_of(1), B),
    (rewrite(0), B),
    (rewrite(2), C),
    (replacement(0), B),
    (replacement(2), C),
    (MOVE, B),
    (to_cold(TABLE, 2), C),
    (MERGE, B),
    (Project(FIELDS[:1]), B),
    (Overwrite((), FIELDS), B),
    (Restore(Version(1)), B),
    (CreateIndex((index("i", [0], [0, 1, 2], "Bitmap"),), ()), C),
    (ReserveFragments(2), C),
    (UpdateConfig(config=MapUpdate({"a": "b"})), B),
    (UpdateBases((COLD,)), B),
    (Clone(True, Version(1), "x"), I),
    (UpdateMemWalState(()), C),
    (UnknownOperation(116), I),
    (MissingTransaction("gone"), I),
]


@pytest.mark.parametrize(("theirs", "wanted"), AFTER_OTHERS)
def test_a_move_goes_on_after_whatever_is_understood(theirs: Operation, wanted: Outcome) -> None:
    assert judge_operations(MOVE, theirs).outcome is wanted


BEFORE_OTHERS: list[tuple[Operation, Outcome]] = [
    (Append((fragment("new", 1),)), C),
    (delete(0), C),
    (delete(whole=(1,)), C),
    (rows_of(0), C),
    (in_place(0), R),
    (in_place(2), C),
    (rewrite(0), C),
    (replacement(0), C),
    (MERGE, R),
    (Project(FIELDS[:1]), C),
    (Overwrite((), FIELDS), C),
    (Restore(Version(1)), C),
    (CreateIndex((index("i", [0], [0, 1, 2], "Bitmap"),), ()), C),
    (ReserveFragments(2), C),
    (UpdateConfig(config=MapUpdate({"a": "b"})), C),
    (UpdateBases((COLD,)), C),
    (Clone(True, Version(1), "x"), I),
    (UpdateMemWalState(()), I),
]


@pytest.mark.parametrize(("mine", "wanted"), BEFORE_OTHERS)
def test_only_who_lists_files_as_they_were_must_look_again_after_a_move(
    mine: Operation, wanted: Outcome
) -> None:
    assert judge_operations(mine, MOVE).outcome is wanted


def test_a_move_changes_where_files_are_and_nothing_else() -> None:
    before = with_indices(TABLE, index("i", [0], [0, 1, 2], "BTree"))
    done = after(before, to_cold(before, 0))
    assert places(get(done, 0)) == [("cold-f", 1)]
    assert get(done, 0).with_files(get(before, 0).files) == get(before, 0)
    assert [get(done, each) for each in (1, 2)] == [get(before, each) for each in (1, 2)]
    assert coverage(done) == coverage(before)
    assert done.next_row_id == before.next_row_id
    assert done.max_fragment_id == before.max_fragment_id


def test_rows_deleted_meanwhile_stay_deleted_and_no_lineage_is_touched() -> None:
    newest = after(TABLE, delete(0))
    done = after(newest, rebased_move(TABLE, newest, to_cold(TABLE, 0)))
    assert places(get(done, 0)) == [("cold-f", 1)]
    assert get(done, 0).with_files(get(newest, 0).files) == get(newest, 0)


def test_a_fragment_that_is_gone_is_left_out() -> None:
    newest = after(TABLE, delete(whole=(0,)))
    moved = rebased_move(TABLE, newest, to_cold(TABLE, 0, 1))
    assert [each.id for each in moved.updated_fragments] == [1]
    done = after(newest, moved)
    assert [each.id for each in done.fragments] == [1, 2]


def test_a_file_that_was_replaced_meanwhile_is_left_as_it_is() -> None:
    newest = after(TABLE, DataReplacement((Replacement(ZERO, data_file("n", 0, 1)),)))
    moved = rebased_move(TABLE, newest, to_cold(TABLE, 0, 1))
    assert [each.id for each in moved.updated_fragments] == [1]
    done = after(newest, moved)
    assert [places(get(done, each)) for each in (0, 1)] == [[("n", None)], [("cold-g", 1)]]


def test_a_column_rewritten_meanwhile_stays_and_the_rest_of_its_fragment_moves() -> None:
    newest = after(TABLE, in_place(0))
    done = after(newest, rebased_move(TABLE, newest, to_cold(TABLE, 0)))
    moved = get(done, 0)
    assert places(moved) == [("cold-f", 1), ("n", None)]
    assert moved.files[0].fields == (0, -2)
    assert moved.last_updated_at == get(newest, 0).last_updated_at


def test_a_column_added_meanwhile_stays_where_it_was_written() -> None:
    images = [each.with_columns(data_file(f"c{each.id}", 2)) for each in TABLE.fragments]
    newest = after(TABLE, replace(MERGE, fragments=tuple(images)))
    done = after(newest, rebased_move(TABLE, newest, to_cold(TABLE, 0)))
    assert places(get(done, 0)) == [("cold-f", 1), ("c0", None)]


def test_a_file_of_dropped_columns_does_not_come_back() -> None:
    wide = after(TABLE, in_place(0))
    newest = after(wide, Project(FIELDS[1:], preserves_nullability=True))
    assert places(get(newest, 0)) == [("n", None)]
    done = after(newest, rebased_move(wide, newest, to_cold(wide, 0)))
    assert places(get(done, 0)) == [("cold-n", 1)]


def test_of_two_moves_the_second_leaves_what_the_first_has_moved() -> None:
    newest = after(TABLE, to_cold(TABLE, 0))
    back = moved_files([image(0).with_files([same_elsewhere(image(0).files[0], "x", None)])])
    with pytest.raises(RetryableConflictError, match="none of the files is where it was"):
        rebased_move(TABLE, newest, back)


def test_a_move_is_not_committed_when_nothing_is_left_of_it() -> None:
    newest = after(TABLE, Overwrite((fragment("new", 1),), FIELDS))
    with pytest.raises(RetryableConflictError, match="none of the files is where it was"):
        rebased_move(TABLE, newest, MOVE)


def _with_bases(*bases: table_pb2.BasePath) -> Manifest:
    message = table_pb2.Manifest()
    message.CopyFrom(TABLE.message)
    del message.base_paths[:]
    message.base_paths.extend(bases)
    return Manifest(message)


@pytest.mark.parametrize(
    "bases",
    [(), (table_pb2.BasePath(id=1, name="cold", path="/elsewhere"),)],
    ids=["gone", "elsewhere"],
)
def test_a_home_that_is_another_one_by_now_refuses_the_move(bases: Any) -> None:
    with pytest.raises(RetryableConflictError, match="base path 1 is no longer '/cold'"):
        rebased_move(TABLE, _with_bases(*bases), MOVE)


def test_a_home_that_is_not_moved_to_may_change() -> None:
    other = table_pb2.BasePath(id=2, path="/other")
    newest = _with_bases(COLD, other)
    assert rebased_move(_with_bases(COLD), newest, MOVE) == MOVE


def test_a_deletion_file_may_have_another_home_too() -> None:
    message = table_pb2.DeletionFile(read_version=1, id=7, num_deleted_rows=1, base_id=1)
    inherited = image(0).with_deletion_file(DeletionFile(message))
    before = after(TABLE, Delete((inherited,), ()))
    own = with_deleted(get(before, 0), 1)
    move = moved_files([own])
    done = after(before, move)
    assert get(done, 0).deletion_file == own.deletion_file
    newest = after(before, Delete((with_deleted(image(0), 2),), ()))
    with pytest.raises(RetryableConflictError):
        rebased_move(before, newest, move)


def test_files_of_other_columns_are_refused() -> None:
    wrong = moved_files([image(0).with_files([data_file("f", 0)])])
    with pytest.raises(InvalidInputError, match="fragment 0 has other columns"):
        after(TABLE, wrong)


def test_a_copy_keeps_what_a_newer_writer_said_of_the_file() -> None:
    raw = data_file("f", 0).message.SerializeToString() + b"\xf8\x06\x05"  # field 111
    copy = same_elsewhere(DataFile(table_pb2.DataFile.FromString(raw)), "g", AT_COLD)
    assert copy.message.SerializeToString().endswith(b"\xf8\x06\x05")


def test_a_move_is_known_again_from_its_bytes() -> None:
    transaction = Transaction.new(Version(2), MOVE, message="to the cellar")
    read = decode_transaction(encode_transaction(transaction), name="t")
    assert read.operation == MOVE
    assert read.message == "to the cellar"


@pytest.mark.parametrize(
    "operation",
    [
        in_place(0),
        rows_of(0),
        replace(MOVE, moves_files=False, removed_fragment_ids=(ZERO,)),
        delete(0),
    ],
)
def test_the_property_alone_makes_no_move(operation: Operation) -> None:
    marked = {MOVED_PROPERTY: "true"}
    transaction = replace(Transaction.new(Version(2), operation), properties=marked)
    read = decode_transaction(encode_transaction(transaction), name="t").operation
    assert not getattr(read, "moves_files", False)
