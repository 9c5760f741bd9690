"""A small table with indices, for faults and races of what changes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
from tests.histories.answers import check_answers
from tests.pylance import judged

import lancewood as lw
from lancewood.jobs.index import building
from lancewood.jobs.runner import LocalRunner


class OneThread(LocalRunner):
    """One thread, for which as many segments are built as for three."""

    def __init__(self) -> None:
        super().__init__(1)

    @property
    def slots(self) -> int:
        return 3


ONE = OneThread()
TYPES = {"k": pa.int64(), "a": pa.int32(), "s": pa.string(), "v": pa.list_(pa.float32(), 2)}


@contextmanager
def small_tasks() -> Iterator[None]:
    """A task for every few fragments, however small: their segments are merged."""
    with patch.object(building, "LEAST_BYTES", 0):
        yield


def rows(first: int, stop: int) -> pa.Table:
    columns = {
        "k": [*range(first, stop)],
        "a": [k % 3 for k in range(first, stop)],
        "s": [f"{'new' if k % 2 else 'old'} x" for k in range(first, stop)],
        "v": [[k % 4, 0.5] for k in range(first, stop)],
    }
    return pa.table({name: pa.array(columns[name], kind) for name, kind in TYPES.items()})


def indexed(uri: str, *, stable: bool) -> lw.Table:
    """An index of two segments and one of one; neither covers everything, and both hold an old
    value of a row that was changed since."""
    table = lw.create(
        uri,
        rows(0, 8),
        layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=4),
        access=lw.Access(fsync=False),
    )
    table = table.indices.create("a", "BITMAP", name="on_a", runner=ONE)
    table = table.append(rows(8, 12)).indices.extend(runner=ONE)
    table = table.indices.create("a", "ZONEMAP", name="zones", runner=ONE)
    table = table.update({"a": 7}, "k = 2", rewrite="columns").append(rows(12, 14))
    return table.delete("k = 5")


@dataclass(frozen=True)
class Seen:
    """The indices of a table by name: kind, segments, rows covered. What they answer is right."""

    indices: tuple[tuple[str, str, int, int | None], ...]

    @classmethod
    def at(cls, uri: str) -> Seen:
        table, dataset = lw.open(uri), judged(uri)
        assert table.version == dataset.version
        assert not table.verify().problems
        values = dataset.to_table().to_pydict()
        told = table.indices.list()
        for each in told:
            assert each.column is not None
            known = dict(zip(values["k"], values[each.column], strict=True))
            check_answers(table, dataset, each.column, each.kind, known)
        return cls(tuple((each.name, each.kind, each.segments, each.rows_covered) for each in told))


def unreferenced(uri: str) -> set[str]:
    """The directories of segments that no version names."""
    table = lw.open(uri)
    versions = [table.checkout(version=each.version) for each in table.versions()]
    named = {str(segment.uuid) for each in versions for segment in each.indices}
    return {each.name for each in Path(uri, "_indices").iterdir()} - named
