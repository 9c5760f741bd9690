"""The rows of a batch cut into tasks, each a small message.

Small things are put together, large ones cut, as in a read of a whole table. Opens no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from lancewood.engine.scan import ScanPlan
from lancewood.spark.reading.cutting import MOST, OPENING, count_tasks
from lancewood.spark.reading.message import Portion
from lancewood.spark.reading.row_width import RowWidth
from lancewood.spark.streaming.fitting import Fitting, View
from lancewood.spark.streaming.portions import StreamRows
from lancewood.spark.streaming.task import Part, StreamTask

_SAMPLE = 32


class TaskSize(NamedTuple):
    """What decides how many tasks there are."""

    slots: int
    """How many are thought to run at once."""
    most_bytes: int = MOST
    """What one of them reads at most, about."""


def plan_tasks(rows: Iterable[StreamRows], fitting: Fitting, size: TaskSize) -> list[bytes]:
    """Messages for ``read_stream_task``.

    Raises UnsupportedError for rows of a version that does not fit the stream.
    """
    listed = [each for each in rows if each.row_count]
    if not listed:
        return []
    total = sum(each.row_count for each in listed)
    opened = sum(each.fragment_count for each in listed)
    cost = total * _width(listed[0], fitting) + opened * OPENING
    tasks = count_tasks(cost, size.slots, size.most_bytes)
    share = -(-total // tasks)
    messages = []
    task: list[StreamRows] = []
    held = 0
    for each in listed:
        while each.row_count:
            part = each.cut(0, min(each.row_count, share - held))
            each = each.cut(part.row_count, each.row_count)
            task.append(part)
            held += part.row_count
            if held >= share:
                messages.append(_encoded(task, fitting))
                task, held = [], 0
    if task:
        messages.append(_encoded(task, fitting))
    return messages


def _width(rows: StreamRows, fitting: Fitting) -> float:
    plan = ScanPlan(rows.snapshot, fitting.view(rows.snapshot).work.request)
    return RowWidth(plan).of(rows.sample(_SAMPLE))


def _encoded(rows: Sequence[StreamRows], fitting: Fitting) -> bytes:
    views: list[View] = []
    parts: list[Part] = []
    for each in rows:
        view = fitting.view(each.snapshot)
        if not views or views[-1] is not view:
            views.append(view)
        rows_of_part = each.portion(with_lineage=view.needs_lineage)
        part = Part(len(views) - 1, each.change, each.version, rows_of_part)
        joined = _joined(parts[-1], part, fitting) if parts else None
        if joined is None:
            parts.append(part)
        else:
            parts[-1] = joined
    return StreamTask(views, parts).encode()


def _joined(one: Part, other: Part, fitting: Fitting) -> Part | None:
    """Neighbouring fragments of one manifest are read together, where nobody asks which version
    they came with; None where they are not."""
    if not isinstance(one.rows, Portion) or not isinstance(other.rows, Portion):
        return None
    is_told = fitting.columns.with_changes and one.version != other.version
    if one.view != other.view or is_told:
        return None
    fragments = [*one.rows.fragments, *other.rows.fragments]
    return replace(one, rows=Portion(fragments, {**one.rows.spans, **other.rows.spans}))
