"""Writing a frame of files: one snapshot for each item, in parallel, exactly once for a run.

The rows of an item are brought together, and whoever gets them writes the item: see
``repo.items.writing`` for why it does not matter how often a task is run. Knows frames; knows
nothing of git.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancewood.engine.limits import check_choice, check_number
from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.repo.committing.messages import checked_message
from lancewood.repo.identity import author_here
from lancewood.repo.items.file_rows import Mode, item_files
from lancewood.repo.items.outcome import Outcome
from lancewood.repo.items.runs import check_claims_none, checked_run, new_run
from lancewood.repo.items.writing import ItemWriter, Snapshots
from lancewood.repo.ref_names import branch_ref
from lancewood.spark.items.checking import check_names
from lancewood.spark.items.folders import checked_folder
from lancewood.spark.items.frame_rows import by_item, checked_frame, items_in
from lancewood.spark.items.result import ItemsDone
from lancewood.spark.items.running import check_on_error, run_items, told_outcome
from lancewood.spark.runner import last_attempt
from lancewood.spark.tasks import check_running, slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WHAT = "writing items"
_MOST_PARTITIONS = 1_000_000
_ITEMS_PER_TASK = 2_000
_TASKS_PER_SLOT = 8


def write(
    df: DataFrame,
    folder: str | os.PathLike[str],
    *,
    message: str = "snapshot",
    branch: str | None = None,
    author: str | None = None,
    run: str | None = None,
    mode: Mode = "replace",
    check: bool = True,
    on_error: Literal["fail", "report"] = "fail",
    partitions: int | None = None,
    details: bool = False,
    fsync: bool | None = None,
) -> ItemsDone:
    """Write a frame of ``item``, ``path``, ``content`` and perhaps ``message``: one snapshot for
    each item, in its repository below ``folder``, which is made if it is not there.

    ``run`` is what makes it exactly once: the snapshot says which run it is of, and an item that
    has a snapshot of the run on the branch gets no second one, whatever happens to tasks, executors
    or the driver. Run it again with the same id until it is done. Without one, an id is made up,
    and the result tells it. Items whose files are the same already get no snapshot either.

    With mode "replace" the rows are all files of an item: what they leave out is gone. With
    "update" other files stay, and a null content removes a path. Rows of one item have one
    message, or null for ``message``. ``branch`` is the one that HEAD of the item names if it is
    not given; one that is not there begins at HEAD. A snapshot that somebody makes meanwhile is
    built upon. The author is ``"Name <address>"``.

    Names are checked before anything is written, for which the frame is computed twice; with
    ``check=False`` every task checks those of its items. An item that is refused in a task is
    left as it is, and all others are written; then ``on_error="fail"`` raises, and "report" counts
    it. ``partitions`` is how many tasks write; ``details`` keeps a row for each item.
    Raises InvalidInputError.
    """
    check_choice("mode", mode, Mode)
    check_on_error(on_error)
    where = checked_folder(folder)
    text = checked_message(message)
    check_claims_none(text)
    if branch is not None:
        branch_ref(branch)
    if partitions is not None:
        partitions = min(check_number("partitions", partitions, least=1), _MOST_PARTITIONS)
    snapshots = Snapshots(
        new_run() if run is None else checked_run(run), author_here(author), branch, mode, fsync
    )
    frame = checked_frame(df)
    check_running(df.sparkSession)
    count = check_names(frame, mode, text) if check else None
    tasks = partitions or _tasks(slots(df.sparkSession), count)
    work = _Work(where, snapshots, text, on_error, last_attempt(df.sparkSession))
    return run_items(
        by_item(frame, tasks),
        partial(_write, work),
        what=_WHAT,
        run=snapshots.run,
        on_error=on_error,
        details=details,
    )


@dataclass(frozen=True)
class _Work:
    """The same for every task."""

    folder: str
    snapshots: Snapshots
    message: str
    on_error: str
    last_attempt: int | None


def _write(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
    """On an executor: write the items of a partition."""
    writer = ItemWriter(work.folder, work.snapshots)
    try:
        for item, rows in items_in(batches):
            try:
                files = item_files(item, rows, work.snapshots.mode, work.message)
            except InvalidInputError as error:
                yield Outcome.refused(item, error)
                continue
            try:
                yield writer.write(files)
            except LancewoodError as error:
                yield told_outcome(item, error, work.last_attempt, work.on_error)
    finally:
        writer.settle()


def _tasks(at_once: int, items: int | None) -> int:
    """How many tasks write: so many that each has a bounded number of items."""
    if items is None:
        return at_once * _TASKS_PER_SLOT
    wanted = max(-(-items // _ITEMS_PER_TASK), min(at_once, items))
    return max(1, min(wanted, _MOST_PARTITIONS))
