from __future__ import annotations

import pytest
from tests.metadata import data_file
from tests.unit.rules.manifests import (
    FIELDS,
    after,
    coverage,
    created_at,
    field,
    fragment,
    get,
    index,
    last_updated_at,
    start,
    with_deleted,
    with_indices,
)

from lancewood.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.manifest import FLAG_FIELD_IDS_NOT_REUSED, Manifest
from lancewood.model.transaction import (
    Append,
    DataReplacement,
    Delete,
    Merge,
    Project,
    Replacement,
)
from lancewood.proto import table_pb2

C = field(2, "c")


@pytest.fixture(params=[True, False], ids=["ids", "addresses"])
def table(request: pytest.FixtureRequest) -> Manifest:
    """Version 2: fragments of 4 and 3 rows."""
    return after(start(fragment("f", 4), stable=request.param), Append((fragment("g", 3),)))


def paths(fragment: Fragment) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.path, each.fields) for each in fragment.files]


def stamps(manifest: Manifest) -> list[list[int]]:
    return [last_updated_at(each) for each in manifest.fragments]


# Project


def test_an_index_on_a_dropped_column_goes(table: Manifest) -> None:
    table = with_indices(table, index("a", [0], [0], "BTree"), index("b", [1], [0], "BTree"))
    new = after(table, Project(FIELDS[:1]))
    assert coverage(new) == {"a": {0}}
    assert [each.name for each in new.fields] == ["a"]


def test_dropping_a_column_stamps_no_row(table: Manifest) -> None:
    new = after(table, Project(FIELDS[:1]))
    assert stamps(new) == stamps(table)
    assert list(new.message.fragments) == list(table.message.fragments)


# Merge


def merged(table: Manifest, *numbers: int) -> tuple[Fragment, ...]:
    """All fragments; those named have a new column."""
    return tuple(
        each.with_columns(data_file(f"c{each.id}", 2)) if each.id in numbers else each
        for each in table.fragments
    )


def test_a_merge_stamps_the_fragments_whose_files_changed(table: Manifest) -> None:
    new = after(table, Merge(merged(table, 1), (*FIELDS, C), {"k": b"v"}))
    assert paths(get(new, 0)) == [("f", (0, 1))]
    assert paths(get(new, 1)) == [("g", (0, 1)), ("c1", (2,))]
    assert [each.id for each in new.fields] == [0, 1, 2]
    assert new.schema_metadata == {"k": b"v"}
    assert new.message.fragments[0] == table.message.fragments[0]
    if table.has_stable_row_ids:
        assert stamps(new) == [[1, 1, 1, 1], [3, 3, 3]]
        assert created_at(get(new, 1)) == [2, 2, 2]


def test_a_merge_takes_nothing_but_the_files_from_its_images(table: Manifest) -> None:
    images = merged(table, 0, 1)
    table = after(table, Delete((with_deleted(get(table, 0), 1),), ()))
    new = after(table, Merge(images, (*FIELDS, C)))
    assert get(new, 0).num_rows == 3
    assert len(get(new, 0).files) == 2


def test_a_merge_may_list_the_fragments_in_any_order(table: Manifest) -> None:
    new = after(table, Merge(merged(table, 0, 1)[::-1], (*FIELDS, C)))
    assert [each.id for each in new.fragments] == [0, 1]
    assert paths(get(new, 0))[1] == ("c0", (2,))


@pytest.mark.parametrize("keep", [[0], [0, 0], []])
def test_a_merge_that_does_not_list_every_fragment_once_is_refused(
    table: Manifest, keep: list[int]
) -> None:
    images = tuple(merged(table, 0, 1)[each] for each in keep)
    with pytest.raises(InvalidInputError, match="every fragment once"):
        after(table, Merge(images, (*FIELDS, C)))


def test_a_merge_does_not_lose_a_fragment_that_came_since(table: Manifest) -> None:
    images = merged(table, 0, 1)
    more = after(table, Append((fragment("h", 1),)))
    with pytest.raises(InvalidInputError, match="has 3; fragment 2 is on one side"):
        after(more, Merge(images, (*FIELDS, C)))


def test_indices_on_columns_that_come_from_other_files_lose_the_fragment(table: Manifest) -> None:
    table = with_indices(table, index("a", [0], [0, 1], "BTree"), index("b", [1], [0, 1], "BTree"))
    images = (get(table, 0), get(table, 1).with_columns(data_file("h", 1)))
    assert coverage(after(table, Merge(images, FIELDS))) == {"a": {0, 1}, "b": {0}}


