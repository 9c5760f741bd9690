"""A Spark session that works from pip alone: with a Java, with this Python, and quietly.

Knows which settings Lancewood advises. Knows nothing of tables, and does not stop a session:
that is its owner's to do.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lancewood.errors import UnsupportedError
from lancewood.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

ADVISED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Settings of every session; what the caller gives wins over them."""

ADVISED_LOCALLY = {
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings of a session on this machine alone: nobody else can reach its ports."""


def session(
    master: str = "local[*]",
    app_name: str = "lancewood",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A running session. ``conf`` holds settings by Spark's own names, dots and all.

    Sets JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON of this process, so that Spark
    starts the right ones, and silences its warning about new pandas. If the process has a session
    already, that one is returned, and only its SQL settings are changed. Raises UnsupportedError
    if pyspark or a Java is missing.
    """
    # mapInArrow asks for pandas, warns about 3.0 and newer, and hands over Arrow batches only.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise UnsupportedError(
            f"a Spark session needs pyspark, which does not import: {missing}. "
            "Run pip install 'lancewood[spark]'"
        ) from missing

    settings = advised_settings(master, conf or {})
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.update(python_for_spark(master, settings, os.environ))
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def advised_settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """The caller's settings, and ours where the caller says nothing."""
    return {**ADVISED, **(ADVISED_LOCALLY if _is_local(master) else {}), **conf}


def python_for_spark(
    master: str, settings: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """The variables that make Spark's workers run a Python that has Lancewood.

    That is this one, where Spark would take the first ``python3`` on PATH. The executors of a
    cluster may have theirs elsewhere, so there PYSPARK_PYTHON is left as it is found, and
    ``spark.pyspark.python`` wins everywhere.
    """
    found = None if _is_local(master) else environ.get("PYSPARK_PYTHON")
    workers = settings.get("spark.pyspark.python") or found or sys.executable
    driver = settings.get("spark.pyspark.driver.python") or sys.executable
    return {"PYSPARK_PYTHON": workers, "PYSPARK_DRIVER_PYTHON": driver}


def _is_local(master: str) -> bool:
    return master.startswith("local")
