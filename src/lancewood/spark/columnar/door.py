"""Whether a session has the columnar door, and planned reads as frames through it.

The jar is brought into a session once: where its classes are looked up on the driver, and to the
executors. Where that cannot be done there is no door, and the reason is kept for people to read.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from lancewood.spark.columnar.jar import (
    compiled,
    format_jar,
    jar_path,
    keep_jar,
    kept_jar,
)
from lancewood.spark.columnar.planned import PlannedRead, PythonCommand
from lancewood.spark.tasks import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VARIABLE = "LANCEWOOD_SPARK_COLUMNAR"
SETTING = "spark.lancewood.columnar"
"""Either turns the door off."""
_OFF = ("0", "false", "no", "off")
"""What turns it off; ``Lance.java`` has the same."""
_PACKAGE = "io.lancewood.spark"
_SOURCE = f"{_PACKAGE}.PlannedSource"
_LOADER = "org.apache.spark.util.MutableURLClassLoader"


class ClosedError(Exception):
    """There is no door, for the reason that this says."""


_lock = threading.Lock()
_known: WeakKeyDictionary[Any, str | None] = WeakKeyDictionary()
"""Why a driver, which is a SparkContext, has no door; None if it has one. Sessions come and go: a
stream makes one for each batch."""


def why_closed(spark: SparkSession) -> str | None:
    """Why a session has no door; None if it has one, which is brought into it if need be."""
    shut = _kept_shut(spark)
    if shut is not None:
        return shut
    if is_connect(spark):
        return "it is not brought to servers of Spark Connect"
    context = spark.sparkContext
    with _lock:
        if context not in _known:
            _known[context] = _tried(spark)
        return _known[context]


def planned_frame(spark: SparkSession, planned: PlannedRead) -> DataFrame:
    """A planned read as a frame of a session with the door; of it Spark reads what it needs."""
    context = spark.sparkContext
    source = getattr(context._jvm, _SOURCE)
    token = uuid4().hex
    source.leave(token, planned.encode(python_of(context)))
    try:
        return spark.read.format(_SOURCE).option("plan", token).load()
    finally:
        source.forget(token)


def prepare(spark: SparkSession) -> None:
    """Bring the door into a session that was started here; does not wait for the compiler."""
    if is_connect(spark) or _kept_shut(spark) is not None:
        return
    if kept_jar(_jar_path(spark)) is not None:
        why_closed(spark)
    else:
        threading.Thread(target=why_closed, args=(spark,), daemon=True).start()


def _kept_shut(spark: SparkSession) -> str | None:
    """Why it is not even tried: it was turned off, or this system is one that nobody has tried its
    workers on, which are forked and share memory."""
    value = os.environ.get(VARIABLE, "")
    if value.lower() in _OFF:
        return f"{VARIABLE} is {value}"
    setting = spark.conf.get(SETTING, None)
    if setting is not None and setting.lower() in _OFF:
        return f"{SETTING} is {setting}"
    if not hasattr(os, "fork"):
        return f"its workers are forked, which {sys.platform} does not do"
    if sys.platform == "linux" or setting is not None:
        return None
    return f"it has been tried on Linux alone, and this is {sys.platform}; {SETTING}=true opens it"


def _tried(spark: SparkSession) -> str | None:
    """Bring the door to the driver of a session; why that failed."""
    try:
        _attach(spark, _jar(spark))
    except ClosedError as closed:
        return str(closed)
    except Exception as failed:  # whatever a Spark forbids, the other way is open
        return f"Spark does not take it: {str(failed).strip() or type(failed).__name__}"
    return None


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
    loader.addURL(_url(jvm, jar))
    context._jsc.addJar(str(jar))
    source = getattr(jvm, _SOURCE)
    is_local = str(context.master).startswith("local[") or context.master == "local"
    source.introduce(python_of(context).encode(), is_local)
    if not source.isNameTaken():
        loader.addURL(_url(jvm, format_jar(jar)))


def _url(jvm: Any, path: Path) -> Any:
    return jvm.java.io.File(str(path)).toURI().toURL()


def python_of(context: Any) -> PythonCommand:
    """The Python of a session's workers."""
    return PythonCommand(context.pythonExec, dict(context.environment), context._python_includes)
