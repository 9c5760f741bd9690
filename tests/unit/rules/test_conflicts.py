from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, get_args

import pytest
from pyroaring import BitMap

from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import BaseId, FieldId, FragmentId, Version
from lancewood.model.index import Index, RewrittenIndex
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
from lancewood.proto import schema_pb2, table_pb2, transaction_pb2
from lancewood.rules.conflicts import COLUMNS, RULES, TABLE, judge, judge_operations
from lancewood.rules.overlaps import Outcome

C, R, I = Outcome.COMPATIBLE, Outcome.RETRY, Outcome.INCOMPATIBLE  # noqa: E741
B = Outcome.REBASE


def fragment(number: int) -> Fragment:
    return Fragment(table_pb2.DataFragment(id=number, physical_rows=10))


def index(name: str = "i", field: int = 0, *fragments: int) -> Index:
    made = table_pb2.IndexMetadata(name=name, fields=[field])
    made.fragment_bitmap = BitMap(fragments).serialize()
    return Index(made)


def field(number: int) -> schema_pb2.Field:
    return schema_pb2.Field(id=number, name=f"f{number}", parent_id=-1, logical_type="int64")


def replacement(fragment_id: int, field_id: int) -> DataReplacement:
    file = DataFile.make("x.lance", [FieldId(field_id)], [0], (2, 2), 1)
    return DataReplacement((Replacement(FragmentId(fragment_id), file),))


def delete(*numbers: int, whole: tuple[int, ...] = ()) -> Delete:
    return Delete(tuple(map(fragment, numbers)), tuple(map(FragmentId, whole)))


def update(*numbers: int, **more: Any) -> Update:
    return Update((), tuple(map(fragment, numbers)), (fragment(0),), **more)


def rewrite(*numbers: int) -> Rewrite:
    return Rewrite((RewriteGroup(tuple(map(fragment, numbers)), (fragment(99),)),))


def config(**values: str | None) -> UpdateConfig:
    return UpdateConfig(config=MapUpdate(values))


def columns(number: int, field_id: int) -> Update:
    modified = (FieldId(field_id),)
    return Update((), (fragment(number),), (), modified, rewrites_columns=True)


KEYS = transaction_pb2.KeyExistenceFilter()
KEYS_OF_3 = transaction_pb2.KeyExistenceFilter(field_ids=[3])

SAMPLES: dict[type, Operation] = {
    Append: Append((fragment(0),)),
    Delete: delete(1),
    Update: update(1),
    Overwrite: Overwrite((), ()),
    CreateIndex: CreateIndex((index("i", 0, 1),), ()),
    Rewrite: rewrite(1),
    Merge: Merge((), (field(0),)),
    Project: Project((field(0),)),
    Restore: Restore(Version(1)),
    ReserveFragments: ReserveFragments(1),
    UpdateConfig: config(a="1"),
    DataReplacement: replacement(1, 0),
    DataOverlay: DataOverlay((FragmentId(1),), (FieldId(0),)),
    UpdateMemWalState: UpdateMemWalState((b"x",)),
    Clone: Clone(True, Version(1), "/x"),
    UpdateBases: UpdateBases((table_pb2.BasePath(path="/b"),)),
    UnknownOperation: UnknownOperation(116),
    MissingTransaction: MissingTransaction("gone"),
}


def test_every_operation_has_a_column_and_a_row() -> None:
    kinds = set(get_args(Operation))
    assert set(COLUMNS) == kinds
    ours = kinds - {UnknownOperation, MissingTransaction}
    assert set(RULES) == set(itertools.product(ours, kinds))


def test_the_documentation_shows_the_table_as_it_is() -> None:
    page = Path(__file__).parents[3] / "docs" / "understanding" / "conflicts.md"
    shown = [" ".join(line.split()) for line in page.read_text().splitlines()]
    for line in TABLE.strip().splitlines():
        assert " ".join(line.split()) in shown


def test_judge_answers_for_every_pair() -> None:
    for mine, theirs in itertools.product(SAMPLES.values(), SAMPLES.values()):
        assert judge_operations(mine, theirs).outcome in Outcome


