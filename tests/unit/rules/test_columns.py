from __future__ import annotations

from collections.abc import Sequence

from tests.metadata import data_file
from tests.unit.rules.manifests import FIELDS, field, fragment, index

from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.transaction import (
    Append,
    CreateIndex,
    DataReplacement,
    Delete,
    Merge,
    Operation,
    Project,
    Replacement,
    Rewrite,
    RewriteGroup,
    Update,
    UpdateConfig,
)
from lancewood.proto import schema_pb2
from lancewood.rules.columns import ColumnWatch, DroppedColumns, IdReuse, RowsBornAgain
from lancewood.rules.moves import moved_files
from lancewood.rules.overlaps import COMPATIBLE, Outcome

A, B = FIELDS
DROP_B = Project((A,))
MINE: dict[str, Operation] = {
    "append": Append((fragment("f", 1),)),
    "update": Update((), (), (fragment("f", 1),)),
    "replacement": DataReplacement((Replacement(FragmentId(0), data_file("f", 1)),)),
    "index": CreateIndex((index("i", [1], [0], "BTree"),), ()),
}


def outcomes(mine: Operation, *theirs: Operation) -> list[Outcome]:
    watch = ColumnWatch(FIELDS, [mine])
    return [watch.see(each).outcome for each in theirs]


def test_columns_that_stay_are_no_conflict() -> None:
    renamed = Project((field(0, "z"), B))
    for mine in MINE.values():
        assert outcomes(mine, renamed, Merge((), (*FIELDS, field(2, "c")))) == [
            Outcome.COMPATIBLE,
            Outcome.COMPATIBLE,
        ]


def test_rows_of_a_column_that_was_cast_are_written_again() -> None:
    for cast in (field(2, "b", kind="int32"), field(1, "b", kind="int32")):
        for mine in MINE.values():
            assert outcomes(mine, Merge((), (A, cast))) == [Outcome.RETRY]


def test_a_dropped_column_is_a_conflict_when_its_id_is_given_away() -> None:
    given_away = Merge((), (A, field(1, "c")))
    for name in ("append", "update", "replacement"):
        assert outcomes(MINE[name], DROP_B, given_away) == [Outcome.COMPATIBLE, Outcome.RETRY]


def test_compacted_rows_of_a_dropped_column_are_not_those_of_another() -> None:
    compacted = Rewrite((RewriteGroup((), (fragment("f", 1),)),))
    given_away = Project((A, field(1, "c")))
    assert outcomes(compacted, DROP_B, given_away) == [Outcome.COMPATIBLE, Outcome.RETRY]


def test_an_id_that_is_given_away_meets_all_that_names_columns() -> None:
    given_away = IdReuse(FIELDS, [DROP_B, Project((A, field(1, "c")))])
    assert given_away.is_any
    for each in (*MINE.values(), Delete((), (FragmentId(0),))):
        assert given_away.see(each).outcome is Outcome.RETRY
    assert given_away.see(UpdateConfig()).outcome is Outcome.COMPATIBLE


def test_an_id_that_is_not_given_away_meets_nothing() -> None:
    for mine in ([DROP_B], [Project((A, field(1, "z")))], [DROP_B, Project((A, field(2, "c")))]):
        reuse = IdReuse(FIELDS, mine)
        assert not reuse.is_any
        assert all(reuse.see(each).outcome is Outcome.COMPATIBLE for each in MINE.values())


def test_an_index_on_a_dropped_column_is_a_conflict_at_once() -> None:
    assert outcomes(MINE["index"], DROP_B) == [Outcome.RETRY]
    assert outcomes(CreateIndex((), (index("i", [1], [0], "BTree"),)), DROP_B) == [
        Outcome.COMPATIBLE
    ]


def test_columns_that_an_index_carries_along_count_too() -> None:
    covering = index("i", [0], [0], "BTree")
    covering.message.covering_fields.append(1)
    assert outcomes(CreateIndex((covering,), ()), DROP_B) == [Outcome.RETRY]


def test_a_fragment_of_which_no_column_is_left_is_written_again() -> None:
    only_b = Append((fragment("f", 1), fragment("g", 1, 1)))
    assert outcomes(only_b, DROP_B) == [Outcome.RETRY]
    assert outcomes(only_b, Project((B,))) == [Outcome.COMPATIBLE]


def test_who_writes_no_column_does_not_care() -> None:
    assert outcomes(Delete((), (FragmentId(0),)), DROP_B, Merge((), ())) == [
        Outcome.COMPATIBLE,
        Outcome.COMPATIBLE,
    ]


def test_an_update_of_a_column_that_was_dropped_is_run_again() -> None:
    by_rows = Update((), (), (), fields_for_preserving_frag_bitmap=(FieldId(1),))
    by_columns = Update((), (), (), fields_modified=(FieldId(1),), rewrites_columns=True)
    other = Update((), (), (), fields_for_preserving_frag_bitmap=(FieldId(0),))
    assert outcomes(by_rows, DROP_B) == outcomes(by_columns, DROP_B) == [Outcome.RETRY]
    assert outcomes(other, DROP_B) == [Outcome.COMPATIBLE]


def test_values_given_to_a_column_that_is_dropped_are_not_lost_without_a_word() -> None:
    def reason(theirs: Operation, after: Sequence[schema_pb2.Field] = (A,)) -> str:
        return DroppedColumns(FIELDS, tuple(after)).see(theirs).reason

    image = (fragment("f", 0),)
    moved = Update((), image, (fragment("g", 1),), fields_for_preserving_frag_bitmap=(FieldId(1),))
    in_place = Update((), image, (), fields_modified=(FieldId(1),), rewrites_columns=True)
    replaced = DataReplacement((Replacement(FragmentId(0), data_file("f", 1)),))
    for each in (moved, in_place, replaced):
        assert reason(each) == "it gave new values to column 'b', which the branch drops"
        assert reason(each, FIELDS) == ""
        assert reason(each, (B,)) == ""
    assert "perhaps in column 'b'" in reason(Update((), image, (fragment("g", 1),)))
    inserted = Update((), (), (fragment("g", 1),))
    for other in (Append((fragment("g", 1),)), inserted, Delete(image, ()), moved_files(image)):
        assert reason(other) == ""


def test_rows_born_again_beside_a_dropped_column_are_compared_by_others() -> None:
    image, dropped = (fragment("f", 0),), DroppedColumns(FIELDS, (A,))
    both: list[Operation] = [Delete(image, ()), Append((fragment("g", 1),))]
    reason = RowsBornAgain(both).judge(dropped).reason
    assert "the same by their primary key, with other values in 'b', which the other" in reason
    assert RowsBornAgain(both).judge(DroppedColumns(FIELDS, FIELDS)) is COMPATIBLE
    for each in both:
        assert RowsBornAgain([each]).judge(dropped) is COMPATIBLE
