"""The command ``lw``: where it starts, and how every error ends.

Knows the groups, the exit codes and what is said when something goes wrong. Does not know what the
commands do; importing this loads neither Arrow nor a store.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from lancewood.cli.failing import (
    MEANINGS,
    ExitCode,
    as_typed,
    exit_code_of,
    hide_secrets,
    instead_of_option,
    instead_of_verb,
    near_table,
    without_extra_arguments,
)
from lancewood.cli.groups import (
    KNOWN_AS,
    REPOSITORY,
    STARTED_AT,
    VERBS,
    ItemsGroup,
    LazyGroup,
    RepoGroup,
    RunsGroup,
    Section,
    SparkGroup,
    TableGroup,
    new_app,
)
from lancewood.cli.output import json_line, shown_safely
from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.repo import is_uri
from lancewood.version import RELEASE

DEBUG = "LANCEWOOD_DEBUG"
_NEAR = "did you mean"


def _epilog() -> str:
    lines = [f"{code:>5}  {MEANINGS[code]}" for code in ExitCode]
    return "\n".join(["\b", "Exit codes:", *lines])


class RootGroup(LazyGroup):
    """All of ``lw``. Errors are reported here, once, for every command."""

    sections: ClassVar[dict[str, Section]] = {
        **REPOSITORY,
        "Tables, SQL and pipelines": {
            "run": ("pipeline", "Run a pipeline: load, check, publish."),
            "runs": RunsGroup,
            "sql": ("sql", "Ask and change tables with SQL, at any revision."),
            "table": TableGroup,
            "items": ItemsGroup,
            "repo": RepoGroup,
            "spark": SparkGroup,
            "doctor": ("checking", "Check a place and the table in it."),
        },
    }
    known_as: ClassVar[dict[str, str]] = {
        **{name: f"table {name}" for name in TableGroup.entries},
        **{name: f"table {meant}" for name, meant in TableGroup.known_as.items()},
        **KNOWN_AS,
        "import-plain": "repo import-plain",
    }

    def instead_of(self, name: str) -> str | None:
        return instead_of_verb(name)

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **settings: Any
    ) -> None:
        given = self._given = list(sys.argv[1:] if args is None else args)
        settings["standalone_mode"] = False
        with shown_safely():
            try:
                _check_surroundings(given)
                code = super().main(given, prog_name=prog_name or "lw", **settings)
                sys.stdout.flush()
            except SystemExit:
                raise
            except BaseException as error:
                code = _report(error, given)
        sys.exit(int(code) if isinstance(code, int) else 0)

    def make_context(self, *args: Any, **settings: Any) -> Any:
        with self._reported():
            return super().make_context(*args, **settings)

    def invoke(self, ctx: Any) -> Any:
        with self._reported():
            return super().invoke(ctx)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Typer has words and codes of its own for these two."""
        try:
            yield
        except (BrokenPipeError, KeyboardInterrupt) as error:
            raise typer.Exit(_report(error, self._given)) from error


def _check_surroundings(args: Sequence[str]) -> None:
    """Raise InvalidInputError where no command could do its work."""
    if sys.stdout is None:
        raise InvalidInputError("stdout is closed; send it to /dev/null if nobody needs it")
    for each in args:
        if any("\ud800" <= letter <= "\udfff" for letter in each):
            raise InvalidInputError(f"argument {each!r} is not UTF-8; rename the file")


def _report(error: BaseException, args: Sequence[str]) -> int:
    """Tell what went wrong on stderr; the exit code."""
    if isinstance(error, BrokenPipeError):
        with suppress(OSError, ValueError):  # stdout leads nowhere, so its last flush cannot fail
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return ExitCode.BROKEN_PIPE
    usage = getattr(error, "format_message", None)
    if type(error).__name__ == "NoArgsIsHelpError" and usage is not None:
        print(usage(), file=sys.stderr)
        return ExitCode.USAGE
    if usage is not None:
        code, kind, message = ExitCode.USAGE, "UsageError", _usage_message(error, usage(), args)
    elif isinstance(error, typer.Abort):
        code, kind, message = ExitCode.DECLINED, "Declined", "nothing was done"
    else:
        code, kind = exit_code_of(error), type(error).__name__
        message = _message(error)
    message = hide_secrets(message, args)
    if os.environ.get(DEBUG) and usage is None:
        text = "".join(traceback.format_exception(error))
        print(hide_secrets(text, args), file=sys.stderr)
    if "--json" in (args[: args.index("--")] if "--" in args else args):
        document = {"type": kind, "message": message, "exit_code": int(code)}
        print(json_line({"error": document}, sys.stderr), file=sys.stderr)
    else:
        print(f"lw: {message}", file=sys.stderr)
        ctx = getattr(error, "ctx", None)
        if ctx is not None:
            print(f"try: {ctx.command_path} --help", file=sys.stderr)
    return code


def _usage_message(error: BaseException, text: str, args: Sequence[str]) -> str:
    """What is wrong with the command line, for people who know git."""
    option, ctx = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if type(error).__name__ == "NoSuchOption" and ctx is not None:
        is_verb = ctx.parent is not None and ctx.parent.parent is None
        instead = instead_of_option(ctx.info_name, option or "") if is_verb else None
        if instead is not None:
            return f"No such option {option}: {instead}"
    return without_extra_arguments(text, args)


def _message(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        usual = "a commit has landed whole or not at all: lw table versions tells"
        return f"interrupted; {'; '.join(getattr(error, '__notes__', ())) or usual}"
    if isinstance(error, LancewoodError):
        text = as_typed("; ".join([str(error), *getattr(error, "__notes__", ())]))
        near = None
        if isinstance(error, NotFoundError) and "table" in error.facts:
            near = None if _NEAR in text else near_table(error.facts["table"])
        return text if near is None else f"{text}; {_NEAR} {near}?"
    if isinstance(error, OSError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            f"out of memory{f': {error}' if str(error) else ''}. Take fewer rows or columns at a "
            "time, or give lw more memory; a commit has landed whole or not at all"
        )
    return (
        f"internal error: {type(error).__name__}: {error}. This is a bug of lw; "
        f"run it again with {DEBUG}=1 to see where"
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"lw {RELEASE}")
        raise typer.Exit


app = new_app(RootGroup, epilog=_epilog(), no_args_is_help=True)


@app.callback()
def lw(
    ctx: typer.Context,
    directory: Annotated[
        str | None,
        typer.Option(
            "-C",
            metavar="PATH",
            help="Do everything as if started in PATH; or the URI of a repository in a bucket.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the release and exit."
        ),
    ] = False,
) -> None:
    """Lancewood: git for Lance tables."""
    if directory is None:
        return
    if is_uri(directory):
        if ctx.invoked_subcommand not in VERBS:
            raise InvalidInputError(
                f"-C with a uri is for the verbs on a repository, and {ctx.invoked_subcommand!r} "
                "is none of them: it works with what is on this machine, or takes a uri itself"
            )
        token = STARTED_AT.set(directory)
        ctx.call_on_close(lambda: STARTED_AT.reset(token))
        return
    if not Path(directory).is_dir():
        raise NotFoundError(f"there is no directory {directory!r} for -C")
    ctx.with_resource(chdir(directory))


def run() -> None:
    """What the installed command calls: run, and exit with one of the exit codes."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
