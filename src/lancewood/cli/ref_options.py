"""What the commands for branches and tags share: their options, and which of them go together.

One verb at a time: a flag says which, and without one a NAME makes something and no NAME lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, TypeAlias, TypeVar

import typer

T = TypeVar("T")

LIST = "listing without a NAME"
NEW = "a new NAME"

Pattern: TypeAlias = Annotated[
    str | None,
    typer.Option("--list", "-l", metavar="PATTERN", help="Only names that are like '2026-*'."),
]
Metadata: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", metavar="KEY=VALUE", help="A fact to keep with a new NAME. May be repeated."
    ),
]


def chosen_verb(flags: Mapping[str, bool], names: Sequence[str]) -> str:
    """What is to be done; raises BadParameter for two things at once, or a flag without a NAME."""
    given = [flag for flag, is_given in flags.items() if is_given]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} do not go together")
    if given and not names:
        raise typer.BadParameter(f"{given[0]} needs a NAME")
    if given:
        return given[0]
    return NEW if names else LIST


def check_fits(verb: str, given: Mapping[str, tuple[bool, Sequence[str]]]) -> None:
    """Raise BadParameter for an option that is given, and is for other verbs than this one."""
    for option, (is_given, verbs) in given.items():
        if is_given and verb not in verbs:
            raise typer.BadParameter(f"{option} is for {' or '.join(verbs)}")


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
    """Those whose names are like the pattern; all of them without one."""
    for name, each in found.items():
        if pattern is None or fnmatchcase(name, pattern):
            yield each


def iso(when: datetime | None) -> str | None:
    """A moment for programs."""
    return None if when is None else when.isoformat()


def told_facts(facts: Mapping[str, str]) -> str:
    """Metadata for people."""
    return ", ".join(f"{key}={value}" for key, value in facts.items())
