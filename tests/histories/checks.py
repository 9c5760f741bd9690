"""A table on disk against what it must hold: both implementations, and the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import lance
import pyarrow as pa
from tests.histories.answers import check_answers
from tests.histories.model import KEY, Column, Difference, Row, State
from tests.pylance import LINEAGE, judged

import lancewood as lw


@dataclass(frozen=True)
class Observed:
    """What both implementations found in one version."""

    version: int
    schema: pa.Schema
    rows: tuple[dict[str, Any], ...]
    fragments: tuple[tuple[int, int], ...]
    """Ids and live rows."""


def observe(uri: str, version: int | None = None) -> Observed:
    """Read a version with both; they must agree on everything, the order of rows included."""
    ours = lw.open(uri, version=version, access=lw.Access(fsync=False))
    dataset = judged(uri, version=version)
    assert ours.version == dataset.version
    names = [*ours.schema.names, *LINEAGE]
    expected = dataset.scanner(columns=names, with_row_address=True).to_table()
    got = ours.scan(names, with_row_address=True).to_arrow()
    assert _told(got.schema) == _told(expected.schema)
    rows = got.to_pylist()
    assert rows == expected.to_pylist(), "our scan is not pylance's"
    assert ours.count_rows() == dataset.count_rows() == len(rows)
    fragments = tuple((each.id, each.num_rows or 0) for each in ours.fragments)
    theirs = [(each.fragment_id, each.count_rows()) for each in dataset.get_fragments()]
    assert sorted(fragments) == sorted(theirs)
    return Observed(ours.version, ours.schema, tuple(rows), fragments)


def _told(schema: pa.Schema) -> list[tuple[str, pa.DataType, bool]]:
    return [(each.name, each.type, each.nullable) for each in schema]


def agree(observed: Observed, state: State, *, first_new_id: int | None) -> State:
    """The state with the row ids of its new rows, which must be ids that no row ever had.

    Raises AssertionError, with the rows that differ. ``first_new_id`` is None on a table whose ids
    are addresses.
    """
    columns, expected_columns = _told(observed.schema), _told(state.schema)
    assert columns == expected_columns, f"columns are {expected_columns}, not {columns}"
    found = {row[KEY]: row for row in observed.rows}
    assert len(found) == len(observed.rows), f"keys are there twice: {_twice(observed)}"
    assert found.keys() == state.rows.keys(), (
        f"rows that should be there: {sorted(state.rows.keys() - found.keys())}, "
        f"that should not: {sorted(found.keys() - state.rows.keys())}"
    )
    rows = {}
    for key, row in state.rows.items():
        read = dict(found[key])
        row_id, created, updated = (read.pop(name) for name in LINEAGE)
        del read["_rowaddr"]
        expected = state.shown(row)
        assert read == expected, f"row {key} is {expected}, not {read}"
        if first_new_id is not None:
            assert created == row.created, f"row {key} was created at {row.created}"
            assert updated in (row.updated, row.or_updated), (
                f"row {key} was updated at {row.updated}, not {updated}"
            )
            if row.row_id is None:
                assert row_id >= first_new_id, f"row {key} got the id {row_id} of another"
            else:
                assert row_id == row.row_id, f"row {key} was given another id"
            row = replace(row, row_id=row_id, updated=updated, or_updated=None)
        rows[key] = row
    if first_new_id is not None:
        ids = {row.row_id for row in rows.values()}
        assert len(ids) == len(rows), "row ids are there twice"
    return replace(state, rows=rows)


def _twice(observed: Observed) -> list[int]:
    keys = [row[KEY] for row in observed.rows]
    return sorted({key for key in keys if keys.count(key) > 1})


def check_indices(uri: str, state: State) -> None:
    """What both find through indices, and without, is what the rows say."""
    table, dataset = lw.open(uri, access=lw.Access(fsync=False)), judged(uri)
    columns = {each.number: each for each in state.columns}
    for index in table.indices.list():
        column = columns[_number(index.name)]
        assert index.column == column.name
        values = {key: row.values.get(column.number) for key, row in state.rows.items()}
        check_answers(table, dataset, column.name, index.kind, values)


def index_name(column: Column, kind: str) -> str:
    """A name that tells the column, whatever it is called later."""
    return f"on_{column.number}_{kind.lower()}"


def indexed_numbers(uri: str) -> set[int]:
    """The numbers of the columns that have an index."""
    dataset: Any = lance.dataset(uri)
    return {_number(each.name) for each in dataset.describe_indices()}


def can_optimize(uri: str) -> bool:
    """Whether there are indices, and none that pylance 14.0.2 makes wrong: what it extends of zone
    maps and bloom filters still finds the nulls that a column had before it was rewritten."""
    dataset: Any = lance.dataset(uri)
    names = [each.name for each in dataset.describe_indices()]
    return bool(names) and not any(each.endswith(("zonemap", "bloomfilter")) for each in names)


def _number(name: str) -> int:
    return int(name.split("_")[1])


def check_changes(table: lw.Table, since: int, until: int, states: dict[int, State]) -> None:
    """What ``changes`` tells between two versions is the difference of the model's."""
    old, new = states[since], states[until]
    expected = Difference.between(old, new)
    told = table.changes(since, until)
    try:
        inserted, updated, deleted = _parts(told)
    except lw.InvalidInputError as refusal:
        if "was cast since" not in str(refusal):
            raise
        new = replace(new, columns=new.columns[:1])
        told = table.changes(since, until, columns=[KEY])
        inserted, updated, deleted = _parts(told)
    assert inserted.keys() == expected.inserted, f"inserted from {since} to {until}"
    assert deleted.keys() == expected.deleted, f"deleted from {since} to {until}"
    assert expected.surely_updated <= updated.keys() <= expected.maybe_updated, (
        f"updated from {since} to {until}: {sorted(updated)}, surely "
        f"{sorted(expected.surely_updated)}, maybe {sorted(expected.maybe_updated)}"
    )
    counts = told.counts
    assert (counts.inserted, counts.updated, counts.deleted) == (
        len(inserted),
        len(updated),
        len(deleted),
    )
    by_id = {row.row_id: row for row in new.rows.values()}
    for row_id, read in (inserted | updated).items():
        del read["_rowid"]
        expected_row = new.shown(by_id[row_id])
        assert read == expected_row, f"row id {row_id} is {expected_row}, not {read}"
    before = {row.row_id: row for row in old.rows.values()}
    for row_id, read in deleted.items():
        del read["_rowid"]
        assert read.keys() == {each.name for each in new.columns}
        _check_deleted(read, before[row_id], old.columns, new.columns)


