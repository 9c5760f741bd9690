"""The columnar door of a session of Spark Connect, whose Spark may be on another machine.

The jar goes there as an artifact of the session, and so does each plan: a plan has storage options
inside, is pickled, and a server may write requests down, which name it by its SHA-256 alone. The
server keeps plans until the session ends. Which Python reads is the server's to say: a plan has
nothing of this machine but where the table is.

The jar is compiled here, by the Spark that is installed here, if that is the server's release. A
first read of one row, of no table, goes all the way before anybody relies on the door.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.spark.columnar.jar import (
    ClosedError,
    compiled,
    installed_jars,
    jar_path,
    java_with,
    keep_jar,
    kept_for,
)
from lancewood.spark.columnar.planned import SOURCE, PlannedRead, PythonCommand
from lancewood.spark.java import look_for_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = (
    '{"type":"struct","fields":[{"name":"platform","type":"string","nullable":true,"metadata":{}}]}'
)


def frame_over_connect(spark: SparkSession, planned: PlannedRead) -> DataFrame:
    """A planned read as a frame of a session with the door."""
    client: Any = spark.client
    digest = client.cache_artifact(planned.encode(PythonCommand()))
    return spark.read.format(SOURCE).option("digest", digest).load()


def open_over_connect(spark: SparkSession) -> str:
    """Bring the door to a session, and give the system that its workers run on.

    Raises ClosedError, and what Spark raises where something does not do there.
    """
    spark.addArtifacts(str(_jar(spark.version)))
    (answer,) = frame_over_connect(spark, _first_read()).collect()
    return str(answer.platform)


def _jar(release: str) -> Path:
    kept = kept_for(release, os.environ)
    if kept is not None:
        return kept
    jars = installed_jars(release, os.environ)
    java = look_for_java(os.environ, [])
    if jars is None or java is None:
        lacking = "Java" if jars is not None else f"Spark {release} (the package pyspark has it)"
        raise ClosedError(
            f"this machine has no {lacking} to compile its source for the server with"
        )
    with java_with(jars, java.executable) as gateway:
        version = str(gateway.jvm.java.lang.System.getProperty("java.version"))
        try:
            classes = compiled(gateway)
        except Exception as refused:  # its text is Java's, which ends below
            told = str(refused).partition("\n\tat ")[0]
            raise ClosedError(f"Spark {release} does not compile it: {told}") from None
    return keep_jar(jar_path(release, version, os.environ), classes)


class _Greeting:
    """Work that reads nothing: one row, with the system that it is done on."""

    reading = SimpleNamespace(schema=pa.schema({"platform": pa.string()}))

    def narrowed(self, names: Sequence[str], where: str | None, limit: int | None) -> _Greeting:
        return self

    def portion(self, message: bytes) -> SimpleNamespace:
        return SimpleNamespace(fragments=())

    def rows(self, portion: SimpleNamespace) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[sys.platform]], schema=self.reading.schema)


def _first_read() -> PlannedRead:
    return PlannedRead(
        name="the columnar door",
        schema=_SCHEMA,
        work=pickle.dumps(_Greeting()),
        messages=[b""],
        rows=1,
        is_counted=False,
        pruned=0,
        slots=1,
        worthwhile=1,
        most_condition=0,
        widths={},
        needed=(),
        references={},
    )
