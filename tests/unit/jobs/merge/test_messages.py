"""What travels to the tasks of a merge is small, however large the table is."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa

import lancewood as lw
from lancewood.jobs.merge.merge_branch import BranchMerge
from lancewood.jobs.merge.row_tasks import MergePortion, conflict_batches


def sent(path: Path, fragments: int) -> tuple[bytes, list[bytes]]:
    """What all tasks share, and each alone, if both branches changed ten rows in a fragment."""
    ids = pa.table({"id": range(fragments * 100), "n": [0] * (fragments * 100)})
    table = lw.create(
        path, ids, layout=lw.Layout(max_rows_per_file=100), access=lw.Access(fsync=False)
    )
    table.branches.create("exp").update({"n": "1"}, "id < 10")
    table = table.update({"n": "2"}, "id < 10")
    row_merge = BranchMerge.asked(table._snapshot, "exp", None).row_merge()
    assert row_merge is not None
    portions = [
        portion for touched in row_merge.touched() for _, portion in row_merge.cut(touched, 4)
    ]
    return pickle.dumps(row_merge.shape), [*map(pickle.dumps, portions)]


def test_messages_hold_the_fragments_of_their_rows_only(tmp_path: Path) -> None:
    few, many = sent(tmp_path / "few.lance", 2), sent(tmp_path / "many.lance", 120)
    assert len(many[0]) - len(few[0]) < 100
    assert len(many[1]) == len(few[1]) == 1
    assert len(many[1][0]) - len(few[1][0]) < 100
    assert len(many[0]) + len(many[1][0]) < 20_000
    portion = pickle.loads(many[1][0])
    assert isinstance(portion, MergePortion)
    assert sum(each.num_rows for each in conflict_batches(pickle.loads(many[0]), portion)) == 10
