"""Two jobs over all items: tagging them, and importing them from the plain layout of ADR-019."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancewood.catalog.names import checked_path
from lancewood.errors import InvalidInputError
from lancewood.git.names import HEAD
from lancewood.git.repository import GitRepository
from lancewood.git.signature import Signature
from lancewood.items.folder import ItemFolder
from lancewood.items.looking import tag_item
from lancewood.items.outcome import ItemDone, ItemOutcome
from lancewood.items.plain.importing import FILE_NAME, import_as
from lancewood.items.spark.reading import check_revision, read
from lancewood.items.spark.running import (
    ItemsDone,
    check_on_error,
    checked_folder,
    each_item,
    run_items,
)
from lancewood.repo import author_here, tag_ref
from lancewood.spark.runner import last_attempt
from lancewood.store.disk_root import fsync_by_default

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        git = GitRepository.open(folder.path(item), fsync=self.fsync)
        try:
            return tag_item(git, item, self.name, self.revision, self.by, force=self.force)
        finally:
            git.close()


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
