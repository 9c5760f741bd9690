"""Whether a session has the columnar door, and planned reads as frames through it.

The jar is brought into a session once: where its classes are looked up on the driver, and to the
executors. Where that cannot be done there is no door, and the reason is kept for people to read.

The Spark of a session of Spark Connect may be on another machine. The jar goes there as an artifact
of the session, and so does each plan: a plan has storage options inside, is pickled, and a server
may write requests down, which name it by its SHA-256 alone. The server keeps plans until the
session ends. Which Python reads is the server's to say: a plan has nothing of this machine but
where the table is. The jar is compiled here, by the Spark that is installed here, if that is the
server's release. A first read of one row, of no table, goes all the way before anybody relies on
the door.

A session that Lancewood has never been asked about has no door: Spark finds the source in Python by
itself, and plans its reads in processes that cannot bring Java classes to the driver. They say so
in one line, once for each Spark, and what they print goes to the console of the driver. That it has
been said, or need not be, is a file in the folder that Spark removes with its context: planning
processes come and go, and know nothing of each other.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

import pyarrow as pa

from lancewood.spark.columnar.jar import (
    ClosedError,
    compiled,
    installed_jars,
    jar_path,
    java_with,
    keep_jar,
    kept_for,
    kept_jar,
)
from lancewood.spark.columnar.protocol import SOURCE, PlannedRead, PythonCommand
from lancewood.spark.java import look_for_java
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VARIABLE = "LANCEWOOD_SPARK_COLUMNAR"
SETTING = "spark.lancewood.columnar"
"""Either turns the door off."""
_OFF = ("0", "false", "no", "off")
"""Values that turn the columnar door off; ``Lance.java`` has the same."""
_LOADER = "org.apache.spark.util.MutableURLClassLoader"

_lock = threading.Lock()
_known: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()
"""Why a driver has no door; None if it has one. It is known by its SparkContext, for sessions come
and go: a stream makes one for each batch; over Connect by its session."""


def why_closed(spark: SparkSession) -> str | None:
    """Why a session has no door; None if it has one, which is brought into it if need be."""
    shut = _kept_shut(spark)
    if shut is not None:
        return shut
    driver = spark if is_connect(spark) else spark.sparkContext
    with _lock:
        if driver not in _known:
            _known[driver] = _tried(spark)
        return _known[driver]


def planned_frame(spark: SparkSession, planned: PlannedRead) -> DataFrame:
    """A planned read as a frame of a session with the door; of it Spark reads what it needs."""
    if is_connect(spark):
        return frame_over_connect(spark, planned)
    context = spark.sparkContext
    source = getattr(context._jvm, SOURCE)
    token = uuid4().hex
    source.leave(token, planned.encode(python_of(context)))
    try:
        return spark.read.format(SOURCE).option("plan", token).load()
    finally:
        source.forget(token)


def prepare(spark: SparkSession) -> None:
    """Bring the door into a session that was made here; waits neither for the compiler nor for a
    server."""
    if _kept_shut(spark) is not None:
        return
    if not is_connect(spark) and kept_jar(_jar_path(spark)) is not None:
        why_closed(spark)
    else:
        threading.Thread(target=why_closed, args=(spark,), daemon=True).start()


def why_not_tried(environ: Mapping[str, str]) -> str | None:
    """Why no session of this environment and system gets the door by itself; None if it may."""
    return (
        _turned_off(VARIABLE, environ.get(VARIABLE))
        or _why_not_forked()
        or _why_untried(sys.platform)
    )


def _kept_shut(spark: SparkSession) -> str | None:
    """Why it is not even tried: it was turned off, or this system is one that nobody has tried its
    workers on, which are forked and share memory."""
    off = _turned_off(VARIABLE, os.environ.get(VARIABLE))
    if off is None and is_connect(spark):
        off = _known.get(spark)
    if off is not None:
        return off
    setting = spark.conf.get(SETTING, None)
    off = _turned_off(SETTING, setting)
    if off is not None or is_connect(spark):
        return off
    return _why_not_forked() or (None if setting is not None else _why_untried(sys.platform))


def _turned_off(name: str, value: str | None) -> str | None:
    return f"{name} is {value}" if value is not None and value.lower() in _OFF else None


def _why_not_forked() -> str | None:
    if hasattr(os, "fork"):
        return None
    return f"its workers are forked, which {sys.platform} does not do"


def _why_untried(platform: str) -> str | None:
    if platform == "linux":
        return None
    return f"it has been tried on Linux alone, and this is {platform}; {SETTING}=true opens it"


def _tried(spark: SparkSession) -> str | None:
    """Bring the door to the driver of a session; why that failed."""
    try:
        if is_connect(spark):
            _open_there(spark)
        else:
            jvm: Any = spark.sparkContext._jvm
            # Whoever asks about the door need not be told that there is one.
            leave_mark(str(jvm.org.apache.spark.SparkFiles.getRootDirectory()))
            path = _jar_path(spark)
            gateway = spark.sparkContext._gateway
            _attach(spark, kept_jar(path) or keep_jar(path, compiled(gateway)))
    except ClosedError as closed:
        return str(closed)
    except Exception as failed:  # whatever a Spark forbids, the other way is open
        told = str(failed).partition("\n\tat ")[0].strip()
        return f"Spark does not take it: {told or type(failed).__name__}"
    return None


def _open_there(spark: SparkSession) -> None:
    """Over Connect. What does not do there is turned off, for ``format("lance")`` as well."""
    try:
        untried = _why_untried(open_over_connect(spark))
        if untried is not None and spark.conf.get(SETTING, None) is None:
            raise ClosedError(untried)
    except Exception:
        with suppress(Exception):
            spark.conf.set(SETTING, "false")
        raise


def _jar_path(spark: SparkSession) -> Path:
    jvm: Any = spark.sparkContext._jvm
    java = str(jvm.java.lang.System.getProperty("java.version"))
    return jar_path(spark.version, java, os.environ)


def _attach(spark: SparkSession, jar: Path) -> None:
    """Bring a jar to the driver and to executors, those that come later included."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None and loader.getClass().getName() != _LOADER:
        loader = loader.getParent()
    if loader is None:
        raise ClosedError("the driver of this Spark takes no classes while it runs")
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    context._jsc.addJar(str(jar))
    source = getattr(jvm, SOURCE)
    is_local = str(context.master).startswith("local[") or context.master == "local"
    source.introduce(python_of(context).encode(), is_local)


