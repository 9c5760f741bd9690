"""The streamed source as Spark reads it: in micro-batches, without end.

Reads with the format, options and schema that a run without a stream has. A Lance table is followed
version by version. Starts nothing.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lancewood.errors import NotFoundError
from lancewood.git.names import HEADS
from lancewood.model.refs import MAIN
from lancewood.pipeline.definition.model import Pipeline, Source, Stream
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.reading import (
    columns_read,
    configured,
    plain_options,
    read_format,
    with_file,
)
from lancewood.pipeline.frames.refusals import refused_at
from lancewood.repo.repository import Repository

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def _streamed_source(pipeline: Pipeline, stream: Stream) -> Source:
    """The source that comes in micro-batches."""
    return next(each for each in pipeline.sources if each.name == stream.source)


def open_stream(
    spark: SparkSession, pipeline: Pipeline, stream: Stream, repository: Repository | None
) -> DataFrame:
    """The rows of the source as a stream; raises InvalidInputError.

    ``repository`` is None where there is none yet.
    """
    source = _streamed_source(pipeline, stream)
    with refused_at(source.spot, pipeline):
        if source.format is not None:
            frame = _of_format(spark, stream, source)
        else:
            frame = _of_table(spark, pipeline, stream, source, repository)
        _ = frame.schema
        return frame


def _of_format(spark: SparkSession, stream: Stream, source: Source) -> DataFrame:
    reader = configured(spark.readStream, source).options(**stream.options)
    if not source.paths:
        return reader.load()
    if source.schema is None:
        # Spark asks a stream of files for it; what is there now has the one that a run would read.
        reader = reader.schema(read_format(spark, source).schema)
    return with_file(reader.load(source.paths[0]), source)


def _of_table(
    spark: SparkSession,
    pipeline: Pipeline,
    stream: Stream,
    source: Source,
    repository: Repository | None,
) -> DataFrame:
    uri, branch = _place(pipeline, source, repository)
    _check_no_circle(pipeline, source)
    reader = spark.readStream.format("lance").options(**stream.options)
    for name, value in plain_options(pipeline.storage_options).items():
        reader = reader.option(f"storage.{name}", value)
    columns = columns_read(source)
    if columns is not None:
        reader = reader.option("columns", json.dumps(columns))
    if branch is not None:
        reader = reader.option("branch", branch)
    return reader.load(uri)


def _place(
    pipeline: Pipeline, source: Source, repository: Repository | None
) -> tuple[str, str | None]:
    """The uri and the branch of a table; None for the branch that the uri means."""
    if source.table is None:
        assert source.uri is not None
        return source.uri, None
    spot = source.spot.at("table")
    try:
        if repository is None:
            raise NotFoundError(f"there is no repository at {pipeline.repository}")
        pin = repository.at(HEADS + pipeline.branch).pin(source.table)
    except NotFoundError as missing:
        raise wrong(spot, missing.message) from missing
    branch = MAIN if pin.branch is None else str(pin.branch)
    if branch != pipeline.branch:
        raise wrong(
            spot,
            f"branch {pipeline.branch!r} has not written {source.table!r} yet and reads that of "
            f"{branch!r}, so that there is nothing to follow: write to it once, or stream from "
            f"{branch!r} with uri",
        )
    return str(repository.path / pin.uri) if pin.is_at_home else pin.uri, branch


def _check_no_circle(pipeline: Pipeline, source: Source) -> None:
    """A stream that writes what it reads would never come to an end."""
    for target in pipeline.targets:
        is_same = target.table == source.table or (
            source.uri is not None and target.uri == source.uri
        )
        if is_same:
            raise wrong(
                target.spot.at("table"),
                f"{target.table!r} is the table that the stream reads: every batch would make "
                "another. Write to another table",
            )
