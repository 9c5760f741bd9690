"""Names, values and messages that would act on a terminal: every command prints them spelled out.

The commands are those that there are: a new one is tried the same way.
"""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pytest
from tests.interop.git_judge import git

import lancewood as lw
from lancewood.cli.failing import ExitCode
from lancewood.cli.groups import load_command
from lancewood.cli.main import RootGroup
from lancewood.cli.output import Output, shown_safely, visible
from lancewood.cli.tables import TableOptions

Lw = Callable[..., Any]
ESC, CSI, TURN, MARK, BREAK = "\x1b[31m", "\x9b31m", "\u202e", "\u2067", "\u2028"
EVIL = f"a{ESC}b{CSI}c{TURN}d{MARK}e{BREAK}f\x7fg\u200fh"
QUIET = f"a{CSI}b{TURN}c{MARK}d{BREAK}e"
"""What git takes in the name of a branch."""
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
NEEDS_SPARK = {("sql",), ("run",), ("spark", "doctor")}


def commands(group: Any = RootGroup, path: tuple[str, ...] = ()) -> Iterator[Any]:
    """Every command that does something, with its path."""
    for name, entry in group.entries.items():
        found = load_command(name, entry.function)
        if hasattr(found, "entries"):
            yield from commands(found, (*path, name))
        else:
            assert not hasattr(found, "commands"), "a group that is not walked"
            yield pytest.param((*path, name), found, id=" ".join((*path, name)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that says such things wherever it can."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LANCEWOOD_FSYNC", "0")
        patch.setenv("GIT_AUTHOR_NAME", f"Eve {QUIET}{ESC}")
        patch.setenv("GIT_AUTHOR_EMAIL", "eve@example.org")
        repo = lw.Repository.init(tmp_path_factory.mktemp("made") / "repo")
        rows = pa.table({"id": [1, 2], EVIL: [EVIL, None]}, metadata={EVIL: EVIL})
        with repo.transaction("main", EVIL) as changes:
            changes.create_table("evil", rows)
        table = lw.open(repo.path / "tables/evil.lance").set_config({EVIL: EVIL})
        table.append(rows, message=EVIL)
        repo.commit(f"second {EVIL}")
        repo.snapshot({f"notes/{QUIET}.txt": EVIL.encode()}, f"files {EVIL}")
        git(repo.path, "branch", QUIET, "main")
        git(repo.path, "tag", QUIET, "main")
    return repo.path


@pytest.fixture
def location(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy of it."""
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    shutil.copytree(made, tmp_path / "repo")
    monkeypatch.chdir(tmp_path / "repo")


def arguments(command: Any, text: str) -> list[str]:
    """Enough to run it: the text for whatever it asks, and nobody is asked."""
    found: list[str] = []
    for each in command.params:
        if each.param_type_name == "argument" and (each.required or each.nargs == -1):
            found += [text] * max(each.nargs, 1)
        elif each.required:
            found += [each.opts[0], text]
        elif "--yes" in each.opts or "--dry-run" in each.opts:
            found += [each.opts[0]]
    return found


@pytest.mark.sliced(2)
@pytest.mark.usefixtures("location")
@pytest.mark.parametrize(("path", "command"), [*commands()])
def test_no_command_prints_what_acts_on_a_terminal(
    lw_run: Lw, path: tuple[str, ...], command: Any
) -> None:
    texts = [EVIL] if path in NEEDS_SPARK else [EVIL, QUIET, "tables/evil.lance"]
    for text in texts:
        given = [*path, *arguments(command, text)]
        for args in (given, [*given, "--json"]):
            ran = lw_run(*args)
            assert not BAD.search(ran.out), args
            assert not BAD.search(ran.err), args


LOOKING = [
    *(f"table {each} tables/evil.lance" for each in ("cat", "head", "schema", "info", "config")),
    *(f"table {each} tables/evil.lance" for each in ("versions", "files", "branch", "tag")),
    "table changes tables/evil.lance --since 1",
    "table diff tables/evil.lance 1",
    *("log", "log --oneline", "log --graph", "reflog", "show", "diff HEAD~2", "status", "tables"),
    *("branch", "tag", "gc --dry-run"),
]


@pytest.mark.usefixtures("location")
@pytest.mark.parametrize("line", LOOKING)
def test_what_is_looked_at_is_spelled_out(lw_ok: Lw, line: str) -> None:
    ran = lw_ok(*line.split())
    assert ran.out
    assert not BAD.search(ran.out + ran.err)


@pytest.mark.usefixtures("location")
@pytest.mark.parametrize("line", ["table cat", "table head"])
def test_texts_are_there_and_json_means_the_same(lw_ok: Lw, line: str) -> None:
    spelled = "a\\x1b[31mb\\u009b31mc\\u202ed\\u2067e\\u2028f\\u007fg\\u200fh"
    assert spelled in lw_ok(*line.split(), "tables/evil.lance").out
    told = lw_ok(*line.split(), "tables/evil.lance", "--json")
    assert any(EVIL in [*each, *each.values()] for each in told.lines)


def test_a_file_of_a_commit_is_raw_in_a_pipe_and_spelled_out_on_a_terminal() -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    for kind, expected in ((io.TextIOWrapper, EVIL), (Terminal, visible(EVIL))):
        seen = io.BytesIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", kind(seen, encoding="utf-8", write_through=True))
            with shown_safely():
                click.echo(EVIL.encode(), nl=False)
        assert seen.getvalue().decode() == expected


def test_our_own_colours_reach_the_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    seen = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", seen)
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        with shown_safely():
            Output(as_json=False).rows([EVIL], [[EVIL]])
    assert "\x1b[1m" in seen.getvalue()  # the line of names is bold
    assert ESC not in seen.getvalue()
    assert CSI not in seen.getvalue()


def test_running_out_of_memory_is_no_bug(lw_run: Lw, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8589934592 failed")

    monkeypatch.setattr(TableOptions, "opened", fail)
    ran = lw_run("table", "count", "x.lance")
    assert ran.code == ExitCode.STORAGE
    assert "out of memory: malloc of size 8589934592 failed" in ran.err
    assert "bug" not in ran.err
