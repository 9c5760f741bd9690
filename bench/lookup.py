"""Single rows found by an index, and a small merge by an indexed key.

pylance makes the indices. Ours are read by readers of our own; pylance is asked with its dataset
kept, and opened anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lancewood as lw
from bench import OURS, PYLANCE
from bench.measure import interleave_by, wall_clock
from bench.places import Places, scratch, twin
from bench.result import LeastRatio, Most, Row, Section
from bench.rows import check_same
from bench.scale import Scale
from lancewood.model.transaction import Append

_KEYS = 1_000
_TIMES = 10
"""Calls in a row of which a sample is the mean, where one takes a few milliseconds."""
_FRAGMENT_ROWS = 10
_MOST_MS, _MOST_MS_OF_MANY = 3.0, 5.0


def run(scale: Scale, places: Places) -> Section:
    with scratch(places.fast) as here:
        rows = [*_of_large_fragments(here, scale), *_of_many_fragments(here, scale)]
    return Section(
        name="lookup",
        title="Rows found by an index",
        note=f"On {places.fast_name}; {scale.rows:,} rows of int64 (a random order of all numbers "
        "up to there, with a BTREE), int32 (0.1 % of the rows each, with a BITMAP), double and "
        f"string in 10 fragments, and {scale.many_fragments:,} fragments of {_FRAGMENT_ROWS} rows; "
        "all columns are read, files warm, another id each time; a sample of what takes a few "
        f"milliseconds is the mean of {_TIMES} in a row. A merge updates "
        f"{_KEYS:,} rows, and begins with what the pass before made of the table.",
        rows=tuple(rows),
    )


def _of_large_fragments(here: Path, scale: Scale) -> Iterator[Row]:
    path = here / "large.lance"
    _make_large(path, scale.rows)
    ours, theirs = lw.open(path, access=lw.Access(fsync=False)), lance.dataset(path)
    passes = scale.take_passes
    target = Most(_MOST_MS) if scale.is_budgeted else None
    finding = _with_ids(scale.rows, lambda each: ours.scan(where=f"id = {each}").to_arrow())
    kept = _with_ids(scale.rows, lambda each: theirs.to_table(filter=f"id = {each}"))
    yield _row("id = x", finding, kept, passes, target, _TIMES)
    yield _row(
        "open, id = x",
        _with_ids(
            scale.rows,
            lambda each: (
                lw.open(path, access=lw.Access(fsync=False)).scan(where=f"id = {each}").to_arrow()
            ),
        ),
        _with_ids(scale.rows, lambda each: lance.dataset(path).to_table(filter=f"id = {each}")),
        passes,
        times=_TIMES,
    )
    yield _row(
        "id = x, without the index",
        _with_ids(
            scale.rows,
            lambda each: ours.scan(where=f"id = {each}", use_indices=False).to_arrow(),
        ),
        _with_ids(
            scale.rows,
            lambda each: theirs.to_table(filter=f"id = {each}", use_scalar_index=False),
        ),
        scale.scan_passes,
    )
    yield _row(
        "count id < 100",
        lambda: ours.count_rows("id < 100"),
        lambda: theirs.count_rows("id < 100"),
        passes,
        times=_TIMES,
    )
    yield _row(
        "kind = x, 0.1 % of the rows",
        _with_ids(1_000, lambda each: ours.scan(where=f"kind = {each}").to_arrow()),
        _with_ids(1_000, lambda each: theirs.to_table(filter=f"kind = {each}")),
        scale.scan_passes,
    )
    yield _merge(path, scale)


def _merge(path: Path, scale: Scale) -> Row:
    ours, theirs = [lw.open(path, access=lw.Access(fsync=False))], lance.dataset(twin(path))
    generator = {name: np.random.default_rng(3) for name in (OURS, PYLANCE)}

    def merge_ours() -> None:
        ours[0] = ours[0].merge(_source(generator[OURS], scale.rows), "id")

    def merge_theirs() -> None:
        source = _source(generator[PYLANCE], scale.rows)
        merging: Any = theirs.merge_insert("id")
        merging.when_matched_update_all().when_not_matched_insert_all().execute(source)

    target = LeastRatio(1.0) if scale.is_budgeted else None
    return _row(
        f"merge {_KEYS:,} rows by id", merge_ours, merge_theirs, scale.change_passes, target
    )


def _of_many_fragments(here: Path, scale: Scale) -> Iterator[Row]:
    path = here / "many.lance"
    _make_many(path, scale.many_fragments)
    ours, theirs = lw.open(path, access=lw.Access(fsync=False)), lance.dataset(path)
    first = _FRAGMENT_ROWS

    yield _row(
        f"id = x, {scale.many_fragments:,} fragments",
        _with_ids(first, lambda each: ours.scan(where=f"id = {first + each}").to_arrow()),
        _with_ids(first, lambda each: theirs.to_table(filter=f"id = {first + each}")),
        scale.take_passes,
        Most(_MOST_MS_OF_MANY) if scale.is_budgeted else None,
        _TIMES,
    )


def _row(
    work: str,
    ours: Callable[[], Any],
    pylance: Callable[[], Any],
    passes: int,
    target: LeastRatio | Most | None = None,
    times: int = 1,
) -> Row:
    check_same(work, ours(), pylance())
    contenders = {OURS: ours, PYLANCE: pylance}
    (found,) = interleave_by(contenders, passes, (wall_clock,), times=times)
    return Row(work=work, unit="ms", ours=found[OURS], pylance=found[PYLANCE], target=target)


def _with_ids(most: int, find: Callable[[int], pa.Table]) -> Callable[[], pa.Table]:
    """The same call with another id each time; the n-th call always has the same."""
    generator = np.random.default_rng(7)
    return lambda: find(int(generator.integers(0, most)))


def _make_large(path: Path, rows: int) -> None:
    order = np.random.default_rng(1).permutation(rows)
    share = rows // 10
    parts = (_large_rows(order[at : at + share]) for at in range(0, rows, share))
    data = pa.RecordBatchReader.from_batches(_large_rows(order[:1]).schema, parts)
    lw.create(path, data, layout=lw.Layout(max_rows_per_file=share), access=lw.Access(fsync=False))
    dataset: Any = lance.dataset(path)
    dataset.create_scalar_index("id", "BTREE", name="id_idx")
    dataset.create_scalar_index("kind", "BITMAP", name="kind_idx")


def _large_rows(ids: Any) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "id": pa.array(ids, pa.int64()),
            "kind": pa.array(ids % 1_000, pa.int32()),
            "value": pa.array(ids / 7),
            "name": pa.array([f"name {each}" for each in (ids % 5_000).tolist()]),
        }
    )


def _source(generator: np.random.Generator, rows: int) -> pa.Table:
    ids = np.unique(generator.integers(0, rows, 2 * _KEYS))[:_KEYS]
    return pa.Table.from_batches([_large_rows(ids)])


def _make_many(path: Path, count: int) -> None:
    """Fragments of a few rows, all of one data file but the last."""
    first = pa.table({"id": range(_FRAGMENT_ROWS), "name": ["x"] * _FRAGMENT_ROWS})
    last = pa.table({"id": range(_FRAGMENT_ROWS, 2 * _FRAGMENT_ROWS), "name": first["name"]})
    made = lw.create(
        path, first.schema, layout=lw.Layout(stable_row_ids=False), access=lw.Access(fsync=False)
    )
    (common,), (other,) = made.write_fragments(first), made.write_fragments(last)
    made.commit(made.transaction(Append((*(common,) * (count - 1), other))))
    dataset: Any = lance.dataset(path)
    dataset.create_scalar_index("id", "BTREE", name="id_idx")
