"""Reading items: refs, history and contents of all repositories below a folder, as frames.

Every action lists the folder anew, and what is found is read where it is found; the driver holds
none of it. Knows frames and their columns; what is in an item is said by ``items.folder``.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lancewood.engine.base import MOST, check_number
from lancewood.errors import InvalidInputError, LancewoodError, StorageError
from lancewood.git.repository import GitRepository
from lancewood.items.folder import (
    ItemFolder,
    checked_item,
    contents_of,
    history_of,
    opened,
    refs_of,
)
from lancewood.items.spark.running import (
    ITEM,
    as_text,
    check_on_error,
    checked_folder,
    find,
    text_of,
)
from lancewood.spark.tasks import check_running, slots

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MOST_PARTITIONS = 1_000_000
_TASKS_PER_SLOT = 4
_BATCH_BYTES = 4 << 20
_BATCH_ROWS = 2_048
ERROR = "error"

_TEXT, _MOMENT = pa.string(), pa.timestamp("us", "UTC")
REFS: dict[str, pa.DataType] = {
    "item": _TEXT,
    "ref": _TEXT,
    "kind": _TEXT,
    "hash": _TEXT,
    "commit": _TEXT,
    "target": _TEXT,
    "is_head": pa.bool_(),
}
HISTORY: dict[str, pa.DataType] = {
    "item": _TEXT,
    "position": pa.int32(),
    "hash": _TEXT,
    "parents": pa.list_(_TEXT),
    "tree": _TEXT,
    "author": _TEXT,
    "author_email": _TEXT,
    "author_time": _MOMENT,
    "committer": _TEXT,
    "committer_email": _TEXT,
    "commit_time": _MOMENT,
    "message": _TEXT,
    "run": _TEXT,
}
CONTENTS: dict[str, pa.DataType] = {
    "item": _TEXT,
    "path": _TEXT,
    "commit": _TEXT,
    "hash": _TEXT,
    "mode": _TEXT,
    "size": pa.int64(),
    "content": pa.binary(),
}
_SPARK = {
    _TEXT: "string",
    _MOMENT: "timestamp",
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.binary(): "binary",
    pa.list_(_TEXT): "array<string>",
}


def read(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    *,
    items: DataFrame | None = None,
    on_error: Literal["fail", "report"] = "fail",
    partitions: int | None = None,
) -> ItemFrames:
    """The item repositories below a folder, or those of a frame with a column ``item``.

    An item is a folder with HEAD, refs and objects; folders may be nested. An item that cannot be
    read fails the action that reads it, or with ``on_error="report"`` has a row with its name and
    the reason in the column ``error``. ``partitions`` is how many tasks read; four for each that
    runs at once if it is not given. Nothing is read yet.
    """
    check_on_error(on_error)
    where = checked_folder(folder)
    check_running(spark)
    if partitions is not None:
        partitions = min(check_number("partitions", partitions, least=1), _MOST_PARTITIONS)
    if items is not None:
        _check_items(items)
    return ItemFrames(spark, where, items, on_error == "report", partitions)


class ItemFrames:
    """Frames of the items below a folder. Made by ``read``."""

    def __init__(
        self,
        spark: SparkSession,
        folder: str,
        items: DataFrame | None,
        reports: bool,
        partitions: int | None,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._given = items
        self._reports = reports
        self._wanted = partitions

    def items(self) -> DataFrame:
        """The names of the items: one column, ``item``."""
        tasks = self._wanted or slots(self._spark) * _TASKS_PER_SLOT
        if self._given is None:
            return find(self._spark, self._folder, tasks)
        return self._given.select(ITEM).dropDuplicates().repartition(tasks, ITEM)

    def refs(self, *, columns: Sequence[str] | None = None) -> DataFrame:
        """HEAD and all refs of all items: item, ref, kind (head, branch, tag, other), hash, commit
        (what an annotated tag leads to), target (the branch that HEAD names), is_head."""
        return self._frame("refs", REFS, columns)

    def history(
        self,
        revision: str | None = "HEAD",
        *,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
    ) -> DataFrame:
        """The commits that a revision leads to, newest first by ``position``; ``limit`` of each
        item. With None those of HEAD, of all branches and of all tags. ``run`` is the id of the run
        that wrote a snapshot."""
        if limit is not None:
            limit = min(check_number("limit", limit), MOST)
        if revision is not None:
            check_revision(revision)
        return self._frame("history", HISTORY, columns, revision=revision, limit=limit)

    def contents(
        self,
        revision: str = "HEAD",
        *,
        columns: Sequence[str] | None = None,
        paths: Collection[str] | None = None,
    ) -> DataFrame:
        """The files of all items at a revision: item, path, commit, hash, mode, size, content.

        Files are opened only if ``columns`` have ``size`` or ``content``. ``paths`` are those that
        are wanted; where one is not there it has no row.
        """
        check_revision(revision)
        if isinstance(paths, str):
            raise InvalidInputError(f"paths are several texts, got one: {paths!r}")
        chosen = None if paths is None else frozenset(paths)
        return self._frame("contents", CONTENTS, columns, revision=revision, paths=chosen)

    def _frame(
        self,
        what: str,
        types: dict[str, pa.DataType],
        columns: Sequence[str] | None,
        **choices: Any,
    ) -> DataFrame:
        chosen = _chosen(types, columns)
        if self._reports:
            chosen[ERROR] = _TEXT
        work = _Work(self._folder, what, chosen, choices, self._reports)
        ddl = ", ".join(f"{name} {_SPARK[kind]}" for name, kind in chosen.items())
        return self.items().mapInArrow(partial(_read, work), ddl)


@dataclass(frozen=True)
class _Work:
    """What all tasks of a reading share: how rows are made from the repository of an item."""

    folder: str
    what: str
    columns: dict[str, pa.DataType]
    choices: dict[str, Any]
    reports: bool

    def rows(self, git: GitRepository, item: str) -> Iterator[dict[str, Any]]:
        if self.what == "refs":
            return refs_of(git, item, self.columns)
        if self.what == "history":
            return history_of(git, item, **self.choices)
        return contents_of(git, item, columns=self.columns, **self.choices)


def _read(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: the rows of the items in a partition, in batches of a few megabytes."""
    schema = pa.schema(list(work.columns.items()))
    rows: list[dict[str, Any]] = []
    size = 0
    for row in _rows(work, batches):
        content = row.get("content")
        held = 0 if content is None else len(content)
        if rows and size + held > _BATCH_BYTES:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows, size = [], 0
        rows.append(row)
        size += held
        if len(rows) == _BATCH_ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _rows(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    locations = ItemFolder(work.folder, fsync=False)
    for batch in batches:
        for each in batch[ITEM]:
            item = text_of(each)
            try:
                name = checked_item(item)
                locations.check_inside(name)
                with opened(work.folder, name) as git:
                    yield from work.rows(git, name)
            except (LancewoodError, OSError) as cause:
                error = _ours(cause, item)
                if not work.reports:
                    raise type(error)(f"item {item!r}: {error.message}", **error.facts) from error
                shown = None if item is None else as_text(item)
                yield {ITEM: shown, ERROR: f"{type(error).__name__}: {error.message}"}


def _ours(error: LancewoodError | OSError, item: str | None) -> LancewoodError:
    if isinstance(error, LancewoodError):
        return error
    return StorageError(f"cannot read item {item!r}: {error.strerror}")


def _chosen(types: dict[str, pa.DataType], columns: Sequence[str] | None) -> dict[str, pa.DataType]:
    if columns is None:
        return dict(types)
    if isinstance(columns, str):
        raise InvalidInputError(f"columns are several names, got one text: {columns!r}")
    unknown = [each for each in columns if each not in types]
    if unknown or not columns:
        raise InvalidInputError(
            f"column {unknown[0]!r} is not there: there are {', '.join(types)}"
            if unknown
            else f"no column is chosen: there are {', '.join(types)}"
        )
    return {each: types[each] for each in columns}


def _check_items(items: DataFrame) -> None:
    kinds = {each.name: each.dataType.simpleString() for each in items.schema.fields}
    if kinds.get(ITEM) != "string":
        raise InvalidInputError(
            f"items takes a frame with a column {ITEM!r} of texts, got {kinds or items!r}"
        )


def check_revision(revision: object) -> None:
    """Raise InvalidInputError for what cannot name a commit, whatever is in an item."""
    if not isinstance(revision, str) or not revision:
        raise InvalidInputError(f"{revision!r} is not a revision: HEAD, a branch, a tag or a hash")
