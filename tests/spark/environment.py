"""The environment of a process that a test starts: as a user's shell would have it."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "build" / "spark.jsa"
"""The classes of Spark as Java has them in memory; ``archive.py`` makes it."""

WITHOUT_ARCHIVE = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds on a busy machine; it halves the time of these tests."""

QUICK_START = WITHOUT_ARCHIVE + (
    f" -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else ""
)
"""The same with the archive, which halves what a start takes. Whether it fits is not said."""

NOTHING_COMPILED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Spark interprets its plans: compiling one takes longer than a few rows do. Some pages of the
documentation compile them as usual, and so do some of the random queries of ``test_pushed.py``."""

_FEW_TASKS = {"spark.sql.shuffle.partitions": "2"}
"""A shuffle of a few rows is not two hundred tasks."""


def python_path() -> str:
    """For a Python that Spark starts: it finds the tests, and its workers have all that our tasks
    load (``preload/sitecustomize.py``)."""
    first = [str(ROOT), str(ROOT / "tests" / "spark" / "preload")]
    more = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys(each for each in first + more if each))


def of_a_shell(**more: str) -> dict[str, str]:
    """Without what sessions of this worker have set, such as that the last one was of Connect,
    and without what a ``make`` that runs the tests has. What is ours stays."""
    own = {name for name in os.environ if "SPARK_" in name or "MAKE" in name}
    own = {name for name in own if not name.startswith("LANCEWOOD_")}
    return {name: os.environ[name] for name in os.environ.keys() - own} | more


def of_a_quick_shell(*, is_compiled: bool = False, **more: str) -> dict[str, str]:
    """The same, and a Spark that is started from there starts quickly, and so do its Pythons; it
    interprets its plans unless ``is_compiled``."""
    conf = _FEW_TASKS if is_compiled else _FEW_TASKS | NOTHING_COMPILED
    submitted = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    quick = {
        "SPARK_SUBMIT_OPTS": QUICK_START,
        "PYSPARK_SUBMIT_ARGS": f"{submitted} pyspark-shell",
    }
    return of_a_shell(PYTHONPATH=python_path(), **quick, **more)