def check_diff(table: lw.Table, a: int | str, b: int | str, old: State, new: State) -> None:
    """What ``diff`` tells between two revisions is the difference of the model's, cell by cell."""
    is_stable = table.has_stable_row_ids
    told = table.diff(a, b, on=None if is_stable else [KEY])
    rows = told.to_arrow().to_pylist()
    expected = expected_diff(old, new, by_key=not is_stable or new.key.is_primary_key)
    found = {kind: dict[int, dict[str, Any]]() for kind in expected}
    for row in rows:
        side = row["before"] if row["_change"] == "deleted" else row["after"]
        assert side[KEY] not in found[row["_change"]], f"row {side[KEY]} is told twice"
        found[row["_change"]][side[KEY]] = row
    for kind, keys in expected.items():
        assert found[kind].keys() == keys.keys(), f"{kind} from {a} to {b}"
    for kind, told_rows in found.items():
        for key, row in told_rows.items():
            before, after, names = expected[kind][key]
            assert (row["before"], row["after"]) == (before, after), f"{kind} {key}"
            assert row["_columns"] == names, f"cells of row {key} from {a} to {b}"
    stat = told.stat()
    assert (stat.inserted, stat.updated, stat.deleted) == tuple(
        len(expected[kind]) for kind in ("inserted", "updated", "deleted")
    )
    assert stat.unchanged == len(new.rows) - stat.inserted - stat.updated
    cells = [name for _, _, names in expected["updated"].values() for name in names or ()]
    assert stat.cells == {name: cells.count(name) for name in sorted(set(cells), key=cells.index)}


Shown = dict[str, Any] | None
Expected = dict[str, dict[int, tuple[Shown, Shown, list[str] | None]]]


def expected_diff(old: State, new: State, *, by_key: bool) -> Expected:
    """Both states of each row that differs, by what became of it and by key."""
    pairs = _same_columns(old, new)
    found: Expected = {"deleted": {}, "inserted": {}, "updated": {}}
    ids = {row.row_id: row for row in old.rows.values()}
    gone = dict(old.rows)
    for key, row in new.rows.items():
        then = None if row.row_id is None else ids.get(row.row_id)
        if then is None and by_key:
            then = old.rows.get(key)
        if then is None:
            found["inserted"][key] = None, new.shown(row), None
            continue
        gone.pop(then.values[old.key.number])
        names = [name for name, is_other in pairs if is_other(then, row)]
        if names:
            found["updated"][key] = old.shown(then), new.shown(row), names
    for key, row in gone.items():
        found["deleted"][key] = old.shown(row), None, None
    return found


def _same_columns(old: State, new: State) -> list[tuple[str, Callable[[Row, Row], bool]]]:
    """The columns that both have, by their later names, each with whether two rows differ in it."""
    left = list(old.columns)
    pairs: dict[int, Column] = {}
    for is_same in (_is_same, _is_cast, lambda one, other: one.name == other.name):
        for column in new.columns:
            for each in left if column.number not in pairs else ():
                if is_same(each, column):
                    pairs[column.number] = each
                    left.remove(each)
                    break
    return [
        (column.name, partial(_is_other, pairs[column.number], column))
        for column in new.columns
        if column.number in pairs
    ]


def _is_same(one: Column, other: Column) -> bool:
    return one.number == other.number


def _is_cast(one: Column, other: Column) -> bool:
    """Whether one is a cast of the other, or both, after a restore, of one column."""
    ones, others = ({each.number, *each.earlier} for each in (one, other))
    return not ones.isdisjoint(others)


def _is_other(old: Column, new: Column, one: Row, other: Row) -> bool:
    then, now = old.shown(one.values.get(old.number)), new.shown(other.values.get(new.number))
    if old.children and new.children and then is not None and now is not None:
        names = {each.number: each.name for each in old.children}
        both = [(names[each.number], each.name) for each in new.children if each.number in names]
        return any(then[before] != now[after] for before, after in both)
    return bool(then != now)


def _parts(told: Any) -> Iterator[dict[int, dict[str, Any]]]:
    for part in (told.inserted, told.updated, told.deleted):
        yield {row["_rowid"]: row for row in part.to_arrow().to_pylist()}


def _check_deleted(
    read: dict[str, Any], row: Row, old: Sequence[Column], new: Sequence[Column]
) -> None:
    """A deleted row shows what it held in columns that kept their names."""
    for column in new:
        if column not in old:
            continue
        expected = column.shown(row.values.get(column.number))
        assert read[column.name] == expected, (
            f"the deleted row {row.row_id} had {expected} in {column.name}, not {read[column.name]}"
        )
