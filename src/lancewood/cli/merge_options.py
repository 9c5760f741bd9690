"""The options of commands that merge rows: how conflicts are decided, and what counts as one.

One set for ``lw table merge-branch``, ``lw merge`` and their like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.decision_files import read_decisions
from lancewood.cli.file_options import DifferingRows
from lancewood.cli.options import OptionSet
from lancewood.cli.output import Output, counted, note
from lancewood.cli.showing import ShownConflicts, note_stale, show_columns
from lancewood.files.formats import FileFormat, require_format
from lancewood.files.sinks import STDOUT, check_target
from lancewood.table import Conflicts

_SIDES = ("ours", "theirs")
_OF_COLUMNS = (*_SIDES, "drop", "keep")
FindConflicts: TypeAlias = Callable[[lw.Resolve | None], Mapping[str, Conflicts]]
"""Finds the conflicts of a merge by table, once it is decided what becomes of columns."""


class Deletes(StrEnum):
    """What becomes of rows that one side deleted and the other changed."""

    WIN = "win"
    LOSE = "lose"


class Detect(StrEnum):
    """What both sides may not have changed."""

    CELLS = "cells"
    ROWS = "rows"
    TABLES = "tables"


Ours: TypeAlias = Annotated[
    bool, typer.Option("--ours", help="Where both changed a cell or a row, what is here stays.")
]
Theirs: TypeAlias = Annotated[
    bool, typer.Option("--theirs", help="Where both changed a cell or a row, what comes is taken.")
]
Base: TypeAlias = Annotated[
    bool, typer.Option("--base", help="Where both changed a cell or a row, neither is taken.")
]


@dataclass(frozen=True, kw_only=True)
class Deciding(OptionSet):
    """How conflicts are decided; the first that decides one counts.

    Raises BadParameter for options that contradict each other, and for texts that cannot be read.
    """

    ours: Ours = False
    theirs: Theirs = False
    base: Base = False
    rule: Annotated[
        list[str] | None,
        typer.Option(
            "--rule",
            metavar="NAME=SQL",
            help="What a cell becomes that both changed: 'views=ours.views + theirs.views - "
            "base.views', 'label=theirs', '*=coalesce(theirs, ours)'. May be repeated.",
        ),
    ] = None
    winner: Annotated[
        str | None,
        typer.Option(
            "--winner",
            metavar="SQL",
            help="Take theirs where this is true, else ours: 'theirs.time > ours.time'.",
        ),
    ] = None
    whole_rows: Annotated[
        bool,
        typer.Option("--whole-rows", help="A side that is taken gives the whole row, not cells."),
    ] = False
    deletes: Annotated[
        Deletes | None,
        typer.Option(
            "--deletes", help="What becomes of a row that one side deleted and the other changed."
        ),
    ] = None
    decisions: Annotated[
        str | None,
        typer.Option(
            "--decisions",
            metavar="FILE",
            help="Decisions on single conflicts: a file with _conflict and take (ours, theirs, "
            "base, delete), or values by column. The command conflicts writes one with -o.",
        ),
    ] = None
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="SIDE",
            help="Columns that both changed: ours or theirs; NAME=ours, theirs, drop or keep for "
            "one of them. May be repeated.",
        ),
    ] = None

    def __post_init__(self) -> None:
        given = [f"--{name}" for name in (*_SIDES, "base") if getattr(self, name)]
        if len(given) > 1:
            raise typer.BadParameter(f"{' and '.join(given)} do not go together")
        _ = self._rules
        _schema(self.schema)

    @property
    def _rules(self) -> dict[str, str]:
        return options.expressions(self.rule, "--rule", "views=ours.views + 1")

    @property
    def is_any(self) -> bool:
        """Whether anything is decided."""
        return self.decisions is not None or bool(self.rules)

    @property
    def rules(self) -> dict[str, Any]:
        """The arguments of ``lancewood.Resolve`` but for decisions on single conflicts."""
        side = next((each for each in (*_SIDES, "base") if getattr(self, each)), None)
        found = {
            "columns": self._rules or None,
            "winner": self.winner,
            "whole_rows": self.whole_rows or None,
            "deletes": None if self.deletes is None else self.deletes.value,
            "rows": side,
            "schema": _schema(self.schema),
        }
        return {name: value for name, value in found.items() if value is not None}

    def resolve(self, find: FindConflicts) -> lw.Resolve | None:
        """How conflicts are decided; None if nothing is. Reads the file of decisions, as the
        columns of the tables are that ``find`` finds in conflict."""
        rules = self.rules
        if self.decisions is not None:
            schema = rules.get("schema")
            known = find(None if schema is None else lw.Resolve(schema=schema))
            rules["decisions"] = read_decisions(self.decisions, known)
        return lw.Resolve(**rules) if rules else None


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Deciding):
    """How a merge goes: what is a conflict, and how conflicts are decided."""

    detect: Annotated[
        Detect,
        typer.Option(
            "--detect", help="What is a conflict: that both changed a cell, a row, or the table."
        ),
    ] = Detect.CELLS

    def facts(self, find: FindConflicts) -> dict[str, Any]:
        """The arguments of every verb that merges."""
        return {"resolve": self.resolve(find), "detect": self.detect.value}


@dataclass(frozen=True, kw_only=True)
class ConflictOptions(MergeOptions, DifferingRows):
    """Which conflicts of a merge are shown, and how."""

    columns: options.Columns = None
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write them to a file, with an empty column take: fill it in for --decisions.",
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False

    @property
    def kind(self) -> FileFormat | None:
        """The format of the file that is written; None if conflicts are shown to people."""
        return self.format if self.output is None else require_format(self.output, self.format)

    def check(self, *, as_json: bool) -> None:
        """Raise BadParameter for options that do not go together, and the error of a file that
        cannot be written."""
        if self.output is None and self.force:
            raise typer.BadParameter("--force is for -o FILE")
        super().check(as_json=as_json)
        if self.output is not None:
            check_target(self.output, force=self.force)

    def show(self, found: Conflicts, output: Output, title: str | None = None) -> int:
        """Show the conflicts of a table, or write them; how many. ``title`` is the name of the
        table where several are shown."""
        output.short = not self.full
        chosen = options.names(self.columns)
        found = found if chosen is None else found.select(chosen)
        shown, kind = ShownConflicts(found, output, self.limit, title), self.kind
        if kind is None:
            return _shown(shown, output, title)
        count = shown.file(self.output or STDOUT, kind, force=self.force, safe=self.safe)
        if self.output not in (None, STDOUT):
            facts = {"file": self.output, "format": kind, "conflicts": count}
            output.document(facts, f"wrote {counted(count, 'conflict')} to {self.output}")
        return count

    @staticmethod
    def note_stale(
        found: Iterable[Conflicts], given: lw.Resolve | None, kept: Iterable[str] = ()
    ) -> None:
        """Say how many decisions, given or kept, are on none of the conflicts."""
        names = {*kept}
        if given is not None and given.decisions is not None:
            names.update(given.decisions.column("_conflict").to_pylist())
        used = (each.decided() for each in found) if names else ()
        note_stale(len(names.difference(*used)))


def _shown(shown: ShownConflicts, output: Output, title: str | None) -> int:
    """Show conflicts of rows, or of columns where these have to be decided first; how many."""
    try:
        return shown.rows()
    except lw.MergeConflictError as conflict:
        columns = conflict.facts.get("schema")
        if columns is None:
            raise
        show_columns(columns, output, title)
        note("rows are compared once --schema says what these columns become")
        return len(columns)


def _schema(texts: Sequence[str] | None) -> str | dict[str, str] | None:
    """What columns become: a side for all, or by column."""
    found: dict[str, str] = {}
    for each in texts or ():
        name, equals, choice = each.rpartition("=")
        if choice not in (_OF_COLUMNS if equals else _SIDES) or (equals and not name):
            raise typer.BadParameter(
                f"--schema takes ours or theirs, or NAME=ours, theirs, drop or keep, not {each!r}"
            )
        found[name or "*"] = choice
    return found["*"] if list(found) == ["*"] else found or None
