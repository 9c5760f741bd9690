"""A Spark session that works from pip alone: with a Java, with this Python, quietly, and keeping
secrets.

Knows which settings Lancewood advises, and what a client of Spark Connect may set. Knows nothing
of tables, and does not stop a session: that is its owner's to do.

Spark writes options of sources into plans and event logs, over Connect whole requests, and its
settings, too. It hides a value by a pattern for names, and for whole texts by one that finds what
is to be cut out. Spark tries a pattern for names on values as well, so ours has whole words only:
``/data/monkeys.lance`` is to be seen. Java understands these patterns as Python does.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from lancewood.errors import InvalidInputError, NotFoundError, UnsupportedError
from lancewood.spark.abilities import BOUNDED_BATCHES, CONNECT, release_here, require
from lancewood.spark.columnar import prepare
from lancewood.spark.java import find_java
from lancewood.spark.tasks import is_connect
from lancewood.spark.writing.work import ADVISED_BYTES, BYTES, ROWS
from lancewood.store.options import SECRET_WORDS
from lancewood.version import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JSON_OPTIONS = ("basestorageoptions", "manifeststore")
"""Options of ``format("lance")`` whose values may have secrets inside."""
_WORDS = rf"(?:{'|'.join((*SECRET_WORDS, *_JSON_OPTIONS))})s?(?![a-z-])"
NAMES = rf"(?i:(?<![a-z]){_WORDS})"
"""Finds the name of a secret, whatever stands before it: ``storage.account_key``."""
_SAID = r"""[\w.-]*[\\`"']{0,4}\s*(?:value:|[=:]|->)?\s*\\*"""
_QUOTED = r"""(?:"[^"\\]*(?:\\.[^"\\]*)*|'[^'\\]*(?:\\[^'][^'\\]*)*)"""
TEXTS = rf'(?i:(?<![a-z])(?!key: "){_WORDS}{_SAID}{_QUOTED})'
"""Finds such a name with its value, in the text of a request or of SQL: ``key: "account_key" value:
"…"``, ``account_key '…'``. What a request calls ``key`` is the name that follows."""
OF_SETTINGS = f"(?i:secret|password|token|access[.]?key)|{NAMES}"
"""For ``spark.redaction.regex``: what Spark hides anyway, and ours."""
_OF_SQL = {"spark.sql.redaction.options.regex": NAMES, "spark.sql.redaction.string.regex": TEXTS}


def hide_secrets(running: Any, given: Container[str]) -> None:
    """Have a session hide them besides what it hides already; a pattern that is ``given`` stays."""
    for name, pattern in _OF_SQL.items():
        found = running.conf.get(name, None)
        if name not in given and pattern not in (found or ""):
            running.conf.set(name, f"{found}|{pattern}" if found else pattern)


Setting: TypeAlias = str | int | float | bool

_LOGGING = Path(__file__).absolute().with_name("log4j2.properties")

ADVISED_SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.timeType.enabled": "true",
    ROWS: "50000",
    BYTES: ADVISED_BYTES,
}
"""Settings of every session, over Connect too; what the caller gives wins over them. Batches on
their way to Python have many rows if those are narrow, and few if they are wide; a write knows
its rows and does better."""

_BATCHES = (ROWS, BYTES)

_ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Spark asks whether a value is null and stays within its vectors: Arrow need not look again."""

ADVISED = {
    **ADVISED_SQL,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.executor.defaultJavaOptions": _ARROW,
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
    "spark.redaction.regex": OF_SETTINGS,
}
"""Settings of every session that is started here. Python workers keep freed memory for the next
batch: fetching it anew page by page takes a third of a scan of wide rows."""
_MISSED = ("spark.executor.", "spark.executorEnv.", "spark.redaction.")
"""Settings that somebody else's session is told to lack; the others of ours are taste."""

ADVISED_LOCALLY = {
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING.as_uri()} {_ARROW}",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Settings of a session on this machine alone: nobody else can reach its ports."""

CONNECT_PORT = 15002
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_ANSWER_SECONDS = 10
_SQL = "spark.sql."
_MASTERS = ("local", "spark://", "k8s://", "sc://")
_OURS = {"spark.master": "master", "spark.remote": "master", "spark.app.name": "app_name"}
"""Settings that have arguments of their own."""


def session(
    master: str | None = None,
    *,
    app_name: str = "lancewood",
    conf: Mapping[str, Setting] | None = None,
    **settings: Setting,
) -> SparkSession:
    """The session of this process, whoever made it; a new one where none runs.

    ``master`` is what Spark calls so (``local[4]``, ``spark://host:7077``, ``yarn``), or the
    address of a Spark Connect server (``sc://host:15002``). None is any that runs, and else
    ``local[*]``. Settings go by Spark's own names, in ``conf`` or as keywords:
    ``session(**{"spark.executor.memory": "4g"})``.

    Before Spark starts, sets JAVA_HOME, PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON of this process,
    so that it starts the right ones, and silences its warning about new pandas. Of a session that
    runs already, only SQL settings are changed, and another that it was not started with is
    refused; a warning names what a session lacks that was not made here. A server of Spark Connect
    has its Java and its Pythons: there nothing is set but the session. ``app_name`` is for a Spark
    that is started here. Every session hides values of options that are secrets by their names.

    Raises InvalidInputError for a name or value that is no setting, for a setting that a client
    of Connect or a running session cannot change, and where a session runs on another master than
    the one that is named (``stop()`` it first); NotFoundError if no server of Connect listens
    there; UnsupportedError if pyspark, a Java or what Connect needs is missing, and for a running
    session whose Python on this machine has no Lancewood.
    """
    if master is not None:
        check_master(master)
    given = checked_settings(conf or {}, settings)
    # mapInArrow asks for pandas, warns about 3.0 and newer, and hands over Arrow batches only.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise UnsupportedError(
            f"a Spark session needs pyspark, which does not import: {missing}. "
            f"Run {how_to_install('spark')}"
        ) from missing

    running: SparkSession | None = _running(SparkSession)
    if running is not None:
        _check_master_of(running, master)
        _set_up(running, given)
    elif master is not None and is_connect_address(master):
        running = _connect(SparkSession.builder.remote(master), master)
        _set_over_connect(running, master, given)
    else:
        running = _start(SparkSession.builder, master or "local[*]", app_name, given)
        # The process may have a context without a session.
        _check_master_of(running, master)
    hide_secrets(running, given)
    prepare(running)
    return running


def _start(builder: Any, master: str, app_name: str, given: Mapping[str, str]) -> SparkSession:
    """A new session; raises InvalidInputError with the reason of a Spark that does not start one,
    UnsupportedError where its Java does not start."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import IllegalArgumentException, PySparkRuntimeError

    # A session over Connect that was stopped leaves it, and every later one would be such.
    os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)
    wanted = advised_settings(master, given)
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.update(python_for_spark(master, wanted, os.environ))
    builder = builder.master(master).appName(app_name)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # The Java is started by a fork that does nothing with lance before it becomes Java.
        warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
        try:
            running: SparkSession = builder.getOrCreate()
        except (Py4JJavaError, IllegalArgumentException) as refused:
            raise InvalidInputError(
                f"Spark starts no session on {master!r}: {reason_of(str(refused))}", master=master
            ) from refused
        except PySparkRuntimeError as ended:
            raise UnsupportedError(
                f"Spark starts no session on {master!r}: {ended}. What Java printed says why, "
                "often a setting that it does not take; 'lw spark doctor' looks at the machine"
            ) from ended
    return running


def _set_up(running: Any, given: Mapping[str, str]) -> None:
    """Make a session that runs already as good as one of ours, and say what that cannot change."""
    if is_connect(running):
        _set_over_connect(
            running, running.client._builder.endpoint, {**_fitting(ADVISED_SQL), **given}
        )
        return
    check_python(running.sparkContext.master, running.sparkContext.pythonExec)
    for name, value in changed_settings(running, given).items():
        running.conf.set(name, value)
    started = running.sparkContext.getConf()
    lacking = [each for each in ADVISED if each.startswith(_MISSED) and started.get(each) is None]
    if lacking:
        warnings.warn(
            f"this Spark session was started without {', '.join(lacking)}: it works, but is slower "
            "or shows more in its event log than one of lancewood.spark.session(); docs/spark.md, "
            "Sessions, says what each is for",
            stacklevel=3,
        )


def check_python(master: str, python: str) -> None:
    """Raise UnsupportedError if workers on this machine run a Python that lacks Lancewood."""
    found = shutil.which(python) or python
    if not _is_local(master) or os.path.dirname(found) == os.path.dirname(sys.executable):
        return
    asked = [found, "-c", "import lancewood.spark, pandas, pyarrow"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=_ANSWER_SECONDS * 6)
        lines = answer.stderr.strip().splitlines()
        why = (lines or ["it failed"])[-1] if answer.returncode else None
    except (OSError, subprocess.SubprocessError) as cause:
        why = str(cause)
    if why is not None:
        raise UnsupportedError(
            f"the Spark session of this process runs its workers with {found}, which cannot do "
            f"their work ({why}): stop() it, set PYSPARK_PYTHON to {sys.executable}, and start it "
            "again",
            python=found,
        )


def check_master(master: object) -> None:
    """Raise InvalidInputError for what Spark would not even look at: its Java would just end."""
    if isinstance(master, str) and (master == "yarn" or master.startswith(_MASTERS)):
        return
    raise InvalidInputError(
        "a master is 'yarn' or a text that begins with 'local', 'spark://', 'k8s://' or 'sc://', "
        f"such as 'local[4]'; got {without_token(str(master))!r}"
    )


def reason_of(text: str) -> str:
    """What a Java exception says, without the class and the stack."""
    lines = [each for each in text.splitlines() if not each.startswith("\tat ")]
    first = next((each[2:] for each in lines if each.startswith(": ")), lines[0] if lines else "")
    kind, colon, rest = first.partition(": ")
    return rest if colon and " " not in kind else first


def checked_settings(
    conf: Mapping[str, Setting], settings: Mapping[str, Setting]
) -> dict[str, str]:
    """Both mappings as one, values as Spark spells them. Raises InvalidInputError for no
    setting."""
    if not isinstance(conf, Mapping):
        raise InvalidInputError(
            f"conf takes a mapping from names of settings to values, got a {type(conf).__name__}"
        )
    found: dict[str, str] = {}
    for name, value in [*conf.items(), *settings.items()]:
        if not isinstance(name, str) or not name.startswith("spark."):
            raise InvalidInputError(
                f"{name!r} is no setting of Spark's: names begin with 'spark.' and keep their "
                "dots, as in session(**{'spark.executor.memory': '4g'})",
                setting=name,
            )
        if name in _OURS:
            raise InvalidInputError(f"{name} is said by {_OURS[name]}=", setting=name)
        # A value may be a secret: it is not repeated.
        if not isinstance(value, str | int | float):
            raise InvalidInputError(
                f"the value of {name} is a {type(value).__name__}: give a text, a number or a bool",
                setting=name,
            )
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if found.setdefault(name, text) != text:
            raise InvalidInputError(
                f"{name} is given twice, with two values: leave one of them out", setting=name
            )
    return found


def _fitting(advised: Mapping[str, str]) -> dict[str, str]:
    """What this Spark can keep to: many rows in a batch only where bytes are bounded."""
    is_bounded = BOUNDED_BATCHES.is_in(release_here())
    return {name: each for name, each in advised.items() if is_bounded or name not in _BATCHES}


def advised_settings(master: str, given: Mapping[str, str]) -> dict[str, str]:
    """The caller's settings, and ours where the caller says nothing."""
    return {**_fitting(ADVISED), **(ADVISED_LOCALLY if _is_local(master) else {}), **given}


def changed_settings(running: Any, given: Mapping[str, str]) -> dict[str, str]:
    """What can be set on a session that runs already: SQL settings, the caller's and ours.

    Raises InvalidInputError for another that it was not started with: Spark would show the new
    value and go on with the old one.
    """
    started = running.sparkContext.getConf()
    changed = _fitting(ADVISED_SQL)
    for name, value in given.items():
        if _is_changeable(running, name, value):
            changed[name] = value
        elif (there := started.get(name)) != value and not (there or "").endswith(f" {value}"):
            # Spark may put options of its own before a value.
            raise InvalidInputError(
                f"{name} cannot be changed while a session runs, and the one of this process was "
                "started with another value, or none: leave it out, or stop() the session first",
                setting=name,
            )
    return changed


def _is_changeable(running: Any, name: str, value: str) -> bool:
    from pyspark.errors import PySparkException

    if running.conf.isModifiable(name):
        return True
    if not name.startswith(_SQL):
        return False
    try:
        # Spark knows neither the settings of catalogs nor those of other packages, and takes them.
        running.conf.set(name, value)
    except PySparkException:
        return False
    return True


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


def is_connect_address(master: str) -> bool:
    """Whether a master is a server of Spark Connect."""
    return master.startswith("sc://")


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _running(sessions: Any) -> Any:
    """The session of this process, None if it has none; a thread may have none that is active."""
    found = sessions.getActiveSession() or sessions._instantiatedSession
    if found is None:
        return None
    if is_connect(found):
        return None if found.is_stopped else found
    return None if found.sparkContext._jsc is None else found


def _check_master_of(running: Any, master: str | None) -> None:
    """Raise InvalidInputError if a master is named, and the session runs on another one."""
    if master is None:
        return
    if is_connect(running):
        where, asked = running.client._builder.endpoint, connect_endpoint(master)
    else:
        where, asked = running.sparkContext.master, master
    if where != asked:
        raise InvalidInputError(
            f"a session on {without_token(master)} was asked for, but this process has one on "
            f"{where} already: use that one (session() without a master), or stop() it first",
            running=where,
        )


def connect_endpoint(master: str) -> str | None:
    """Host and port of a server of Spark Connect; None if the master is not one."""
    if not is_connect_address(master):
        return None
    location = urlsplit(master)
    try:
        return f"{location.hostname or ''}:{location.port or CONNECT_PORT}"
    except ValueError as cause:
        raise InvalidInputError(
            f"{without_token(master)!r} is no address: write sc://host or sc://host:port"
        ) from cause


def _connect(builder: Any, master: str) -> SparkSession:
    from pyspark.errors import PySparkImportError, PySparkValueError

    require(f"a session on {without_token(master)}", CONNECT, release_here())
    _check_that_someone_listens(str(connect_endpoint(master)))
    for name, value in _fitting(ADVISED_SQL).items():
        builder = builder.config(name, value)
    try:
        running: SparkSession = builder.getOrCreate()
    except PySparkValueError:
        # Its text repeats what stands after the host, and that may be a token.
        raise InvalidInputError(
            f"{without_token(master)!r} is no address: after sc://host:port only /;key=value;… may "
            "come"
        ) from None
    except PySparkImportError as missing:
        raise UnsupportedError(
            f"Spark Connect needs more packages: {missing}. Run {how_to_install('connect')}"
        ) from missing
    return running


def _set_over_connect(running: Any, server: str, given: Mapping[str, str]) -> None:
    from pyspark.errors import PySparkException

    for name, value in given.items():
        try:
            running.conf.set(name, value)
        except PySparkException as refused:
            raise InvalidInputError(
                f"{name} cannot be set by a client of {without_token(server)}: "
                "set it where that server is started",
                setting=name,
            ) from refused


def _check_that_someone_listens(endpoint: str) -> None:
    """Raise NotFoundError where nobody does: the client would go on trying for ten minutes."""
    if any(os.environ.get(name) for name in _PROXIES):
        return
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except (ConnectionRefusedError, socket.gaierror) as cause:
        raise NotFoundError(
            f"no Spark Connect server at {endpoint}: {cause.strerror}. Check the address, or "
            "start one there (sbin/start-connect-server.sh)",
            endpoint=endpoint,
        ) from cause
    except OSError:
        # A slow network is the client's to deal with.
        return


def without_token(address: str) -> str:
    """The address without what stands after the host: a token may."""
    host, found, _ = address.partition(";")
    return host.removesuffix("/") if found else address
