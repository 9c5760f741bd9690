"""A dry run writes nothing, tells what the real run tells, and refuses what that refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import lance
import pyarrow as pa
import pytest
from tests.counted import counts_of

import lancewood as lw
from lancewood.errors import AlreadyExistsError, InvalidInputError, LancewoodError, NotFoundError

ROWS = pa.table({"k": [1, 2, 3, 4, 5, 6], "s": ["a", "b", "c", "d", "e", "f"]})
MORE = pa.table({"k": [6, 7], "s": ["g", "h"]})

Verb: TypeAlias = Callable[..., lw.Table]


@dataclass(frozen=True)
class Call:
    """A verb and its arguments, and arguments that it refuses."""

    verb: Verb
    good: tuple[Any, ...]
    bad: tuple[Any, ...]
    more: dict[str, Any] = field(default_factory=dict)
    raises: type[LancewoodError] = InvalidInputError


COLD = "cold"
CALLS = {
    "append": Call(lw.Table.append, (MORE,), (pa.table({"x": [1]}),)),
    "append null": Call(lw.Table.append, (MORE,), (pa.table({"k": ["a"], "s": ["b"]}),)),
    "overwrite": Call(lw.Table.overwrite, (pa.table({"x": [1]}),), (pa.table({}),)),
    "delete": Call(lw.Table.delete, ("k > 2",), ("nothing = 1",)),
    "delete all": Call(lw.Table.delete, ("true",), (None,)),
    "update": Call(lw.Table.update, ({"s": "upper(s)"}, "k % 2 = 0"), ({"x": "1"},)),
    "update columns": Call(
        lw.Table.update, ({"s": "'x'"},), ({"s": "nothing"},), {"rewrite": "columns"}
    ),
    "merge": Call(lw.Table.merge, (MORE, "k"), (MORE, "x")),
    "merge twice": Call(lw.Table.merge, (MORE, "k"), (pa.concat_tables([MORE, MORE]), "k")),
    "add SQL": Call(lw.Table.add_columns, ({"t": "k * 2"},), ({"k": "1"},)),
    "add nulls": Call(lw.Table.add_columns, (pa.field("t", pa.int8()),), (ROWS.schema.field("k"),)),
    "add rows": Call(
        lw.Table.add_columns,
        (pa.table({"t": range(6)}),),
        (pa.table({"t": range(4)}).to_reader(),),
    ),
    "add by key": Call(
        lw.Table.add_columns,
        (pa.table({"k": [1], "t": [1]}),),
        (pa.table({"k": [1, 1], "t": [1, 2]}),),
        {"on": "k"},
    ),
    "add function": Call(
        lw.Table.add_columns,
        (lambda batch: pa.record_batch({"t": batch["k"]}),),
        (lambda batch: None,),
    ),
    "drop": Call(lw.Table.drop_columns, (["s"],), (["x"],)),
    "rename": Call(lw.Table.rename_column, ("s", "t"), ("s", "k")),
    "cast": Call(lw.Table.cast_column, ("k", pa.int8()), ("s", pa.int8())),
    "replace": Call(
        lw.Table.replace_columns,
        ([0], pa.table({"s": ["x", "y"]}).to_reader()),
        ([0], pa.table({"s": ["x"]}).to_reader()),
    ),
    "compact": Call(lw.Table.compact, (), (), {"max_deleted": 0.5}),
    "restore": Call(lw.Table.restore, (1,), (99,), raises=NotFoundError),
    "set_config": Call(lw.Table.set_config, ({"a": "b"},), ({"a": 1},)),
    "set_metadata": Call(lw.Table.set_metadata, ({"a": "b"},), ({"a": 1},)),
    "set_field_metadata": Call(
        lw.Table.set_field_metadata, ({"s": {"a": "b"}},), ({"x": {"a": "b"}},)
    ),
    "add_base": Call(lw.Table.add_base, ("{root}/warm",), ("{root}/t",)),
    "set_base": Call(lw.Table.set_base, (COLD, "{root}/colder"), ("none", "{root}/colder")),
    "move": Call(lw.Table.move_fragments, ([0, 1],), ([9],), {"base": COLD}, NotFoundError),
}


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    cold = lw.BasePath(tmp_path / "cold-data", name=COLD)
    made = lw.create(tmp_path / "t", ROWS, layout=lw.Layout(max_rows_per_file=2, bases=[cold]))
    return made.delete("k = 4")


def listing(root: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def again(value: Any, root: Path) -> Any:
    """A value for one more run: a stream can be read once only."""
    if isinstance(value, pa.RecordBatchReader):
        return value
    return value.format(root=root) if isinstance(value, str) else value


def streams(arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The arguments twice, with a stream of its own for each run."""
    read = [
        each.read_all() if isinstance(each, pa.RecordBatchReader) else each for each in arguments
    ]
    return [
        tuple(
            each.to_reader() if isinstance(was, pa.RecordBatchReader) else each
            for was, each in zip(arguments, read, strict=True)
        )
        for _ in range(2)
    ]


