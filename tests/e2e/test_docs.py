"""The documentation is true: its snippets and commands print what the page says, its links lead
somewhere, and what it promises to be tested names a test that exists.

A ``python`` block is followed by a ``text`` block with what it prints. In a ``console`` block the
lines after a ``$ lw …`` command are what it prints; ``…`` alone stands for any text. A ``toml`` or
``python`` block that begins with the name of a file, as a comment, becomes that file.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lancewood.cli.main import app
from lancewood.expr.syntax import ALLOWED

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_WITH_SPARK = (
    *("spark.md", "pipeline.md", "items.md", "sql.md", "diff.md", "from-delta.md", "search.md"),
    "scheduling.md",
)
WITH_SPARK = [ROOT / "README.md", *(ROOT / "docs" / each for each in _WITH_SPARK)]
"""Pages that start a session, for which they get a process of their own: tests/spark runs them."""
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#:]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FUNCTION = re.compile(r"^ *def (\w+)\(", re.MULTILINE)
FILE = re.compile(r"# (\w+\.(?:toml|py))\n")
QUOTED = re.compile(r'\'[^\']*\'|"[^"$`\\]*"')
SHELL = re.compile(r"[$`*?\\();<>|&]|(?:^|\s)~")
RUN_ELSEWHERE = re.compile(r"make |pip ")
ANYTHING = "…"


@pytest.mark.parametrize(
    "page", [each for each in PAGES if each not in WITH_SPARK], ids=lambda each: each.name
)
def test_the_snippets_of_a_page_print_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page)


def run_page(page: Path) -> None:
    """Run what stands on a page, in the directory of this process."""
    space: dict[str, object] = {"__name__": "__docs__"}
    blocks = FENCE.findall(page.read_text())
    for (kind, text), (after, expected) in zip(blocks, [*blocks[1:], ("", "")], strict=False):
        if kind in ("python", "toml") and (named := FILE.match(text)):
            Path(named[1]).write_text(text)
        elif kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(page), "exec"), space)
            found = printed.getvalue()
            assert matches(expected if after == "text" else "", found), f"{text}\n{found}"
        elif kind == "console":
            for command, promised in COMMAND.findall(text):
                if not RUN_ELSEWHERE.match(command):
                    found = run(command)
                    assert matches(promised, found), f"$ {command}\n{found}"


def run(command: str) -> str:
    """What a shell prints for a command, with ``lw`` and ``python`` of this environment."""
    if command.startswith("git ") and shutil.which("git") is None:
        pytest.skip("this page calls stock git, and there is none on this machine")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    looks = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    if (arguments := alone(command)) is not None:
        with sessions_end():
            return CliRunner(env=looks).invoke(app, arguments, prog_name="lw").output
    done = subprocess.run(
        command,
        shell=True,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path, **looks},
        timeout=600,
        check=False,
    )
    return done.stdout


@contextlib.contextmanager
def sessions_end() -> Iterator[None]:
    """A session that a command has started ends with it, as its process would; Java stays."""
    before = running_session()
    yield
    after = running_session()
    if after is not None and after is not before:
        after.stop()


def running_session() -> Any:
    """That of this process, if Spark has been loaded at all."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def alone(command: str) -> list[str] | None:
    """The arguments of ``lw`` where nothing else of a shell is asked for.

    Such a command needs no process, whose start takes longer than what it does; but the doctor
    looks at a new Java.
    """
    line = command.replace("\\\n", " ")
    shell_does_more = SHELL.search(QUOTED.sub("", line)) is not None
    program, *arguments = shlex.split(line)
    if program != "lw" or shell_does_more or arguments[:1] == ["spark"]:
        return None
    return arguments


def matches(promised: str, found: str) -> bool:
    """Whether a text is the promised one, spaces at the end of lines aside."""
    pattern = ".*".join(map(re.escape, _bare(promised).split(ANYTHING)))
    return re.fullmatch(pattern, _bare(found), re.DOTALL) is not None


def _bare(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_a_command_that_prints_something_else_is_noticed() -> None:
    assert run("lw no-such-command").strip()
    assert alone("lw table head t -w \"s='x' OR a > 1\" \\\n  --json") == [
        *("table", "head", "t", "-w", "s='x' OR a > 1", "--json")
    ]
    assert alone("lw -C zoo reset HEAD~1 'x; y'") == ["-C", "zoo", "reset", "HEAD~1", "x; y"]
    for each in ("lw log | cat", "lw a>b", "lw a && lw b", "cat x", "lw a $HOME", "lw a *"):
        assert alone(each) is None, each
    for each in ('lw a "$HOME"', "lw a ~/b", 'lw a "`b`"', "lw a b;c", "lw a (b)"):
        assert alone(each) is None, each
    assert alone("lw run x.toml --run-id 1") == ["run", "x.toml", "--run-id", "1"]
    for each in ("lw spark doctor", "lw run x.toml --json | cat"):
        assert alone(each) is None, each
    assert matches("a …c  \nd\n", "a b c\nd")
    assert not matches("a … c\n", "a b d\n")
    assert COMMAND.findall("$ lw a \\\n  b\nc\n$ lw d\n") == [("lw a \\\n  b", "c\n"), ("lw d", "")]


@pytest.mark.parametrize("page", PAGES, ids=lambda each: each.name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_file_that_the_recipes_name_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    recipes = text.partition("\n## Recipes\n")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:src|tests|docs)/[^`]+)`", recipes)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_make_target_of_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    named = {each for page in pages for each in re.findall(r"make ([a-z]+)", page.read_text())}
    spoken = set(re.findall(r"[`$] ?make ([a-z]+)", "".join(page.read_text() for page in pages)))
    assert {"demo", "test", "help"} <= named
    assert spoken <= targets


def test_the_pages_name_no_registry_and_the_lock_file_no_address() -> None:
    assert "://" not in (ROOT / "requirements.lock").read_text()
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert all(re.match(r"[\w.-]+==[\w.]+", line) for line in lines if line)


def test_every_function_that_is_allowed_is_on_its_page() -> None:
    page = (ROOT / "docs" / "where.md").read_text()
    names = {each for each in ALLOWED if re.fullmatch(r"[a-z_0-9]+", each)}
    assert names - {"__postfix"} <= set(re.findall(r"`([a-z_0-9]+)`", page))


COMPATIBILITY = ROOT / "docs" / "compatibility.md"


def test_every_tick_of_the_compatibility_page_names_a_test_that_exists() -> None:
    rows = [line for line in COMPATIBILITY.read_text().splitlines() if line.startswith("|")]
    ticked = [line for line in rows if "✓" in line]
    assert len(ticked) > 50
    for line in ticked:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", line)
        assert named, f"no test is named: {line}"
        for file, name in named:
            assert name in _tests_of(ROOT / file), f"{file} has no {name}"


def test_every_line_of_the_conformance_checklist_has_a_test_of_its_number() -> None:
    page = (ROOT / "docs" / "conformance.md").read_text()
    lines = set(map(int, re.findall(r"^\| (\d+) \|", page, re.MULTILINE)))
    assert lines >= set(range(1, 66))
    names = [name for file in (ROOT / "tests").rglob("test_*.py") for name in _tests_of(file)]
    found = {int(each) for name in names for each in re.findall(r"^test_line_(\d+)_", name)}
    assert lines - found == {48}, "line 48 is a whole file"


@cache
def _tests_of(path: Path) -> frozenset[str]:
    return frozenset(FUNCTION.findall(path.read_text()))
