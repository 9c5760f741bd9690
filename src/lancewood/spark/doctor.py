"""What Spark needs on this machine: what is there, what is missing, and what to do about it.

Looks at the packages of this Python, without importing them, at installed Javas and at environment
variables. It starts nothing but ``java -version``, and writes nothing but the home of a packaged
Java into the cache. Only the variables that it is given are read.

With a trial it also starts a session. That runs in a process of its own (``trial_run``), which is
asked and answers in JSON, so that neither a session nor the environment of this process is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lancewood.errors import LancewoodError, UnsupportedError
from lancewood.spark.abilities import CONNECT, MISSED, NEWEST, OLDEST, SOURCES, parse_release, shown
from lancewood.spark.java import OLDEST_JAVA, WAY_OUT, look_for_java
from lancewood.spark.session import is_connect_address, without_token
from lancewood.store.checkup import CheckStatus, StoreCheck
from lancewood.version import RELEASE, how_to_install

_PATIENCE = 300
_LAST_WORDS = 600
_LEAST_SECRET = 4
"""Shorter texts occur in many words and are no tokens."""
_PIP = f"run {how_to_install('spark')}"
_PIP_CONNECT = f"run {how_to_install('connect')}"
_CONNECT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")


def examine_spark(environ: Mapping[str, str], trial: Trial | None = None) -> Iterator[StoreCheck]:
    """All checks, each as soon as it is done.

    With ``trial`` a session is tried at the end, unless something that it needs is missing.
    """
    failed = False
    needs_java = not (is_connect_only() if trial is None else is_connect_address(trial.master))
    for check in _found_here(environ, needs_java):
        failed = failed or check.status is CheckStatus.FAIL
        yield check
    if trial is None:
        return
    if failed:
        yield StoreCheck("trial", CheckStatus.SKIP, "not begun: something that it needs is missing")
    else:
        yield from _tried(trial, environ)


def _found_here(environ: Mapping[str, str], needs_java: bool) -> Iterator[StoreCheck]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield StoreCheck("python", CheckStatus.OK, f"{python} ({sys.executable})")
    yield StoreCheck("lancewood", CheckStatus.OK, RELEASE)
    yield from _pyspark()
    yield from _java(environ, needs_java)
    yield _package("pandas", (2, 2), "mapInArrow refuses to run without it")
    yield _package("pyarrow", (18,), "rows travel as Arrow batches")
    yield _package("pylance", (14, 0, 2), "it reads and writes data files")
    release = parse_release(installed_pyspark() or shown(NEWEST))
    if SOURCES.is_in(release):
        yield _format()
    if CONNECT.is_in(release):
        yield _connect()
    yield from _variables(environ)


def _pyspark() -> Iterator[StoreCheck]:
    found = installed_pyspark()
    if found is None:
        yield StoreCheck("pyspark", CheckStatus.FAIL, "not installed", _PIP)
        return
    release = parse_release(found)
    if release < OLDEST:
        advice = f"Lancewood needs {shown(OLDEST)} or newer: {_PIP} --upgrade"
        yield StoreCheck("pyspark", CheckStatus.FAIL, found, advice)
        return
    if release[:1] > NEWEST[:1]:
        advice = f"Lancewood has been tried with {shown(OLDEST)} to {shown(NEWEST)}"
        yield StoreCheck("pyspark", CheckStatus.WARN, found, advice)
    else:
        yield StoreCheck("pyspark", CheckStatus.OK, found)
    for each in MISSED:
        if not each.is_in(release):
            figure = f"Spark has this from {shown(each.since)} on"
            yield StoreCheck(each.what, CheckStatus.SKIP, figure, each.without)


def _java(environ: Mapping[str, str], is_needed: bool) -> Iterator[StoreCheck]:
    passed_over: list[str] = []
    java = look_for_java(environ, passed_over)
    for each in passed_over:
        yield StoreCheck("java", CheckStatus.SKIP, f"passed over: {each}")
    if java is None and not is_needed:
        yield StoreCheck("java", CheckStatus.SKIP, "none, and a client of Spark Connect needs none")
    elif java is None:
        figure = "none in JAVA_HOME or on PATH, and no packaged one"
        advice = f"Spark needs Java {OLDEST_JAVA} or newer. {WAY_OUT}"
        yield StoreCheck("java", CheckStatus.FAIL, figure, advice)
    else:
        whose = "the packaged one" if java.is_packaged else "the machine's own"
        yield StoreCheck("java", CheckStatus.OK, f"{java.version}, {whose} ({java.home})")


def _package(name: str, oldest: tuple[int, ...], why: str) -> StoreCheck:
    found = installed(name)
    if found is None:
        return StoreCheck(name, CheckStatus.FAIL, "not installed", f"{why}: {_PIP}")
    if parse_release(found) < oldest:
        wanted = ".".join(map(str, oldest))
        return StoreCheck(
            name, CheckStatus.FAIL, found, f"{wanted} or newer is needed: {_PIP} --upgrade"
        )
    return StoreCheck(name, CheckStatus.OK, found)


def _format() -> StoreCheck:
    if find_spec("pyspark_lance") is None:
        advice = "install lancewood itself with pip, here and on the executors"
        return StoreCheck(SOURCES.what, CheckStatus.FAIL, "Spark will not find it", advice)
    return StoreCheck(SOURCES.what, CheckStatus.OK, "Spark finds it by itself")


def _connect() -> StoreCheck:
    missing = [each for each in _CONNECT if installed(each) is None]
    if missing:
        figure = f"not installed: {', '.join(missing)}"
        return StoreCheck(
            "connect", CheckStatus.SKIP, figure, f"for addresses with sc://, {_PIP_CONNECT}"
        )
    return StoreCheck("connect", CheckStatus.OK, f"grpcio {installed('grpcio')}")


def _variables(environ: Mapping[str, str]) -> Iterator[StoreCheck]:
    workers = environ.get("PYSPARK_PYTHON")
    if not workers:
        yield StoreCheck(
            "PYSPARK_PYTHON", CheckStatus.OK, "not set; session() sets it to this Python"
        )
    elif shutil.which(workers, path=environ.get("PATH", "")) is None:
        advice = "it must be there on the executors; a local session uses this Python instead"
        yield StoreCheck(
            "PYSPARK_PYTHON", CheckStatus.WARN, f"{workers} is not on this machine", advice
        )
    else:
        yield StoreCheck("PYSPARK_PYTHON", CheckStatus.OK, f"{workers}, for executors of a cluster")
    home = environ.get("SPARK_HOME")
    if home and _spark_of(Path(home)) not in (None, installed_pyspark()):
        figure = f"{home} is Spark {_spark_of(Path(home))}, and pyspark {installed_pyspark()}"
        advice = "unset SPARK_HOME, or install the pyspark of that Spark"
        yield StoreCheck("SPARK_HOME", CheckStatus.FAIL, figure, advice)
    for name in ("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED"):
        if environ.get(name):
            advice = f"Spark takes it for an order that comes before yours: unset {name}"
            yield StoreCheck(name, CheckStatus.WARN, "is set", advice)


def _spark_of(home: Path) -> str | None:
    """The version of the Spark in a directory, from the name of its core jar."""
    found = sorted((home / "jars").glob("spark-core_*.jar"))
    return found[0].stem.rpartition("-")[2] if found else None


def installed(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def installed_pyspark() -> str | None:
    """The version of pyspark, or of its Spark Connect client."""
    return installed("pyspark") or installed("pyspark-client")


def is_connect_only() -> bool:
    """Whether only the Spark Connect client is installed, which needs no Java."""
    return installed("pyspark") is None and installed("pyspark-client") is not None


def _tried(trial: Trial, environ: Mapping[str, str]) -> Iterator[StoreCheck]:
    try:
        report = run_trial(trial, environ)
    except LancewoodError as error:
        yield StoreCheck("trial", CheckStatus.FAIL, "no session, or its tasks failed", str(error))
        return
    yield StoreCheck(
        "session", CheckStatus.OK, f"Spark {report['spark']}, {report['seconds']} s to start"
    )
    yield _columnar(report["closed"])
    for seen in report["workers"]:
        other = {name for name, mine in report["driver"].items() if seen.get(name) != mine}
        figure = ", ".join(f"{name} {seen.get(name)}" for name in report["driver"])
        figure += f" ({seen['executable']} on {seen['host']})"
        if other:
            advice = f"the driver has another {', '.join(sorted(other))}: install the same there"
            yield StoreCheck("worker", CheckStatus.FAIL, figure, advice)
        else:
            yield StoreCheck("worker", CheckStatus.OK, figure)
    if report["table"] is None:
        advice = "name a place that driver and executors reach: --place URI"
        yield StoreCheck("table", CheckStatus.SKIP, "nothing was written on a cluster", advice)
    else:
        yield StoreCheck("table", CheckStatus.OK, report["table"])


def _columnar(closed: str | None) -> StoreCheck:
    if closed is None:
        figure = "open: columns, conditions and counts are pushed down"
        return StoreCheck("columnar door", CheckStatus.OK, figure)
    advice = "reads go through Python and Arrow, with the same rows; docs/spark.md, Two doors"
    return StoreCheck("columnar door", CheckStatus.WARN, f"closed: {closed}", advice)


@dataclass(frozen=True, slots=True)
class Trial:
    """What to try: a master, its settings, and a place for a temporary table.

    Without a place, a local session uses a temporary directory and a cluster writes nothing.
    """

    master: str = "local[2]"
    location: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def run_trial(trial: Trial, environ: Mapping[str, str]) -> dict[str, Any]:
    """The report of the session: versions of driver and workers, and the result for the table.

    Raises UnsupportedError with the reason if it failed or took more than five minutes.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lancewood.spark.trial_run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        answer, words = process.communicate(json.dumps(asdict(trial)), timeout=_PATIENCE)
    except subprocess.TimeoutExpired as late:
        raise UnsupportedError(
            f"the session on {without_token(trial.master)} did not answer within {_PATIENCE} s: "
            "are there free executors, and can they reach this machine?"
        ) from late
    finally:
        if process.poll() is None:  # and so does the Java that it started
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    lines = answer.strip().splitlines()
    report = _report_in(lines[-1]) if process.returncode == 0 and lines else None
    if report is None:
        report = {"error": words or answer}
    if "error" in report:
        why = _without_secret(report["error"], trial.master).strip()
        why = why if len(why) <= _LAST_WORDS else f"… {why[-_LAST_WORDS:]}"
        raise UnsupportedError(f"trial on {without_token(trial.master)}: {why}")
    return report


def _report_in(line: str) -> dict[str, Any] | None:
    """The report in a line of output; None if the line is something else."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _without_secret(words: str, master: str) -> str:
    """The words without anything that follows the host in the master."""
    secret = master.removeprefix(without_token(master)).strip("/;")
    for each in (secret, *(part.partition("=")[2] for part in secret.split(";"))):
        if len(each) >= _LEAST_SECRET:
            words = words.replace(each, "…")
    return words