@pytest.mark.parametrize("theirs", [UnknownOperation(116), MissingTransaction("cleaned up")])
@pytest.mark.parametrize("kind", [each for each in COLUMNS if each is not UnknownOperation])
def test_what_is_unknown_or_missing_conflicts_with_everything(
    kind: type, theirs: Operation
) -> None:
    verdict = judge_operations(SAMPLES[kind], theirs)
    assert verdict.outcome is I
    assert verdict.reason


def in_a_base() -> Fragment:
    return Fragment.make([DataFile.make("f", [FieldId(0)], [0], (2, 2), 1, BaseId(0))], 1)


CASES: list[tuple[Operation, Operation, Outcome]] = [
    (SAMPLES[Append], SAMPLES[Append], C),
    (SAMPLES[Append], SAMPLES[Overwrite], I),
    (SAMPLES[Append], SAMPLES[Restore], I),
    (SAMPLES[Append], Merge((), (), preserves_nullability=True), C),
    (SAMPLES[Append], Merge((), ()), R),
    (SAMPLES[Append], Project((), preserves_nullability=True), C),
    (SAMPLES[Append], Project(()), R),
    (delete(1), delete(2), C),
    (delete(1), delete(1), B),
    (delete(whole=(1,)), delete(1), R),
    (delete(1), delete(whole=(1,)), R),
    (delete(1), rewrite(1, 2), R),
    (delete(3), rewrite(1, 2), C),
    (delete(1), Merge((), (), preserves_nullability=True), R),
    (delete(1), Project(()), C),
    (update(1), update(1), B),
    (update(1), delete(1), B),
    (update(1), delete(whole=(1,)), R),
    (update(1), update(2), C),
    (update(1, inserted_rows=KEYS), SAMPLES[Append], R),
    (update(1, inserted_rows=KEYS), update(2), R),
    (update(1), SAMPLES[Append], C),
    (SAMPLES[Overwrite], SAMPLES[Append], C),
    (SAMPLES[Overwrite], SAMPLES[Overwrite], R),
    (Overwrite((), (), {}, {"a": "1"}), Overwrite((), (), {}, {"a": "2"}), I),
    (Overwrite((), (), {}, {"a": "1"}), config(a="2"), I),
    (Overwrite((), (), {}, {"a": "1"}), config(b="2"), C),
    (SAMPLES[Overwrite], UpdateConfig(schema_metadata=MapUpdate({"k": "v"})), I),
    (config(a="1"), Overwrite((), (), {}, {"a": "2"}), I),
    (config(a="1"), config(a="1"), I),
    (config(a="1"), config(a=None), I),
    (config(a="1"), config(b="1"), C),
    (config(a="1"), UpdateConfig(config=MapUpdate({}, replace=True)), I),
    (UpdateConfig(table_metadata=MapUpdate({"k": "v"})), config(k="v"), C),
    (
        UpdateConfig(schema_metadata=MapUpdate({"k": "v"})),
        UpdateConfig(schema_metadata=MapUpdate({"l": "v"})),
        I,
    ),
    (
        UpdateConfig(field_metadata={FieldId(1): MapUpdate({"k": "v"})}),
        UpdateConfig(field_metadata={FieldId(2): MapUpdate({"k": "v"})}),
        C,
    ),
    (SAMPLES[Overwrite], SAMPLES[Restore], C),
    (Overwrite((in_a_base(),), ()), SAMPLES[Restore], R),
    (SAMPLES[Restore], SAMPLES[Append], C),
    (Restore(Version(1), base_paths=()), SAMPLES[Append], R),
    (Restore(Version(1), base_paths=()), SAMPLES[UpdateBases], R),
    (SAMPLES[Restore], UpdateConfig(schema_metadata=MapUpdate({"k": "v"})), I),
    (SAMPLES[Merge], SAMPLES[Append], R),
    (SAMPLES[Merge], SAMPLES[Project], I),
    (SAMPLES[Merge], SAMPLES[CreateIndex], C),
    (CreateIndex((index("i", 0, 1),), ()), CreateIndex((index("i", 1, 1),), ()), R),
    (CreateIndex((index("i", 0, 1),), ()), CreateIndex((index("j", 0, 1),), ()), C),
    (CreateIndex((index("i", 0, 1),), ()), rewrite(1), R),
    (CreateIndex((index("i", 0, 2),), ()), rewrite(1), C),
    (CreateIndex((index("i", 0, 1),), ()), replacement(1, 0), R),
    (CreateIndex((index("i", 5, 1),), ()), replacement(1, 0), B),
    (CreateIndex((index("i", 5, 2),), ()), replacement(1, 0), C),
    (CreateIndex((index("i", 5, 1),), ()), update(1), C),
    (CreateIndex((index("i", 5, 1),), ()), update(1, rewrites_columns=True), B),
    (CreateIndex((index("i", 5, 2),), ()), update(1, rewrites_columns=True), C),
    (CreateIndex((index("i", 5, 2),), ()), Merge((), (field(5),)), B),
    (CreateIndex((), (index("i", 5, 2),)), Merge((), (field(5),)), C),
    (replacement(1, 0), CreateIndex((index("i", 0, 1),), ()), R),
    (replacement(1, 0), CreateIndex((index("i", 5, 1),), ()), C),
    (Project((field(0),)), UpdateConfig(field_metadata={FieldId(0): MapUpdate({"k": "v"})}), R),
    (Project((field(0),)), UpdateConfig(schema_metadata=MapUpdate({"k": "v"})), C),
    (UpdateConfig(field_metadata={FieldId(1): MapUpdate({"k": "v"})}), Project((field(0),)), I),
    (UpdateConfig(field_metadata={FieldId(0): MapUpdate({"k": "v"})}), Project((field(0),)), C),
    (update(1, inserted_rows=KEYS_OF_3), replacement(2, 3), R),
    (update(1, inserted_rows=KEYS_OF_3), replacement(2, 4), C),
    (update(1), replacement(2, 3), C),
    (update(1, inserted_rows=KEYS_OF_3), columns(2, 3), R),
    (update(1, inserted_rows=KEYS_OF_3), columns(2, 4), C),
    (replacement(1, 0), delete(1), C),
    (replacement(1, 0), delete(whole=(1,)), I),
    (replacement(1, 0), replacement(1, 0), R),
    (replacement(1, 0), replacement(1, 3), C),
    (replacement(1, 0), Project((field(1),), preserves_nullability=True), I),
    (
        UpdateBases((table_pb2.BasePath(path="/a", name="x"),)),
        UpdateBases((table_pb2.BasePath(path="/b", name="x"),)),
        I,
    ),
    (
        UpdateBases((table_pb2.BasePath(path="/a"),)),
        UpdateBases((table_pb2.BasePath(path="/b"),)),
        C,
    ),
]


