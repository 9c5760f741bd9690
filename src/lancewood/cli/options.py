"""The arguments and options that commands share, and how their texts are read.

Each has one name and one meaning everywhere. Commands for branches and tags do one thing at a time:
a flag says which, and without a flag a NAME makes something and no NAME lists.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import wraps
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar, get_args, get_type_hints

import typer

from lancewood.cli.output import Output, note

Command: TypeAlias = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """What the command line says by options that several commands share, as one value.

    A set is a frozen dataclass whose fields are annotated as options of Typer. A command takes one
    as a keyword-only parameter, and is handed its value:

        def count_command(uri: options.UriOrName, *, read: Reading) -> None

    In the help the options of a set stand where the parameter stands; those of the set itself come
    before those of the sets that it extends.
    """

    verb: ClassVar[str] = ""
    """What stands for ``{verb}`` in the help of the options."""


def expanded(command: Command) -> Command:
    """The command with single options, as Typer wants it, in place of its option sets."""
    signature = inspect.signature(command, eval_str=True)
    sets: dict[str, type[OptionSet]] = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if isinstance(each.annotation, type) and issubclass(each.annotation, OptionSet)
    }
    if not sets:
        return command
    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        parameters += _options(sets[name]) if name in sets else [each]

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in sets.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        command(**given)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _options(kind: type[OptionSet]) -> Iterator[inspect.Parameter]:
    known = {each.name: each for each in fields(kind)}
    hints = get_type_hints(kind, include_extras=True)
    for name in (name for each in kind.__mro__ for name in inspect.get_annotations(each)):
        field = known.pop(name, None)
        if field is None:
            continue
        type_, option = get_args(hints[name])
        option = copy(option)
        option.help = option.help.replace("{verb}", kind.verb)
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[type_, option],
        )


T = TypeVar("T")
LIST = "listing without a NAME"
NEW = "a new NAME"
_SPAN = re.compile(r"(?:\d+[wdhms])+")
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
Uri: TypeAlias = Annotated[
    str, typer.Argument(metavar="URI", help="Where the table is: a path or a URI.")
]
UriOrName: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="URI",
        help="Where the table is: a path, a URI, or its name in the repository, as in orders@v1.",
    ),
]
Metadata: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", metavar="KEY=VALUE", help="A fact to keep with a new NAME. May be repeated."
    ),
]
Pattern: TypeAlias = Annotated[
    str | None,
    typer.Option("--list", "-l", metavar="PATTERN", help="Only names that are like '2026-*'."),
]
Where: TypeAlias = Annotated[
    str | None,
    typer.Option("--where", "-w", metavar="SQL", help="Only rows for which this is true."),
]
Columns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "-c",
        metavar="A,B",
        help="Only these columns, with commas between them. May be repeated.",
    ),
]
Safe: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--safe", help="CSV: put ' before texts that a spreadsheet would take for formulas."
    ),
]
Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=0, help="At most N rows.")
]
Offset: TypeAlias = Annotated[
    int, typer.Option("--offset", metavar="N", min=0, help="Pass over the first N rows.")
]
MaxRowsPerFile: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-rows-per-file", metavar="N", min=1, help="Close a data file at N rows."),
]
FileVersion: TypeAlias = Annotated[
    str | None,
    typer.Option("--file-version", metavar="V", help="Version of the data files: 2.0, 2.1, 2.2."),
]
NoStableRowIds: TypeAlias = Annotated[
    bool, typer.Option("--no-stable-row-ids", help="Rows get no ids that stay with them.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class WrittenAnew(StrEnum):
    """What a change of values writes."""

    AUTO = "auto"
    ROWS = "rows"
    COLUMNS = "columns"


Rewrite: TypeAlias = Annotated[
    WrittenAnew,
    typer.Option(
        "--rewrite",
        help="Write changed rows anew, or the changed columns of all rows; auto takes what is "
        "less.",
    ),
]


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """The values of a repeated KEY=VALUE option. Errors do not show them: one may be a secret."""
    found = {}
    for each in texts or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} takes KEY=VALUE, and one has no KEY or no '='")
        found[key] = value
    return found


def names(texts: Sequence[str] | None) -> list[str] | None:
    """Column names from a repeated option with commas; None if it was not given."""
    if texts is None:
        return None
    return [name.strip() for each in texts for name in each.split(",") if name.strip()]


def expressions(
    texts: Sequence[str] | None, option: str, example: str = "size=size + 1"
) -> dict[str, str]:
    """Columns and their SQL from a repeated NAME=SQL option."""
    found: dict[str, str] = {}
    for each in texts or ():
        name, equals, sql = (part.strip() for part in each.partition("="))
        if not equals or not name or not sql:
            raise typer.BadParameter(f"{option} takes NAME=SQL, as in {example!r}, not {each!r}")
        if name in found:
            raise typer.BadParameter(f"{option} names column {name!r} twice")
        found[name] = sql
    return found


def span(text: str | None, option: str) -> timedelta | None:
    """A length of time: ``14d``, ``36h``, ``1d12h``."""
    if text is None:
        return None
    bare = text.strip().lower()
    if not _SPAN.fullmatch(bare):
        raise typer.BadParameter(f"{option} {text!r} is no length of time: write it as 14d or 12h")
    try:
        parts = [
            timedelta(**{_UNITS[unit]: int(number)})
            for number, unit in re.findall(r"(\d+)([wdhms])", bare)
        ]
        return sum(parts, timedelta())
    except (OverflowError, ValueError):  # also more digits than int() reads
        raise typer.BadParameter(f"{option} {text!r} is longer than all calendars") from None


def chosen_verb(
    flags: Mapping[str, bool],
    names: Sequence[str],
    others: Mapping[str, tuple[bool, Sequence[str]]],
) -> str:
    """What to do with names of branches or tags: one of the flags, ``NEW`` or ``LIST``.

    ``others`` says of each other option whether it was given, and with which verbs it goes. Raises
    BadParameter for two flags at once, a flag without a NAME, and what does not go with the verb.
    """
    given = [flag for flag, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} do not go together")
    if given and not names:
        raise typer.BadParameter(f"{given[0]} needs a NAME")
    verb = given[0] if given else NEW if names else LIST
    for option, (is_given, verbs) in others.items():
        if is_given and verb not in verbs:
            raise typer.BadParameter(f"{option} is for {' or '.join(verbs)}")
    return verb


def one(names: Sequence[str], verb: str) -> str:
    """The only name; raises BadParameter."""
    if len(names) != 1:
        raise typer.BadParameter(f"{verb} is for one name at a time, not {len(names)}")
    return names[0]


def two(names: Sequence[str], verb: str) -> tuple[str, str]:
    """The old and the new name; raises BadParameter."""
    if len(names) != 2:
        raise typer.BadParameter(f"{verb} takes two names, old and new, not {len(names)}")
    return names[0], names[1]


def matching(found: Mapping[str, T], pattern: str | None) -> Iterator[T]:
    """The values whose names match the pattern; all without one."""
    for name, each in found.items():
        if pattern is None or fnmatchcase(name, pattern):
            yield each


def iso(when: datetime | None) -> str | None:
    """A moment for programs."""
    return None if when is None else when.isoformat()


def shown_facts(facts: Mapping[str, str]) -> str:
    """Metadata for people."""
    return ", ".join(f"{key}={value}" for key, value in facts.items())


Full: TypeAlias = Annotated[
    bool, typer.Option("--full", help="Show whole values: long ones are cut otherwise.")
]


@dataclass(frozen=True, kw_only=True)
class Printing(OptionSet):
    """How the answer of a command is printed."""

    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False

    @property
    def output(self) -> Output:
        return Output(as_json=self.json)

    def output_of_rows(self, *, full: bool) -> Output:
        """Where rows are printed; long values are cut for people unless ``full``."""
        return Output(as_json=self.json, full=full)

    def note(self, text: str) -> None:
        """Print something that people may like to know to stderr; nothing for programs."""
        if not self.json:
            note(text)

    def confirm(self, question: str, about: str, *, yes: bool) -> None:
        """Ask before something is lost; ``about`` says what is at stake. ``yes`` does not ask.

        Raises BadParameter if nobody can be asked, and Abort if the answer is no.
        """
        if yes:
            return
        if self.json or sys.stdin is None or not sys.stdin.isatty():
            raise typer.BadParameter(f"{about} Nobody can be asked here: say --yes to go on")
        note(about)
        typer.confirm(question, abort=True, err=True)


@dataclass(frozen=True, kw_only=True)
class StoreOptions(Printing):
    """How an object store is reached."""

    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--storage-option",
            metavar="KEY=VALUE",
            help="A setting of the object store, for example a region. May be repeated.",
        ),
    ] = None

    @property
    def storage(self) -> dict[str, str] | None:
        """Storage options in the form of the API; raises BadParameter."""
        return pairs(self.storage_option, "--storage-option") or None