def test_a_new_column_leaves_indices_alone(table: Manifest) -> None:
    table = with_indices(table, index("a", [0], [0, 1], "BTree"))
    new = after(table, Merge(merged(table, 0, 1), (*FIELDS, C)))
    assert new.index_section == table.index_section


def test_an_index_on_a_column_that_was_cast_goes(table: Manifest) -> None:
    table = with_indices(table, index("a", [0], [0, 1], "BTree"), index("b", [1], [0, 1], "BTree"))
    cast = (FIELDS[0], field(2, "b", kind="int32"))
    assert coverage(after(table, Merge(merged(table, 0, 1), cast))) == {"a": {0, 1}}


def test_a_merge_with_a_field_id_that_was_used_is_run_again_where_ids_are_not_reused() -> None:
    message = table_pb2.Manifest()
    message.CopyFrom(start(fragment("f", 4)).message)
    message.writer_feature_flags |= FLAG_FIELD_IDS_NOT_REUSED
    message.max_allocated_field_id = 2
    table = Manifest(message, name="m")
    with pytest.raises(RetryableConflictError, match="up to 2"):
        after(table, Merge(merged(table, 0), (*FIELDS, C)))
    images = (get(table, 0).with_columns(data_file("c", 3)),)
    new = after(table, Merge(images, (*FIELDS, field(3, "c"))))
    assert new.message.max_allocated_field_id == 3


# DataReplacement


def replacement(new: DataFile, *numbers: int) -> DataReplacement:
    return DataReplacement(tuple(Replacement(FragmentId(each), new) for each in numbers))


def test_a_file_of_the_same_columns_takes_the_place_of_the_old_one(table: Manifest) -> None:
    new = after(table, replacement(data_file("h", 0, 1), 0))
    assert paths(get(new, 0)) == [("h", (0, 1))]
    assert paths(get(new, 1)) == [("g", (0, 1))]


def test_a_file_of_some_columns_leaves_tombstones_in_the_old_one(table: Manifest) -> None:
    new = after(table, replacement(data_file("h", 1), 0))
    assert paths(get(new, 0)) == [("f", (0, -2)), ("h", (1,))]


def test_a_file_whose_columns_are_all_replaced_goes() -> None:
    table = start(Fragment.make([data_file("f", 0), data_file("g", 1)], 3))
    new = after(table, replacement(data_file("h", 0, 1), 0))
    assert paths(get(new, 0)) == [("h", (0, 1))]


def test_a_file_of_columns_that_were_null_so_far_is_added() -> None:
    table = start(fragment("f", 3, 0))
    new = after(table, replacement(data_file("h", 1), 0))
    assert paths(get(new, 0)) == [("f", (0,)), ("h", (1,))]


def test_a_file_of_another_version_does_not_take_the_place(table: Manifest) -> None:
    other = DataFile.make("h", [FieldId(0), FieldId(1)], [0, 1], (2, 1), 1)
    new = after(table, replacement(other, 0))
    assert paths(get(new, 0)) == [("h", (0, 1))]
    assert new.reader_flags & 256


def test_a_replacement_stamps_its_fragments_and_leaves_deletions(table: Manifest) -> None:
    table = after(table, Delete((with_deleted(get(table, 0), 1),), ()))
    new = after(table, replacement(data_file("h", 1), 0))
    assert get(new, 0).num_rows == 3
    if table.has_stable_row_ids:
        assert stamps(new) == [[4, 4, 4, 4], [2, 2, 2]]


def test_indices_on_replaced_columns_lose_the_fragment(table: Manifest) -> None:
    table = with_indices(table, index("a", [0], [0, 1], "Bitmap"), index("b", [1], [0], "BTree"))
    assert coverage(after(table, replacement(data_file("h", 1), 0, 1))) == {"a": {0, 1}, "b": set()}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            DataReplacement(
                (
                    Replacement(FragmentId(0), data_file("h", 0)),
                    Replacement(FragmentId(1), data_file("i", 1)),
                )
            ),
            "same fields",
        ),
        (replacement(data_file("h", 0), 0, 0), "twice"),
        (replacement(data_file("h", 7), 0), "id 7"),
    ],
)
def test_replacements_that_contradict_themselves_are_refused(
    table: Manifest, change: DataReplacement, why: str
) -> None:
    with pytest.raises(InvalidInputError, match=why):
        after(table, change)


def test_a_replacement_in_a_fragment_that_is_gone_is_refused(table: Manifest) -> None:
    with pytest.raises(NotFoundError, match="fragment 9"):
        after(table, replacement(data_file("h", 0), 9))
