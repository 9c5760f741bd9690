from __future__ import annotations

import pytest
from tests.unit.rules.manifests import FIELDS, after, field
from tests.unit.rules.manifests import fragment as fragment_of

from lancewood.errors import InvalidInputError, RetryableConflictError, UnsupportedError
from lancewood.format.manifest import empty_manifest
from lancewood.model.fragment import DeletionFile, Fragment
from lancewood.model.ids import FieldId, FragmentId, Version
from lancewood.model.manifest import FLAG_STABLE_ROW_IDS, Manifest
from lancewood.model.transaction import (
    Append,
    Delete,
    MapUpdate,
    Overwrite,
    Project,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
)
from lancewood.proto import table_pb2
from lancewood.rules.apply import apply, needed_version


def fragment(rows: int = 10, *fields: int) -> Fragment:
    return fragment_of("f.lance", rows, *fields)


@pytest.fixture(params=[True, False], ids=["stable ids", "addresses"])
def table(request: pytest.FixtureRequest) -> Manifest:
    flags = FLAG_STABLE_ROW_IDS if request.param else 0
    start = empty_manifest("2.2", flags=flags)
    return after(start, Overwrite((fragment(10), fragment(5)), FIELDS, {"k": b"v"}))


def test_a_first_overwrite_hands_out_ids_from_zero(table: Manifest) -> None:
    assert table.version == 1
    assert [each.id for each in table.fragments] == [0, 1]
    assert table.max_fragment_id == 1
    assert table.schema_metadata == {"k": b"v"}
    if table.has_stable_row_ids:
        assert [list(each.row_ids or ()) for each in table.fragments] == [
            list(range(10)),
            list(range(10, 15)),
        ]
        assert table.next_row_id == 15


def test_an_empty_table_has_no_fragment_mark() -> None:
    made = after(empty_manifest("2.2"), Overwrite((), FIELDS))
    assert made.max_fragment_id is None
    assert after(made, Append((fragment(),))).fragments[0].id == 0


def test_append_continues_ids_and_leaves_the_rest_byte_for_byte(table: Manifest) -> None:
    new = after(table, Append((fragment(3),)))
    assert list(new.message.fragments)[:2] == list(table.message.fragments)
    assert new.fragments[2].id == 2
    if table.has_stable_row_ids:
        assert list(new.fragments[2].row_ids or ()) == [15, 16, 17]
        created = new.fragments[2].created_at
        assert created is not None
        assert set(created.to_numpy()) == {2}
        assert new.next_row_id == 18
    else:
        assert new.fragments[2].row_ids is None
        assert new.next_row_id == 0


def test_overwrite_drops_rows_and_indices_but_no_mark(table: Manifest) -> None:
    new = after(table, Overwrite((fragment(4, 0),), FIELDS[:1]))
    assert [each.id for each in new.fragments] == [2]
    assert new.max_fragment_id == 2
    assert new.index_section is None
    assert [each.name for each in new.fields] == ["a"]
    assert new.schema_metadata == {}
    if table.has_stable_row_ids:
        assert list(new.fragments[0].row_ids or ()) == [15, 16, 17, 18]


def test_overwrite_keeps_the_configuration_and_adds_to_it(table: Manifest) -> None:
    new = after(table, UpdateConfig(config=MapUpdate({"x": "1", "y": "1"})))
    new = after(new, Overwrite((), FIELDS, {}, {"y": "2"}))
    assert new.config == {"x": "1", "y": "2"}


def test_delete_replaces_and_removes_by_id(table: Manifest) -> None:
    deletion = DeletionFile(table_pb2.DeletionFile(read_version=1, id=7, num_deleted_rows=1))
    changed = table.fragments[0].with_deletion_file(deletion)
    new = after(table, Delete((changed,), (FragmentId(1),)))
    assert [each.id for each in new.fragments] == [0]
    assert new.fragments[0].num_rows == 9
    assert new.reader_flags & 1
    assert new.max_fragment_id == 1


def test_project_drops_files_that_hold_nothing_any_more(table: Manifest) -> None:
    wide = after(table, Append((fragment(3, 0),)))
    files = [fragment(3, 0).files[0], fragment(3, 1).files[0]]
    wide = after(wide, Append((Fragment.make(files, 3),)))
    new = after(wide, Project(FIELDS[:1]))
    assert [len(each.files) for each in new.fragments] == [1, 1, 1, 1]


def test_project_leaves_no_fragment_without_a_file(table: Manifest) -> None:
    wide = after(table, Append((fragment(3, 1),)))
    with pytest.raises(RetryableConflictError, match=r"fragment 2 .* no file left"):
        after(wide, Project(FIELDS[:1]))