@pytest.mark.parametrize("name", CALLS)
def test_a_dry_run_writes_nothing_and_tells_what_the_real_run_does(
    name: str, table: lw.Table, tmp_path: Path
) -> None:
    call = CALLS[name]
    if name == "add rows":
        table = table.restore(1)
    good = tuple(again(each, tmp_path) for each in call.good)
    first, second = streams(good)
    before = listing(tmp_path)
    would = call.verb(table, *first, dry_run=True, message="m", **call.more)
    assert listing(tmp_path) == before
    assert would.version == table.version == lance.dataset(str(tmp_path / "t")).version
    done = call.verb(table, *second, message="m", **call.more)
    assert done.version == lance.dataset(str(tmp_path / "t")).version > table.version
    assert would.counts == done.counts
    if isinstance(done.counts, lw.RowCounts) and not done.counts.inserted:
        assert counts_of(would, lw.RowCounts).fragments == done.counts.fragments


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.bad])
def test_a_dry_run_refuses_what_the_real_run_refuses(
    name: str, table: lw.Table, tmp_path: Path
) -> None:
    call = CALLS[name]
    bad = tuple(again(each, tmp_path) for each in call.bad)
    before, said = listing(tmp_path), []
    for arguments, dry_run in zip(streams(bad), (True, False), strict=True):
        with pytest.raises(call.raises) as refused:
            call.verb(table, *arguments, dry_run=dry_run, **call.more)
        said.append(refused.value.message)
        if dry_run:
            assert listing(tmp_path) == before
    assert said[0] == said[1]


@pytest.mark.parametrize("name", ["append", "delete", "update", "merge"])
def test_a_dry_run_refuses_a_batch_that_is_there(
    name: str, table: lw.Table, tmp_path: Path
) -> None:
    call = CALLS[name]
    done = call.verb(table, *call.good, commit=lw.CommitOptions(app="job", batch=1))
    with pytest.raises(lw.BatchAppliedError):
        call.verb(done, *call.good, commit=lw.CommitOptions(app="job", batch=1), dry_run=True)


def test_a_serializable_dry_run_is_told_what_landed(table: lw.Table) -> None:
    table.set_config({"a": "b"})
    for dry_run in (True, False):
        with pytest.raises(lw.ConflictError):
            table.set_metadata(
                {"a": "c"}, commit=lw.CommitOptions(serializable=True), dry_run=dry_run
            )


@pytest.mark.parametrize("deep", [False, True])
def test_a_dry_run_of_a_clone_counts_what_it_copies_and_makes_nothing(
    table: lw.Table, tmp_path: Path, deep: bool
) -> None:
    before = listing(tmp_path)
    would = table.clone(tmp_path / "copy", deep=deep, dry_run=True)
    assert (would.uri, would.version) == (table.uri, table.version)
    assert listing(tmp_path) == before
    done = table.clone(tmp_path / "copy", deep=deep)
    if deep:
        assert counts_of(would, lw.DeepClone) == counts_of(done, lw.DeepClone)
    with pytest.raises(AlreadyExistsError):
        table.clone(tmp_path / "copy", deep=deep, dry_run=True)


def test_a_dry_run_of_detach_counts_what_it_copies(table: lw.Table, tmp_path: Path) -> None:
    clone = table.clone(tmp_path / "c")
    before = listing(tmp_path)
    would = counts_of(clone.detach(dry_run=True), lw.DetachCounts)
    assert listing(tmp_path) == before
    done = counts_of(clone.detach(), lw.DetachCounts)
    assert (would.fragments, would.files, would.bytes) == (done.fragments, done.files, done.bytes)
    assert would.files == 4
    assert counts_of(clone.latest().detach(dry_run=True), lw.DetachCounts).files == 0


def test_a_transaction_is_tried_without_a_version(table: lw.Table) -> None:
    fragments = table.write_fragments(MORE)
    transaction = table.transaction(lw.Append(fragments))
    assert table.commit(transaction, dry_run=True).version == table.version
    assert table.latest().version == table.version
    assert table.commit(transaction).count_rows() == table.count_rows() + 2


def test_names_are_tried_without_a_change(table: lw.Table, tmp_path: Path) -> None:
    table.branches.create("exp")
    table.tags.create("v1")
    before = listing(tmp_path)
    assert table.branches.rename("exp", "new", dry_run=True).version == table.version
    table.branches.delete("exp", dry_run=True)
    table.tags.delete("v1", dry_run=True)
    assert listing(tmp_path) == before
    for refused in (
        lambda: table.branches.rename("none", "new", dry_run=True),
        lambda: table.branches.delete("none", dry_run=True),
        lambda: table.tags.delete("none", dry_run=True),
    ):
        with pytest.raises(NotFoundError):
            refused()
    table.branches.create("other")
    with pytest.raises(lw.AlreadyExistsError):
        table.branches.rename("exp", "other", dry_run=True)
    assert table.branches.rename("exp", "new").branch == "new"
    assert [*table.branches.list()] == ["new", "other"]


def test_a_drop_is_tried_first(table: lw.Table, tmp_path: Path) -> None:
    table.tags.create("v1")
    before = listing(tmp_path)
    with pytest.raises(InvalidInputError, match="still has tag v1"):
        lw.drop(table.uri, dry_run=True)
    would = lw.drop(table.uri, force=True, dry_run=True)
    assert (would.uri, would.version) == (table.uri, table.version)
    assert listing(tmp_path) == before
    assert lw.drop(table.uri, force=True) == would
    assert not lw.exists(table.uri)
