"""Writing a frame of files, one snapshot for each item, in parallel, exactly once for a run;
tagging items, and importing them from the plain layout of ADR-019.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancewood.catalog.names import branch_ref, checked_path, tag_ref
from lancewood.engine.base import check_choice, check_number
from lancewood.errors import InvalidInputError, LancewoodError
from lancewood.git.names import HEAD
from lancewood.git.repository import GitRepository
from lancewood.git.values import Signature
from lancewood.items.folder import ItemFolder, tag_item
from lancewood.items.outcome import (
    ItemDone,
    ItemOutcome,
    Tally,
    check_claims_none,
    checked_run,
    new_run,
)
from lancewood.items.plain.importing import FILE_NAME, import_as
from lancewood.items.spark.reading import check_revision, read
from lancewood.items.spark.running import (
    ITEM,
    ItemsDone,
    check_on_error,
    checked_folder,
    collected,
    each_item,
    run_items,
    text_of,
    told_outcome,
)
from lancewood.items.writing import FileRow, ItemWriter, Mode, Snapshots, item_files
from lancewood.repo import author_here, checked_message
from lancewood.spark.runner import last_attempt
from lancewood.spark.tasks import check_running, slots
from lancewood.store.disk_root import fsync_by_default

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


PATH, CONTENT, MESSAGE = "path", "content", "message"
_NEEDED = {ITEM: "string", PATH: "string", CONTENT: "binary"}
_GONE = "gone"
_CHECKING = "checking the names of items"
_DDL = "tally binary, has_folders boolean"
_CHECKS_PER_SLOT = 2
_MOST_TOLD = 10
_WRITING = "writing items"
_MOST_PARTITIONS = 1_000_000
_ITEMS_PER_TASK = 2_000
_WRITERS_PER_SLOT = 8


def write(
    df: DataFrame,
    folder: str | os.PathLike[str],
    *,
    message: str | None = None,
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
    """Write a frame of ``item``, ``path``, ``content`` and perhaps ``message``.

    Each item gets one snapshot in its repository below ``folder``, which is made if it does not
    exist. ``run`` makes that happen exactly once: the snapshot names its run, and an item whose
    branch has a snapshot of the run gets no second one, whatever happens to tasks, executors or the
    driver. Run it again with the same id until it is done. By default a new id is made, and the
    result has it. Items whose files do not change get no snapshot either.

    With mode "replace" the rows are all files of an item, and others are removed. With "update"
    other files stay, and a null content removes a path. The rows of an item have the same
    ``message``; null is the one that is given here, which is "snapshot" if it is left out.
    ``branch`` is by default the one that HEAD of the item names; a new branch begins at HEAD.
    Snapshots that others make at the same time are built upon. The author is ``"Name <address>"``.

    Names are checked before anything is written, for which the frame is computed twice; with
    ``check=False`` every task checks its own. An item that a task refuses is left as it is, and all
    others are written; then ``on_error="fail"`` raises, and "report" counts it. ``partitions`` is
    the number of tasks; ``details`` keeps a row for each item. Raises InvalidInputError.
    """
    check_choice("mode", mode, Mode)
    check_on_error(on_error)
    where = checked_folder(folder)
    text = "snapshot" if message is None else checked_message(message)
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
        what=_WRITING,
        run=snapshots.run,
        on_error=on_error,
        details=details,
    )


@dataclass(frozen=True)
class _Work:
    """The part of a task that all tasks of writing items share."""

    folder: str
    snapshots: Snapshots
    message: str
    on_error: str
    last_attempt: int | None


def _write(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[ItemOutcome]:
    """On an executor: write the items of a partition."""
    writer = ItemWriter(work.folder, work.snapshots)
    try:
        for item, rows in items_in(batches):
            try:
                files = item_files(item, rows, work.snapshots.mode, work.message)
            except InvalidInputError as error:
                yield ItemOutcome.refused(item, error)
                continue
            try:
                yield writer.write(files)
            except LancewoodError as error:
                yield told_outcome(item, error, work.last_attempt, work.on_error)
    finally:
        writer.settle()


def _tasks(at_once: int, items: int | None) -> int:
    """How many tasks write, so that each has a bounded number of items."""
    if items is None:
        return at_once * _WRITERS_PER_SLOT
    wanted = max(-(-items // _ITEMS_PER_TASK), min(at_once, items))
    return max(1, min(wanted, _MOST_PARTITIONS))


def checked_frame(df: DataFrame) -> DataFrame:
    """The frame with its columns in order; raises InvalidInputError if any is missing or
    unknown."""
    if not hasattr(df, "mapInArrow"):
        raise InvalidInputError(
            f"items are written from a DataFrame of Spark's, not from a {type(df).__name__}"
        )
    wanted = {**_NEEDED, MESSAGE: "string"}
    found: dict[str, str] = {}
    for each in df.schema.fields:
        if each.name not in wanted or each.name in found:
            raise InvalidInputError(
                f"column {each.name!r} of the frame is not one of {', '.join(wanted)}, or is there "
                "twice; select those",
                column=each.name,
            )
        kind = each.dataType.simpleString()
        # A text with a collation, or of a fixed length, is a text.
        found[each.name] = "string" if kind.startswith(("string", "char", "varchar")) else kind
    for name, kind in wanted.items():
        if name not in found and name in _NEEDED:
            raise InvalidInputError(
                f"the frame has no column {name!r}; it needs {', '.join(_NEEDED)}, and may have "
                f"{MESSAGE}",
                column=name,
            )
        if found.get(name, kind) != kind:
            how = "; encode it, as with encode(text, 'UTF-8')" if name == CONTENT else ""
            raise InvalidInputError(
                f"column {name!r} is {found[name]}, and has to be {kind}{how}", column=name
            )
    kinds = {each.name: each.dataType.simpleString() for each in df.schema.fields}
    return df.select(*[_by_bytes(each, kinds[each]) for each in wanted if each in found])


def _by_bytes(name: str, kind: str) -> Column:
    """A column compared by bytes, as names on a disk are.

    A collation may treat 'a' and 'A' as equal, and would interleave the rows of both.
    """
    from pyspark.sql import functions

    column = functions.col(name)
    return functions.collate(column, "UTF8_BINARY").alias(name) if "collate" in kind else column


def by_item(df: DataFrame, partitions: int) -> DataFrame:
    """The rows of each item together, sorted by path."""
    return df.repartition(partitions, ITEM).sortWithinPartitions(ITEM, PATH)


def names_only(df: DataFrame) -> DataFrame:
    """The frame without contents; a flag says which of them are null."""
    from pyspark.sql import functions

    gone = functions.col(CONTENT).isNull().alias(_GONE)
    return df.select(*[gone if each == CONTENT else functions.col(each) for each in df.columns])


def items_in(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, list[FileRow]]]:
    """The items of a partition, each with all of its rows."""
    item: str | None = None
    rows: list[FileRow] = []
    for batch in batches:
        names = batch.schema.names
        has_content, has_message = CONTENT in names, MESSAGE in names
        for at in range(batch.num_rows):
            name = text_of(batch[ITEM][at])
            if rows and name != item:
                yield item, rows
                rows = []
            item = name
            if has_content:
                content = batch[CONTENT][at].as_py()
            else:
                content = None if batch[_GONE][at].as_py() else b""
            message = text_of(batch[MESSAGE][at]) if has_message else None
            rows.append(FileRow(text_of(batch[PATH][at]), content, message))
    if rows:
        yield item, rows


def check_names(df: DataFrame, mode: Mode, message: str) -> int:
    """The number of items in a frame.

    Raises InvalidInputError that names the first few items that cannot be written, with reasons.
    """
    names = by_item(names_only(df), slots(df.sparkSession) * _CHECKS_PER_SLOT)
    found = collected(names.mapInArrow(partial(_check, mode, message), _DDL), _CHECKING)
    tally = Tally.joined(bytes(each.tally) for each in found)
    tally.check("names cannot be written of")
    if any(each.has_folders for each in found):
        _check_apart(df)
    return tally.items


def _check(mode: Mode, message: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """On an executor: count the names of a partition, and note whether some are in folders."""
    tally, has_folders = Tally(), False
    for item, rows in items_in(batches):
        try:
            files = item_files(item, rows, mode, message)
        except InvalidInputError as error:
            tally.add(ItemOutcome.refused(item, error))
        else:
            tally.add(ItemOutcome(item, ItemDone.UNCHANGED))
            has_folders = has_folders or "/" in files.item
    yield pa.record_batch(
        {
            "tally": pa.array([tally.encode()], pa.binary()),
            "has_folders": pa.array([has_folders], pa.bool_()),
        }
    )


def _check_apart(df: DataFrame) -> None:
    """Raise InvalidInputError for items that are inside each other."""
    from pyspark.sql import functions

    items = df.select(ITEM).distinct()
    parts = functions.split(functions.col(ITEM), "/", -1)
    depths = functions.sequence(functions.lit(1), functions.size(parts) - 1)
    above = functions.transform(
        depths, lambda depth: functions.array_join(functions.slice(parts, 1, depth), "/")
    )
    nested = items.where(functions.col(ITEM).contains("/"))
    folders = nested.select(functions.explode(above).alias(ITEM)).distinct()
    both = items.join(folders, ITEM, "left_semi").limit(_MOST_TOLD)
    found = sorted(each[0] for each in collected(both, _CHECKING))
    if found:
        raise InvalidInputError(
            f"items are not in each other, and others of the frame are in "
            f"{', '.join(map(repr, found))}",
            items=found,
        )


def tag(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    name: str,
    *,
    revision: str = "HEAD",
    items: DataFrame | None = None,
    author: str | None = None,
    force: bool = False,
    on_error: Literal["fail", "report"] = "fail",
    partitions: int | None = None,
    details: bool = False,
    fsync: bool | None = None,
) -> ItemsDone:
    """Tag every item below a folder at a revision, or those of a frame with a column ``item``.

    Running it again changes nothing: a tag that leads to the commit already counts as unchanged.
    One that leads elsewhere is refused, or moved with ``force``. All items are tried. Then
    ``on_error="fail"`` raises the first refusal, such as AlreadyExistsError or NotFoundError, and
    "report" counts the refusals. Raises InvalidInputError for a name that git refuses and for an
    invalid revision.
    """
    tag_ref(name)
    check_revision(revision)
    check_on_error(on_error)
    work = _Tagging(
        checked_folder(folder),
        name,
        revision,
        author_here(author),
        force,
        on_error,
        last_attempt(spark),
        fsync,
    )
    found = read(spark, folder, items=items, on_error=on_error, partitions=partitions)
    return run_items(
        found.items(),
        partial(_tag, work),
        what=f"tagging items {name!r}",
        run=None,
        on_error=on_error,
        details=details,
    )


@dataclass(frozen=True)
class _Tagging:
    """The part of a task that all tasks of tagging share."""

    folder: str
    name: str
    revision: str
    by: Signature
    force: bool
    on_error: str
    last_attempt: int | None
    fsync: bool | None

    def tag(self, folder: ItemFolder, item: str) -> ItemOutcome:
        folder.check_inside(item)
        with closing(GitRepository.open(folder.path(item), fsync=self.fsync)) as git:
            return tag_item(git, item, self.name, self.revision, self.by, force=self.force)


def _tag(work: _Tagging, batches: Iterable[pa.RecordBatch]) -> Iterator[ItemOutcome]:
    """On an executor: tag the items of a partition."""
    tag = partial(work.tag, ItemFolder(work.folder, fsync=False))
    return each_item(batches, tag, last=work.last_attempt, on_error=work.on_error)


def import_plain(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    items: DataFrame | None = None,
    name: str = FILE_NAME,
    author: str | None = None,
    log: bool = True,
    force: bool = False,
    on_error: Literal["fail", "report"] = "fail",
    partitions: int | None = None,
    details: bool = False,
    fsync: bool | None = None,
) -> ItemsDone:
    """Import every plain repository below ``folder`` into an item of the same name below
    ``target``.

    Each is imported as by ``lancewood.items.plain.importing.import_plain``. Running it again
    changes nothing, or continues where it was cut off. All are tried. Then ``on_error="fail"``
    raises the first refusal, and "report" counts the refusals.
    """
    check_on_error(on_error)
    source, into = checked_folder(folder), checked_folder(target)
    if source == into or f"{into}/".startswith(f"{source}/") or f"{source}/".startswith(f"{into}/"):
        raise InvalidInputError(f"{folder} and {target} are in each other; import elsewhere")
    work = _Importing(
        source,
        into,
        checked_path(name),
        author_here(author),
        log,
        force,
        on_error,
        last_attempt(spark),
        fsync,
    )
    found = read(spark, source, items=items, on_error=on_error, partitions=partitions)
    return run_items(
        found.items(),
        partial(_import, work),
        what="importing plain repositories",
        run=None,
        on_error=on_error,
        details=details,
    )


@dataclass(frozen=True)
class _Importing:
    """The part of a task that all tasks of importing share."""

    source: str
    target: str
    name: str
    by: Signature
    log: bool
    force: bool
    on_error: str
    last_attempt: int | None
    fsync: bool | None

    def run(self, sources: ItemFolder, targets: ItemFolder, item: str) -> ItemOutcome:
        sources.check_inside(item)
        targets.make_room(item)
        is_new = not os.path.lexists(f"{targets.path(item)}/{HEAD}")
        done = import_as(
            f"{self.source}/{item}",
            targets.path(item),
            name=self.name,
            by=self.by,
            log=self.log,
            force=self.force,
            fsync=self.fsync,
            folder=targets,
        )
        if not done.changed and not is_new:
            return ItemOutcome(item, ItemDone.UNCHANGED)
        if is_new:
            targets.check_alone(item)
        targets.named(item)
        return ItemOutcome(item, ItemDone.WRITTEN)


def _import(work: _Importing, batches: Iterable[pa.RecordBatch]) -> Iterator[ItemOutcome]:
    """On an executor: import the items of a partition."""
    sources = ItemFolder(work.source, fsync=False)
    fsync = fsync_by_default() if work.fsync is None else work.fsync
    targets = ItemFolder(work.target, fsync=fsync)
    run = partial(work.run, sources, targets)
    try:
        yield from each_item(batches, run, last=work.last_attempt, on_error=work.on_error)
    finally:
        targets.settle()
