"""Tagging all items in one job."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from lancewood.git.repository import GitRepository
from lancewood.git.signature import Signature
from lancewood.repo.identity import author_here
from lancewood.repo.items.outcome import Outcome
from lancewood.repo.items.places import ItemPlaces
from lancewood.repo.items.tagging import tag_item
from lancewood.repo.ref_names import tag_ref
from lancewood.spark.items.folders import checked_folder
from lancewood.spark.items.reading import check_revision, read
from lancewood.spark.items.result import ItemsDone
from lancewood.spark.items.running import check_on_error, each_item, run_items
from lancewood.spark.runner import last_attempt

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

    Done again, it changes nothing: a tag that leads to the commit already is counted as unchanged.
    One that leads elsewhere is refused, or moved with ``force``. All items are tried; then
    ``on_error="fail"`` raises AlreadyExistsError, NotFoundError or whatever refused the first,
    and "report" counts them. Raises InvalidInputError for a name that git refuses, and
    for what is no text of a revision.
    """
    tag_ref(name)
    check_revision(revision)
    check_on_error(on_error)
    work = _Work(
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
class _Work:
    """The same for every task."""

    folder: str
    name: str
    revision: str
    by: Signature
    force: bool
    on_error: str
    last_attempt: int | None
    fsync: bool | None

    def tag(self, places: ItemPlaces, item: str) -> Outcome:
        places.check_inside(item)
        git = GitRepository.open(places.path(item), fsync=self.fsync)
        try:
            return tag_item(git, item, self.name, self.revision, self.by, force=self.force)
        finally:
            git.close()


def _tag(work: _Work, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcome]:
    """On an executor: tag the items of a partition."""
    tag = partial(work.tag, ItemPlaces(work.folder, fsync=False))
    return each_item(batches, tag, last=work.last_attempt, on_error=work.on_error)
