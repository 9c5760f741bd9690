"""A failure, a lost answer or a death at every store call of every change of rows and columns.

Afterwards the table is old or new, never between, both implementations read it, and what did not
land can be done again. What was reported as failed did not land and left no files behind; where
nobody knows, all files stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.faults.hurting import MODES, ONE, Deaf, copied, every_call, through
from tests.pylance import MARKS, judged

import lancewood as lw
from lancewood.testing.faults import Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
RUNS = [*((True, mode) for mode in MODES), (False, "after"), (False, "kill")]
"""With stable row ids or without; the calls are the same."""
DOUBLED = pa.schema({"d": pa.int64()})


def some_rows(first: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(first, stop), pa.int64()),
            "a": pa.array([k % 3 for k in range(first, stop)], pa.int32()),
            "n": [{"x": k, "y": "y" if k % 2 else None} for k in range(first, stop)],
        }
    )


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pc.multiply(batch.column("k"), 2)], schema=DOUBLED)


CHANGES: dict[str, Callable[[lw.Table], lw.Table]] = {
    "delete": lambda t: t.delete("k IN (1, 5)", runner=ONE),
    "delete fragments": lambda t: t.delete("k < 5", runner=ONE),
    "update rows": lambda t: t.update({"a": 9}, "k IN (1, 5)", rewrite="rows", runner=ONE),
    "update columns": lambda t: t.update({"a": 9}, "k IN (1, 5)", rewrite="columns", runner=ONE),
    "merge": lambda t: t.merge(some_rows(7, 12), on="k", runner=ONE),
    "merge that deletes": lambda t: t.merge(
        some_rows(7, 12), on="k", matched="delete", not_matched="ignore", runner=ONE
    ),
    "add by SQL": lambda t: t.add_columns({"d": "k * 2"}, runner=ONE),
    "add by a function": lambda t: t.add_columns(doubled, schema=DOUBLED, runner=ONE),
    "add nulls": lambda t: t.add_columns(DOUBLED, runner=ONE),
    "drop": lambda t: t.drop_columns(["n.x"]),
    "rename": lambda t: t.rename_column("a", "b"),
    "cast": lambda t: t.cast_column("a", pa.int64(), runner=ONE),
    "replace": lambda t: t.replace_columns(
        [0], pa.table({"a": pa.array([7] * 3, pa.int32())}), runner=ONE
    ),
    "compact": lambda t: t.compact(runner=ONE),
}

CONTESTED = ("delete", "update rows", "update columns", "merge", "add by SQL", "cast", "compact")
"""Changes that meet the rows, or the fragments, that another has changed."""


@dataclass(frozen=True)
class Seen:
    """A table as both implementations find it; where rows lie does not count."""

    schema: tuple[tuple[str, pa.DataType], ...]
    rows: tuple[tuple[Any, ...], ...]
    fragments: int

    @classmethod
    def at(cls, uri: str) -> Seen:
        table, dataset = lw.open(uri), judged(uri)
        assert table.version == dataset.version
        ids = ["_rowid"] if table.has_stable_row_ids else []
        names = [*table.schema.names, *MARKS, *ids]
        ours = table.scan(names).to_arrow()
        assert ours.to_pylist() == dataset.to_table(columns=names).to_pylist()
        rows = sorted(ours.to_pylist(), key=lambda row: row["k"])
        return cls(
            tuple((each.name, each.type) for each in table.schema),
            tuple((name, repr(value)) for row in rows for name, value in row.items()),
            len(table.fragments),
        )


@dataclass(frozen=True)
class Template:
    """A table before any change, and what each of them makes of it."""

    uri: str
    before: Seen
    after: dict[str, Seen]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Template]:
    """Tables with and without stable row ids, each made once."""
    return cache(lambda stable: made(tmp_path_factory.mktemp("changes"), stable))


@pytest.fixture(params=[True])
def template(request: pytest.FixtureRequest, templates: Callable[[bool], Template]) -> Template:
    return templates(request.param)


def made(directory: Path, stable: bool) -> Template:
    uri = str(directory / "t.lance")
    table = lw.create(
        uri,
        some_rows(0, 10),
        layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=4),
        access=lw.Access(fsync=False),
    )
    table.delete("k IN (2, 6)")
    after = {}
    for name, act in CHANGES.items():
        copy = str(directory / f"{name}.lance")
        shutil.copytree(uri, copy)
        act(lw.open(copy))
        after[name] = Seen.at(copy)
    return Template(uri, Seen.at(uri), after)


def files(uri: str) -> set[str]:
    return {
        str(each.relative_to(uri))
        for below in ("data", "_deletions")
        for each in Path(uri, below).rglob("*")
    }


@pytest.mark.sliced(8)
@pytest.mark.parametrize(("template", "mode"), RUNS, indirect=["template"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_old_or_new_whatever_call_goes_wrong(
    template: Template, tmp_path: Path, name: str, mode: Mode
) -> None:
    act, before, after = CHANGES[name], template.before, template.after[name]
    assert before != after
    there, uri = files(template.uri), str(tmp_path / "t.lance")
    for attempt in every_call(mode, lambda _: copied(template.uri, uri)):
        outcome = attempt.run(act, through(uri, attempt.store))
        seen = Seen.at(uri)
        attempt.check(seen, before, after)
        if attempt.must_leave_nothing:
            assert files(uri) == there, attempt.where
        if outcome == "dead" and seen == before:
            act(lw.open(uri))
            assert Seen.at(uri) == after, attempt.where
        elif outcome == "dead":
            table = lw.open(uri)
            assert table.append(table.head(0)).version == table.version + 1


@pytest.fixture(scope="module")
def contested(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """A table where somebody has changed rows since version 2; changes begin there."""
    directory = tmp_path_factory.mktemp("contested")
    uri = str(directory / "t.lance")
    table = lw.create(uri, some_rows(0, 10), layout=lw.Layout(max_rows_per_file=4))
    table = table.delete("k IN (2, 6)")
    table.update({"a": 4}, "k IN (1, 8)", rewrite="rows")
    after = {}
    for name in CONTESTED:
        copy = str(directory / f"{name}.lance")
        shutil.copytree(uri, copy)
        landed = CHANGES[name](lw.open(copy, version=2)).version
        assert lance.dataset(copy).read_transaction(landed).read_version > 2
        after[name] = Seen.at(copy)
    return Template(uri, Seen.at(uri), after)


@pytest.mark.sliced(6)
@pytest.mark.parametrize("mode", ["after", "kill"])
@pytest.mark.parametrize("name", CONTESTED)
def test_a_change_that_is_executed_again_is_old_or_new_whatever_call_goes_wrong(
    contested: Template, uri: str, name: str, mode: Mode
) -> None:
    before, after = contested.before, contested.after[name]
    assert before != after
    for attempt in every_call(mode, lambda _: copied(contested.uri, uri)):
        attempt.run(CHANGES[name], through(uri, attempt.store, version=2))
        attempt.check(Seen.at(uri), before, after)


class DeafAndIdle(Deaf):
    """The manifest never arrived."""

    puts = False


@pytest.mark.parametrize("name", [each for each in CHANGES if each != "compact"])
def test_files_of_a_change_whose_fate_is_unknown_are_never_deleted(
    template: Template, uri: str, name: str
) -> None:
    store = Deaf(copied(template.uri, uri))
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        CHANGES[name](through(uri, store))
    assert Seen.at(uri) == template.after[name]


@pytest.mark.parametrize(
    "name", [each for each in CHANGES if each not in ("add nulls", "drop", "rename", "compact")]
)
def test_files_stay_even_if_the_manifest_never_arrived(
    template: Template, uri: str, name: str
) -> None:
    store = DeafAndIdle(copied(template.uri, uri))
    there = files(uri)
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        CHANGES[name](through(uri, store))
    assert Seen.at(uri) == template.before
    assert files(uri) > there or name == "delete fragments"
    assert CHANGES[name](lw.open(uri)) is not None
    assert Seen.at(uri) == template.after[name]