def test_a_new_fragment_with_a_deletion_file_is_refused(table: Manifest) -> None:
    deletion = DeletionFile(table_pb2.DeletionFile(read_version=1, id=7, num_deleted_rows=1))
    for operation in (Append, lambda each: Overwrite(each, FIELDS)):
        with pytest.raises(InvalidInputError, match="deletion file"):
            after(table, operation((fragment().with_deletion_file(deletion),)))


def test_a_rename_leaves_fragments_alone(table: Manifest) -> None:
    new = after(table, Project((field(0, "z"), FIELDS[1])))
    assert list(new.message.fragments) == list(table.message.fragments)
    assert new.fields[0].name == "z"


def test_restore_brings_rows_back_but_not_the_marks(table: Manifest) -> None:
    newer = after(after(table, Append((fragment(3),))), Overwrite((), FIELDS[:1]))
    new = after(newer, Restore(Version(1)), restored=table)
    assert new.version == 4
    assert [each.id for each in new.fragments] == [0, 1]
    assert len(new.fields) == 2
    assert new.max_fragment_id == 2
    assert new.next_row_id == newer.next_row_id
    assert after(new, Append((fragment(),))).fragments[2].id == 3


def test_restore_says_which_version_it_needs(table: Manifest) -> None:
    assert needed_version(Transaction.new(Version(3), Restore(Version(1)))) == 1
    with pytest.raises(InvalidInputError, match="needs its manifest"):
        apply(table, Transaction.new(table.version, Restore(Version(1))))


def test_restore_does_not_turn_stable_row_ids_off() -> None:
    old = after(empty_manifest("2.2"), Overwrite((), FIELDS))
    now = after(empty_manifest("2.2", flags=2), Overwrite((), FIELDS))
    with pytest.raises(InvalidInputError, match="turn them off"):
        after(now, Restore(Version(1)), restored=old)


def test_reserved_fragments_are_skipped_by_the_next_append(table: Manifest) -> None:
    new = after(after(table, ReserveFragments(3)), Append((fragment(),)))
    assert new.fragments[-1].id == 5


def test_config_and_metadata_are_edited(table: Manifest) -> None:
    change = UpdateConfig(
        config=MapUpdate({"a": "1", "b": "2"}),
        table_metadata=MapUpdate({"owner": "me"}),
        schema_metadata=MapUpdate({"k": None, "n": "1"}),
        field_metadata={FieldId(1): MapUpdate({"unit": "m"})},
    )
    new = after(table, change)
    assert new.config == {"a": "1", "b": "2"}
    assert new.table_metadata == {"owner": "me"}
    assert new.schema_metadata == {"n": b"1"}
    assert dict(new.fields[1].metadata) == {"unit": b"m"}
    assert new.writer_flags & 8
    assert not new.reader_flags & 8
    again = after(new, UpdateConfig(config=MapUpdate({"a": None, "b": None})))
    assert again.config == {}
    assert not again.writer_flags & 8


def test_metadata_of_an_unknown_field_is_refused(table: Manifest) -> None:
    with pytest.raises(InvalidInputError, match="id 9"):
        after(table, UpdateConfig(field_metadata={FieldId(9): MapUpdate({"k": "v"})}))


def test_new_bases_count_from_one_and_never_repeat(table: Manifest) -> None:
    new = after(table, UpdateBases((table_pb2.BasePath(path="/a"), table_pb2.BasePath(path="/b"))))
    assert [each.id for each in new.base_paths] == [1, 2]
    assert new.reader_flags & 16
    with pytest.raises(InvalidInputError, match="repeats"):
        after(new, UpdateBases((table_pb2.BasePath(path="/a"),)))


def test_unknown_fields_survive_a_commit(table: Manifest) -> None:
    raw = table.message.SerializeToString() + b"\xfa\x3f\x05hello"
    raw_fragment = bytes(table.message.fragments[0]) + b"\xfa\x3f\x03bye"
    message = table_pb2.Manifest.FromString(raw)
    message.fragments[0] = raw_fragment
    new = after(Manifest(message, name="m"), Append((fragment(),)))
    assert b"\xfa\x3f\x05hello" in new.message.SerializeToString()
    assert bytes(new.message.fragments[0]) == raw_fragment


def test_an_operation_that_is_only_read_is_refused(table: Manifest) -> None:
    with pytest.raises(UnsupportedError, match="UpdateMemWalState"):
        apply(table, Transaction.new(table.version, UpdateMemWalState(())))


def test_the_next_fragment_id_stops_at_the_end_of_the_address_space(table: Manifest) -> None:
    message = table_pb2.Manifest()
    message.CopyFrom(table.message)
    message.max_fragment_id = 2**32 - 1
    with pytest.raises(UnsupportedError, match="fragment ids"):
        after(Manifest(message, name="m"), Append((fragment(),)))
