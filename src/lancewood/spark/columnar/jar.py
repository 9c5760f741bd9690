"""The Java source as a jar: compiled by the Janino that every Spark carries, and kept.

A jar is kept in the cache of the user, readable by nobody else, under a name that says what it was
made of: these sources, this release of Spark, this Java. It is put there whole, by a rename. There
is no binary in the package, and no compiler of Java's is needed: that of a Spark that runs here, or
of one that is only installed here, in a Java that lives as long as it compiles.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lancewood.spark.java import cache_directory

_REGISTER = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_FORMAT = "io.lancewood.spark.Lance"
"""The class that Spark finds by its short name."""
_MARK = "io/lancewood/spark/mark"
"""What a jar was made of, for those who read it: see ``mark``."""
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_JANINO = "org.codehaus.janino"
_RESOURCES = "org.codehaus.commons.compiler.util.resource"


class ClosedError(Exception):
    """There is no door, for the reason that this says."""


@cache
def sources() -> Mapping[str, str]:
    """The Java files of this package, by their names."""
    found = files("lancewood.spark.columnar").joinpath("java").iterdir()
    return {each.name: each.read_text("utf-8") for each in sorted(found, key=lambda e: e.name)}


def jar_path(spark: str, java: str, environ: Mapping[str, str]) -> Path:
    """Where the jar for a release of Spark and a Java is, or would be."""
    return _folder(environ) / _name(spark, java)


def kept_for(spark: str, environ: Mapping[str, str]) -> Path | None:
    """A jar for a release of Spark, whatever Java made it: those that follow take it, too."""
    found = sorted(_folder(environ).glob(_name(spark, "*")))
    return next(filter(None, map(kept_jar, found)), None)


def _name(spark: str, java: str) -> str:
    return f"lancewood-spark-{spark}-java-{java}-{mark()}.jar"


def _folder(environ: Mapping[str, str]) -> Path:
    return cache_directory(environ) / "spark"


@cache
def mark() -> str:
    """A text that tells these sources from all others, and so what they say to a worker."""
    found = hashlib.sha256()
    for name, text in sources().items():
        found.update(f"{name}\0{text}\0".encode())
    return found.hexdigest()[:16]


def kept_jar(path: Path) -> Path | None:
    """The jar, if it is there and nobody else could have put it there."""
    try:
        found = path.stat()
    except OSError:
        return None
    is_ours = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return path if is_ours and stat.S_ISREG(found.st_mode) else None


def keep_jar(path: Path, classes: Mapping[str, bytes]) -> Path:
    """Put a jar of these classes there, or into a directory of this process if it cannot be."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _put(path, classes)
    except OSError:
        folder = tempfile.mkdtemp(prefix="lancewood-jar-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return _put(Path(folder, path.name), classes)


def _put(path: Path, classes: Mapping[str, bytes]) -> Path:
    handle, fresh = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as jar:
            told = {_REGISTER: f"{_FORMAT}\n".encode(), _MARK: mark().encode()}
            for name, content in sorted({**classes, **told}.items()):
                jar.writestr(zipfile.ZipInfo(name, _LONG_AGO), content, zipfile.ZIP_DEFLATED)
        os.replace(fresh, path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise
    return path


def installed_jars(spark: str, environ: Mapping[str, str]) -> Path | None:
    """Where the classes of a release of Spark are on this machine; None if they are not."""
    package = find_spec("pyspark")
    homes = [environ.get("SPARK_HOME"), *((package and package.submodule_search_locations) or ())]
    found = (Path(each, "jars") for each in homes if each)
    return next((each for each in found if any(each.glob(f"spark-core_*-{spark}.jar"))), None)


@contextmanager
def java_with(jars: Path, java: Path) -> Iterator[Any]:
    """A gateway to a Java of our own that has the classes of a Spark, and starts none."""
    from py4j.java_gateway import (  # type: ignore[import-untyped]
        GatewayParameters,
        JavaGateway,
    )

    command = [str(java), "-classpath", f"{jars}/*", "py4j.GatewayServer"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, "--die-on-broken-pipe", "--enable-auth", "0"],
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            port, token = (process.stdout.readline().strip() for _ in range(2))
            parameters = GatewayParameters(port=int(port), auth_token=token)
            gateway = JavaGateway(gateway_parameters=parameters)
            yield gateway
            gateway.close()
        finally:
            process.kill()


def compiled(gateway: Any) -> dict[str, bytes]:
    """The class files of the sources, by their paths, made by the Spark behind a gateway.

    Raises what the gateway raises: Java's exceptions, where there is no Janino or it refuses.
    """
    jvm = gateway.jvm
    resource = getattr(jvm, f"{_RESOURCES}.Resource")
    given = gateway.new_array(resource, len(sources()))
    for number, (name, text) in enumerate(sources().items()):
        given[number] = getattr(jvm, f"{_RESOURCES}.StringResource")(name, text)
    made = getattr(jvm, f"{_RESOURCES}.MapResourceCreator")()
    compiler = getattr(jvm, f"{_JANINO}.Compiler")()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler.setIClassLoader(getattr(jvm, f"{_JANINO}.ClassLoaderIClassLoader")(loader))
    finder = getattr(jvm, f"{_RESOURCES}.ResourceFinder")
    compiler.setClassFileFinder(finder.EMPTY_RESOURCE_FINDER)
    compiler.setClassFileCreator(made)
    compiler.compile(given)
    return {str(name): bytes(content) for name, content in made.getMap().items()}
