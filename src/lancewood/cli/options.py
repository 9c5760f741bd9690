"""The arguments and options that commands share, and how their texts are read.

One name and one meaning each, everywhere. Does not open anything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import typer

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
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
StorageOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="A setting of the object store, for example a region. May be repeated.",
    ),
]
Message: TypeAlias = Annotated[
    str | None,
    typer.Option("--message", "-m", metavar="TEXT", help="What the new version is about."),
]
Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="KEY=VALUE",
        help="A fact to keep with the new version. May be repeated.",
    ),
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
Unsafe: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--unsafe",
        help="Trust an object store's put-if-absent without a proof; two writers at once may lose "
        "a commit.",
    ),
]


def pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """The values of a repeated KEY=VALUE option. What was typed is not repeated: it may be a
    secret."""
    found = {}
    for each in texts or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{option} takes KEY=VALUE, and one has no KEY or no '='")
        found[key] = value
    return found


def storage(texts: Sequence[str] | None) -> dict[str, str] | None:
    """Storage options as the API takes them."""
    return pairs(texts, "--storage-option") or None


def commit_facts(message: str | None, properties: Sequence[str] | None) -> dict[str, Any]:
    """The arguments that every committing verb takes."""
    return {"message": message, "properties": pairs(properties, "--property")}


def names(texts: Sequence[str] | None) -> list[str] | None:
    """Column names from a repeated option with commas; None where none was given."""
    if texts is None:
        return None
    return [name.strip() for each in texts for name in each.split(",") if name.strip()]


def expressions(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Columns and their SQL from a repeated NAME=SQL option."""
    found: dict[str, str] = {}
    for each in texts or ():
        name, equals, sql = (part.strip() for part in each.partition("="))
        if not equals or not name or not sql:
            raise typer.BadParameter(
                f"{option} takes NAME=SQL, as in 'size=size + 1', not {each!r}"
            )
        if name in found:
            raise typer.BadParameter(f"{option} names column {name!r} twice")
        found[name] = sql
    return found


_SPAN = re.compile(r"(?:\d+[wdhms])+")
_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


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
