"""Every job on executors does what it does on threads: for a session of any kind.

Each job runs twice, on two copies of one table, and pylance is asked what became of them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc

import lancewood as lw
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.spark import runner

ROWS, PER_FILE = 1_200, 200


@dataclass(frozen=True)
class Outcome:
    """What a job leaves, and what it tells."""

    table: lw.Table
    told: object = None
    branch: str | None = None


@dataclass(frozen=True)
class Job:
    """A verb on a table whose tasks a runner runs."""

    name: str
    act: Callable[[lw.Table, Runner], Outcome]
    what: frozenset[str] = field(default_factory=frozenset)
    """What is to be run by the runner, in the words of its progress."""

    def __str__(self) -> str:
        return self.name


def check_job(spark: Any, root: Path, job: Job) -> None:
    """Run a job by threads and by executors, and compare everything that it leaves."""
    original = make_table(root / "original.lance")
    shutil.copytree(original.uri, root / "threads" / "t.lance")
    shutil.copytree(original.uri, root / "executors" / "t.lance")
    seen: list[tuple[str, int, int]] = []
    executors = runner(spark, progress=lambda *each: seen.append(each))
    threads = LocalRunner(executors.slots)
    expected = job.act(lw.open(root / "threads" / "t.lance"), threads)
    found = job.act(lw.open(root / "executors" / "t.lance"), executors)
    assert facts(found) == facts(expected)
    assert found.told == expected.told
    assert {what for what, _, _ in seen} == set(job.what)
    for what in job.what:
        steps = [each for each in seen if each[0] == what]
        assert steps[-1][1] == steps[-1][2], "the last step says that all is done"


def make_table(uri: Path) -> lw.Table:
    """Six fragments with deleted rows, nulls, a list and a struct, and a branch with work on it."""
    numbers = range(ROWS)
    data = pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([None if n % 17 == 0 else n / 4 for n in numbers], pa.float64()),
            "s": pa.array([f"row {n}" for n in numbers]),
            "v": pa.array([[n, n + 1] for n in numbers], pa.list_(pa.float32(), 2)),
            "p": pa.array([{"a": n} for n in numbers]),
        }
    )
    table = lw.create(
        uri, data, layout=lw.Layout(max_rows_per_file=PER_FILE), access=lw.Access(fsync=False)
    )
    table = table.delete("id % 9 = 4 or id between 300 and 350")
    table.branches.create("work")
    branch = table.checkout(branch="work")
    branch = branch.delete("id % 10 = 7")
    branch.append(data.slice(0, 5))
    return table


def facts(outcome: Outcome) -> dict[str, Any]:
    """The table as we and pylance see it."""
    table = outcome.table.latest()
    dataset: Any = lance.dataset(table.uri)
    if outcome.branch is not None:
        dataset = dataset.checkout_version((outcome.branch, None))
    dataset.validate()
    seen_by_pylance = dataset.to_table()
    rows = table.scan(with_row_id=True, with_row_address=True).to_arrow()
    assert rows.select(seen_by_pylance.column_names).equals(seen_by_pylance)
    return {
        "version": table.version,
        "rows": rows,
        "fragments": [(each.id, each.physical_rows, len(each.files)) for each in table.fragments],
        "counts": repr(outcome.table.counts).replace(str(Path(table.uri).parent), ""),
    }


def _source(first: int, last: int) -> pa.Table:
    numbers = range(first, last, 3)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "x": pa.array([-1.0 * n for n in numbers]),
            "s": pa.array([f"new {n}" for n in numbers]),
            "v": pa.array([[0.0, n] for n in numbers], pa.list_(pa.float32(), 2)),
            "p": pa.array([{"a": -n} for n in numbers]),
        }
    )


def _add_by_function(table: lw.Table, runner: Runner) -> Outcome:
    shift = 0.5

    def shifted(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"y": pc.add(batch["x"], shift)})

    schema = pa.schema([("y", pa.float64())])
    return Outcome(
        table.add_columns(shifted, columns_read=["x"], schema=schema, batch_rows=64, runner=runner)
    )


def _add_by_inferring_function(table: lw.Table, runner: Runner) -> Outcome:
    return Outcome(
        table.add_columns(
            lambda batch: pa.record_batch({"n": pc.utf8_length(batch["s"])}), runner=runner
        )
    )


def _add_from_reader(table: lw.Table, runner: Runner) -> Outcome:
    values = pa.table({"q": pa.array(range(table.count_rows()))})
    return Outcome(table.add_columns(values.to_reader(max_chunksize=100), runner=runner))


def _add_joined(table: lw.Table, runner: Runner) -> Outcome:
    source = _source(0, 700).select(["id", "s"]).rename_columns(["id", "joined"])
    return Outcome(table.add_columns(source, on="id", runner=runner))


def _drop_whole_files(table: lw.Table, runner: Runner) -> Outcome:
    table = table.add_columns({"z": "id + 1"})
    return Outcome(table.drop_columns(["id", "x", "s", "v", "p"], runner=runner))


def _verify(table: lw.Table, runner: Runner, *, deep: bool = False) -> Outcome:
    report = table.verify(deep=deep, runner=runner)
    assert not report.problems
    return Outcome(table, report)


def _cleanup(table: lw.Table, runner: Runner) -> Outcome:
    table.branches.delete("work")
    table = table.compact(target_rows=500)
    report = table.cleanup(older_than=timedelta(0), in_flight=timedelta(0), runner=runner)
    assert report.data_files
    return Outcome(table, (report.versions, report.data_files, report.deletion_files))


def _clone(table: lw.Table, runner: Runner) -> Outcome:
    return Outcome(table.clone(Path(table.uri).parent / "clone.lance", deep=True, runner=runner))


def _detach(table: lw.Table, runner: Runner) -> Outcome:
    clone = table.clone(Path(table.uri).parent / "shallow.lance")
    return Outcome(clone.detach(runner=runner))


def _move(table: lw.Table, runner: Runner) -> Outcome:
    cold = Path(table.uri).parent / "cold"
    table = table.add_base(str(cold), name="cold", is_dataset_root=False)
    return Outcome(table.move_fragments(base="cold", where="id < 500", runner=runner))


def _publish(table: lw.Table, runner: Runner) -> Outcome:
    return Outcome(table.branches.publish("work", runner=runner))


def _merge_branch(table: lw.Table, runner: Runner, **choices: Any) -> Outcome:
    """Both sides changed the same rows, in cells of their own, and some in one of both."""
    branch = table.checkout(branch="work")
    branch.update({"x": "x * 2", "s": "'there'"}, "id % 3 = 0", rewrite="rows")
    table = table.update({"p.a": "p.a + 1"}, "id % 2 = 0", rewrite="rows")
    table = table.update({"s": "'here'"}, "id % 12 = 0", rewrite="rows")
    rules = {"s": "concat(ours.s, ' and ', theirs.s)"}
    resolve = lw.Resolve(columns=rules, deletes="lose")
    merged = table.branches.merge("work", resolve=resolve, runner=runner, **choices)
    assert isinstance(merged.counts, lw.Merged)
    assert merged.counts.joined
    assert merged.counts.resolved
    return Outcome(merged, merged.branches.conflicts("work").count())


def _rename_branch(table: lw.Table, runner: Runner) -> Outcome:
    table.branches.rename("work", "done", runner=runner)
    return Outcome(table.checkout(branch="done"), branch="done")


def _relocate(table: lw.Table, runner: Runner) -> Outcome:
    report = lw.relocate(table.uri, in_flight=timedelta(0), runner=runner)
    return Outcome(table.checkout(branch="work"), report.manifests, branch="work")


def _merge(table: lw.Table, runner: Runner, **choices: Any) -> Outcome:
    return Outcome(table.merge(_source(900, 1500), on="id", runner=runner, **choices))


JOBS = (
    Job(
        "delete",
        lambda table, runner: Outcome(table.delete("id % 5 = 1 or x > 280", runner=runner)),
        frozenset({"deleting rows"}),
    ),
    Job(
        "update rows",
        lambda table, runner: Outcome(
            table.update({"x": "x * 2", "s": "'u'"}, "id % 3 = 0", rewrite="rows", runner=runner)
        ),
        frozenset({"updating rows"}),
    ),
    Job(
        "update columns",
        lambda table, runner: Outcome(
            table.update({"x": "x * 2"}, "id % 3 = 0", rewrite="columns", runner=runner)
        ),
        frozenset({"updating rows"}),
    ),
    Job(
        "update",
        lambda table, runner: Outcome(table.update({"x": "x * 2"}, "id % 3 = 0", runner=runner)),
        frozenset({"looking at a sample", "updating rows"}),
    ),
    Job("merge", _merge, frozenset({"matching keys", "writing rows"})),
    Job(
        "merge columns",
        lambda table, runner: _merge(table, runner, not_matched="ignore", rewrite="columns"),
        frozenset({"matching keys", "writing rows"}),
    ),
    Job(
        "merge that deletes",
        lambda table, runner: _merge(
            table,
            runner,
            matched="delete",
            matched_where="target.x > source.x",
            not_matched_by_source="delete",
        ),
        frozenset({"matching keys", "writing rows"}),
    ),
    Job("add columns by a function", _add_by_function, frozenset({"computing columns"})),
    Job(
        "add columns by a function without a schema",
        _add_by_inferring_function,
        frozenset({"computing columns"}),
    ),
    Job(
        "add columns by sql",
        lambda table, runner: Outcome(
            table.add_columns({"z": "id * 2", "p.b": "p.a + 1"}, runner=runner)
        ),
        frozenset({"computing columns"}),
    ),
    Job("add columns from a reader", _add_from_reader),
    Job("add joined columns", _add_joined, frozenset({"computing columns"})),
    Job(
        "cast a column",
        lambda table, runner: Outcome(table.cast_column("id", pa.int32(), runner=runner)),
        frozenset({"casting a column"}),
    ),
    Job("drop columns", _drop_whole_files),
    Job(
        "compact",
        lambda table, runner: Outcome(table.compact(target_rows=500, runner=runner)),
        frozenset({"compacting"}),
    ),
    Job("verify", _verify, frozenset({"checking fragments"})),
    Job(
        "verify deeply",
        lambda table, runner: _verify(table, runner, deep=True),
        frozenset({"checking fragments"}),
    ),
    Job(
        "cleanup",
        _cleanup,
        frozenset({"reading manifests", "removing versions", "removing files"}),
    ),
    Job(
        "repair",
        lambda table, runner: Outcome(table, table.repair(dry_run=True, runner=runner).proposals),
        frozenset({"checking fragments"}),
    ),
    Job("deep clone", _clone, frozenset({"copying files"})),
    Job("detach", _detach, frozenset({"copying files"})),
    Job("move fragments", _move, frozenset({"finding fragments", "copying files"})),
    Job("publish", _publish, frozenset({"adopting files"})),
    Job("merge a branch", _merge_branch, frozenset({"merging rows", "adopting files"})),
    Job(
        "merge a branch, dry",
        lambda table, runner: _merge_branch(table, runner, dry_run=True),
        frozenset({"merging rows"}),
    ),
    Job("rename a branch", _rename_branch, frozenset({"copying files", "rewriting manifests"})),
    Job("relocate", _relocate, frozenset({"reading manifests", "rewriting manifests"})),
)
