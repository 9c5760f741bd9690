"""Which fragments a move takes: by id, by rows, by age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.manifests import edit_manifest

import lancewood as lw
from lancewood.jobs.runner import LocalRunner
from lancewood.proto import table_pb2

ONE = LocalRunner(1)
Ids = list[int]


def rows(first: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(first, stop), pa.int64()),
            "s": pa.array([None if k % 10 == 9 else f"s{k}" for k in range(first, stop)]),
        }
    )


def make(directory: Path, *, stable: bool = True) -> lw.Table:
    """Four fragments of ten rows."""
    return lw.create(
        directory / "t.lance",
        rows(0, 40),
        layout=lw.Layout(
            max_rows_per_file=10,
            stable_row_ids=stable,
            bases=[lw.BasePath(directory / "cold", name="cold")],
        ),
        access=lw.Access(fsync=False),
    )


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    return make(tmp_path)


def moved(table: lw.Table, *arguments: Any, **wishes: Any) -> Ids:
    """The fragments that are in the cold afterwards; what a trial run tells is true."""
    plan = table.move_fragments(*arguments, base="cold", dry_run=True, runner=ONE, **wishes)
    assert plan.version == table.version
    done = table.move_fragments(*arguments, base="cold", runner=ONE, **wishes)
    assert done.counts == plan.counts
    assert (done.version == table.version) == (counts_of(done, lw.MoveCounts).fragments == 0)
    found = [each.id for each in done.fragments if each.files[0].base_id == 1]
    assert len(found) == counts_of(done, lw.MoveCounts).fragments
    return [int(each) for each in found]


def test_all_fragments_by_default(table: lw.Table) -> None:
    assert moved(table) == [0, 1, 2, 3]


def test_fragments_by_id(table: lw.Table) -> None:
    assert moved(table, [3, 1, 3]) == [1, 3]


def test_no_fragments_is_not_all_fragments(table: lw.Table) -> None:
    assert moved(table, []) == []


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("k < 20", [0, 1]),
        ("k < 25", [0, 1]),
        ("k >= 5 AND k < 30", [1, 2]),
        ("s IS NOT NULL", []),
        ("s <> 'x'", []),
        ("k >= 0", [0, 1, 2, 3]),
        ("true", [0, 1, 2, 3]),
        ("false", []),
        ("k < 20 -- the first two", [0, 1]),
        ("k < 10 OR k > 29", [0, 3]),
        ("_rowid < 10", [0]),
    ],
)
def test_a_fragment_is_taken_if_every_row_meets_the_condition(
    table: lw.Table, where: str, wanted: Ids
) -> None:
    assert moved(table, where=where) == wanted


def test_deleted_rows_need_not_meet_the_condition(table: lw.Table) -> None:
    table = table.delete("k IN (9, 19, 29, 20)")
    assert moved(table, where="s IS NOT NULL AND k <> 20") == [0, 1, 2]


def test_a_condition_may_have_parameters(table: lw.Table) -> None:
    assert moved(table, where="k < $most", parameters={"most": 20}) == [0, 1]


def test_all_that_is_said_must_be_met(table: lw.Table) -> None:
    assert moved(table, [1, 2], where="k < 20", older_than=timedelta(0)) == [1]


@pytest.mark.parametrize("slots", [1, 3])
def test_fragments_are_looked_at_in_tasks(table: lw.Table, slots: int) -> None:
    done = table.move_fragments(where="k < 30", base="cold", runner=LocalRunner(slots))
    assert counts_of(done, lw.MoveCounts).fragments == 3


# Age


def dated(uri: Path, days_ago: int) -> lw.Table:
    """The table, whose newest version was committed so many days ago."""
    moment = datetime.now(UTC) - timedelta(days=days_ago)

    def change(manifest: table_pb2.Manifest) -> None:
        manifest.timestamp.FromDatetime(moment)

    edit_manifest(uri, change)
    return lw.open(uri, access=lw.Access(fsync=False))


@pytest.fixture(params=[True, False], ids=["stable ids", "addresses"])
def aged(request: pytest.FixtureRequest, tmp_path: Path) -> lw.Table:
    """Fragments of versions that are 90, 60, 30 and 10 days old."""
    uri = tmp_path / "t.lance"
    lw.create(
        uri,
        rows(0, 10),
        layout=lw.Layout(
            stable_row_ids=request.param, bases=[lw.BasePath(tmp_path / "cold", name="cold")]
        ),
        access=lw.Access(fsync=False),
    )
    table = dated(uri, 90)
    for number, days in enumerate((60, 30, 10), 1):
        table.append(rows(number * 10, number * 10 + 10))
        table = dated(uri, days)
    return table


@pytest.mark.parametrize(
    ("days", "wanted"),
    [(100, []), (90, [0]), (89, [0]), (60, [0, 1]), (31, [0, 1]), (10, [0, 1, 2, 3])],
)
def test_old_fragments_are_those_of_old_versions(aged: lw.Table, days: int, wanted: Ids) -> None:
    assert moved(aged, older_than=timedelta(days=days)) == wanted


def test_versions_after_the_handle_do_not_matter(aged: lw.Table) -> None:
    earlier = aged.checkout(version=aged.version - 1)
    plan = earlier.move_fragments(base="cold", older_than=timedelta(days=20), dry_run=True)
    assert counts_of(plan, lw.MoveCounts).fragments == 3


def test_a_deletion_does_not_make_a_fragment_young(aged: lw.Table) -> None:
    assert moved(aged.delete("k = 3"), older_than=timedelta(days=50)) == [0, 1]


def test_an_updated_row_makes_its_fragment_young(aged: lw.Table) -> None:
    aged = aged.update({"s": "'new'"}, "k = 3", rewrite="columns")
    done = aged.move_fragments(base="cold", older_than=timedelta(days=50))
    assert [each.id for each in done.fragments if each.files[0].base_id == 1] == [1]


def test_what_was_cleaned_up_is_as_young_as_the_oldest_version_left(
    aged: lw.Table, no_commit_under_way: None
) -> None:
    aged.cleanup(keep_versions=2, in_flight=timedelta(0))
    assert len(list(aged.versions())) == 2
    assert moved(aged, older_than=timedelta(days=40)) == []
    assert moved(aged, older_than=timedelta(days=20)) == [0, 1, 2]


def test_compacted_rows_are_as_old_as_they_were_if_they_tell(aged: lw.Table) -> None:
    compacted = aged.compact()
    done = compacted.move_fragments(base="cold", older_than=timedelta(days=5))
    assert counts_of(done, lw.MoveCounts).fragments == (1 if aged.has_stable_row_ids else 0)


def test_an_age_beyond_all_time_moves_nothing(aged: lw.Table) -> None:
    assert moved(aged, older_than=timedelta(days=999_999_999)) == []


# What is refused


@pytest.mark.parametrize(
    ("wishes", "error", "text"),
    [
        ({"base": "cellar"}, lw.InvalidInputError, "base path 'cellar' not found"),
        ({"base": 7}, lw.InvalidInputError, "base path 7 not found"),
        ({"base": True}, lw.InvalidInputError, "got True"),
        ({"base": "cold", "where": "q = 1"}, lw.InvalidInputError, "no column 'q'"),
        ({"base": "cold", "where": "k = 1) OR (k = 2"}, lw.InvalidInputError, "cannot read"),
        ({"base": "cold", "where": 3}, lw.InvalidInputError, "where takes SQL text"),
        ({"base": "cold", "fragments": "0"}, lw.InvalidInputError, "fragments takes a list"),
        ({"base": "cold", "fragments": [-1]}, lw.InvalidInputError, "a fragment id"),
        ({"base": "cold", "fragments": [0, 9]}, lw.NotFoundError, "fragment 9 not found"),
        ({"base": "cold", "older_than": 3}, lw.InvalidInputError, "older_than"),
        ({"base": "cold", "older_than": timedelta(-1)}, lw.InvalidInputError, "older_than"),
        ({"base": "cold", "runner": 3}, lw.InvalidInputError, "runner"),
        ({"base": "cold", "message": 3}, lw.InvalidInputError, "message"),
        ({"base": "cold", "parameters": [3]}, lw.InvalidInputError, "parameters"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_cannot_be_meant_is_refused_before_anything_is_copied(
    table: lw.Table,
    tmp_path: Path,
    wishes: dict[str, Any],
    error: type[Exception],
    text: str,
    dry_run: bool,
) -> None:
    with pytest.raises(error, match=text):
        table.move_fragments(dry_run=dry_run, **wishes)
    assert not (tmp_path / "cold").exists()
    assert table.latest().version == table.version
