"""Whether a session has the columnar door, and planned reads as frames through it.

The jar is brought into a session once: where its classes are looked up on the driver, and to the
executors. Where that cannot be done there is no door, and the reason is kept for people to read.
A session of Spark Connect is another matter: see ``over_connect``.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from lancewood.spark.columnar.jar import ClosedError, compiled, jar_path, keep_jar, kept_jar
from lancewood.spark.columnar.over_connect import frame_over_connect, open_over_connect
from lancewood.spark.columnar.planned import SOURCE, PlannedRead, PythonCommand
from lancewood.spark.columnar.slow_way import leave_mark
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
    value = environ.get(VARIABLE, "")
    if value.lower() in _OFF:
        return f"{VARIABLE} is {value}"
    return _why_not_forked() or _why_untried(sys.platform)


def _kept_shut(spark: SparkSession) -> str | None:
    """Why it is not even tried: it was turned off, or this system is one that nobody has tried its
    workers on, which are forked and share memory."""
    value = os.environ.get(VARIABLE, "")
    if value.lower() in _OFF:
        return f"{VARIABLE} is {value}"
    if is_connect(spark) and _known.get(spark) is not None:
        return _known[spark]
    setting = spark.conf.get(SETTING, None)
    if setting is not None and setting.lower() in _OFF:
        return f"{SETTING} is {setting}"
    if is_connect(spark):
        return None
    return _why_not_forked() or (None if setting is not None else _why_untried(sys.platform))


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
            _keep_quiet(spark)
            _attach(spark, _jar(spark))
    except ClosedError as closed:
        return str(closed)
    except Exception as failed:  # whatever a Spark forbids, the other way is open
        told = str(failed).partition("\n\tat ")[0].strip()
        return f"Spark does not take it: {told or type(failed).__name__}"
    return None


def _keep_quiet(spark: SparkSession) -> None:
    """Whoever asks about the door need not be told that there is one."""
    jvm: Any = spark.sparkContext._jvm
    leave_mark(str(jvm.org.apache.spark.SparkFiles.getRootDirectory()))


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


def _jar(spark: SparkSession) -> Path:
    path = _jar_path(spark)
    return kept_jar(path) or keep_jar(path, compiled(spark.sparkContext._gateway))


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