def python_of(context: Any) -> PythonCommand:
    """The Python of a session's workers."""
    return PythonCommand(context.pythonExec, dict(context.environment), context._python_includes)


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
    spark.addArtifacts(str(_jar_over_connect(spark.version)))
    (answer,) = frame_over_connect(spark, _first_read()).collect()
    return str(answer.platform)


def _jar_over_connect(release: str) -> Path:
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


_MARK = ".lancewood-columnar"
LINE = (
    'lancewood: format("lance") hands rows over one by one in this Spark session; call '
    "lancewood.spark.session() once after the session is made, and reads go by columns, several "
    "times as fast (LANCEWOOD_SPARK_COLUMNAR=0 in the environment keeps this line away)"
)


def say_once() -> None:
    """Where Spark plans a read in Python: print the line, unless a mark says that it was said, or
    that the session was asked whether it has the door. Elsewhere nothing is said."""
    from pyspark import SparkFiles

    folder = SparkFiles._root_directory if SparkFiles._is_running_on_worker else None
    if folder is not None and leave_mark(folder):
        print(LINE, file=sys.stderr, flush=True)


def leave_mark(folder: str) -> bool:
    """Leave it in the folder for files of a driver. False if there is one, or none can be left:
    then there might be a line for every read."""
    try:
        with open(os.path.join(folder, _MARK), "x"):
            return True
    except OSError:
        return False