@pytest.mark.parametrize(("mine", "theirs", "outcome"), CASES)
def test_the_verdicts_of_the_format(mine: Operation, theirs: Operation, outcome: Outcome) -> None:
    verdict = judge_operations(mine, theirs)
    assert verdict.outcome is outcome, verdict
    assert bool(verdict.reason) == (outcome is not C)


def test_a_list_of_operations_gets_the_severest_verdict() -> None:
    mine = Transaction.new(Version(1), SAMPLES[Append], config(a="1"))
    theirs = Transaction.new(Version(1), config(a="2"))
    assert judge(mine, theirs).outcome is I


def test_a_dropped_index_that_was_rewritten_meanwhile_is_dropped_again() -> None:
    gone = index("i", 0, 1)
    gone.message.uuid.uuid = b"1" * 16
    other = index("j", 0, 1)
    other.message.uuid.uuid = b"2" * 16
    renamed = RewrittenIndex(transaction_pb2.Transaction.Rewrite.RewrittenIndex())
    renamed.message.old_id.uuid = b"1" * 16
    theirs = Rewrite(rewrite(1).groups, (renamed,))
    assert judge_operations(CreateIndex((), (gone,)), theirs).outcome is R
    assert judge_operations(CreateIndex((), (other,)), theirs).outcome is C
    assert judge_operations(theirs, CreateIndex((), (gone,))).outcome is C
