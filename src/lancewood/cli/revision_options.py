"""The options that say which version of a table is meant: one group, the same everywhere.

A command that reads takes ``revision: Revision = NEWEST`` and is wrapped in ``with_revision``,
which gives it the five options; ``with_revision_to`` says what the command does with the version.
One that writes takes ``branch`` alone: it goes on from the newest version of that, or of the branch
that a uri like ``t.lance@exp`` names. Does not open anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from typing import Annotated, Any, TypeAlias

import typer

Branch: TypeAlias = Annotated[
    str | None,
    typer.Option("--branch", metavar="NAME", help="On this branch; as in URI@NAME."),
]
Command: TypeAlias = Callable[..., None]


def _group(verb: str) -> dict[str, Any]:
    """The five options by the names of their parameters."""

    def option(kind: Any, name: str, metavar: str, text: str) -> Any:
        return Annotated[kind | None, typer.Option(name, metavar=metavar, help=f"{verb} {text}")]

    return {
        "branch": Branch,
        "version": option(int, "--version", "N", "this version, of main or of --branch."),
        "tag": option(str, "--tag", "NAME", "the version that a tag names."),
        "as_of": option(
            str,
            "--as-of",
            "TIME",
            "the newest version of that moment: ISO 8601, local time without a zone.",
        ),
        "at": option(
            str,
            "--at",
            "REVISION",
            "this revision: a tag or branch, branch:N, :N of main, tag:NAME; as in URI@REVISION.",
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """What the options say; the newest version of the root that the uri names if they say nothing.

    Raises typer.BadParameter where they say it twice.
    """

    branch: str | None = None
    version: int | None = None
    tag: str | None = None
    as_of: str | None = None
    at: str | None = None

    def __post_init__(self) -> None:
        given = {
            "--version": self.version,
            "--tag": self.tag,
            "--as-of": self.as_of,
            "--at": self.at,
        }
        said = [name for name, value in given.items() if value is not None]
        if len(said) > 1:
            raise typer.BadParameter(f"give {' or '.join(said)}, not both")
        if self.branch is not None and (self.tag is not None or self.at is not None):
            raise typer.BadParameter(f"give --branch or {said[0]}, not both")

    @property
    def is_past(self) -> bool:
        """Whether it may be another version than the newest of a branch."""
        return any(each is not None for each in (self.version, self.tag, self.as_of, self.at))

    def arguments(self) -> dict[str, Any]:
        """The same as ``lancewood.open`` takes it."""
        return {
            "branch": self.branch,
            "version": self.version,
            "tag": self.tag,
            "as_of": _when(self.as_of),
            "at": self.at,
        }

    def on_branch(self) -> int | str | datetime | None:
        """The same as ``at`` of verbs that know their branch; None if nothing is said.

        Raises typer.BadParameter where another branch is asked for.
        """
        if self.branch is not None:
            raise typer.BadParameter("the branch is known here; leave --branch out")
        tag = None if self.tag is None else f"tag:{self.tag}"
        said = (self.version, tag, _when(self.as_of), self.at)
        return next((each for each in said if each is not None), None)


NEWEST = Revision()


def with_revision_to(verb: str) -> Callable[[Command], Command]:
    """Puts the group of options in the place of a command's parameter ``revision``; the help of
    each begins with the verb."""
    group = _group(verb)

    def wrapped(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        parameters = [
            new
            for each in signature.parameters.values()
            for new in (_options(each, group) if each.name == "revision" else [each])
        ]

        @wraps(command)
        def expanded(**given: Any) -> None:
            said = {name: given.pop(name) for name in group}
            command(revision=Revision(**said), **given)

        expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {each.name: each.annotation for each in parameters}
        return expanded

    return wrapped


with_revision = with_revision_to("Read")
"""For commands that read the version."""


def _options(parameter: inspect.Parameter, group: dict[str, Any]) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, parameter.kind, default=None, annotation=option)
        for name, option in group.items()
    ]


def _when(text: str | None) -> datetime | None:
    """A moment; without a zone it is local time."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text.strip()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"--as-of {text!r} is no time: write it as 2026-05-01 or 2026-05-01T12:30:00Z"
        ) from None
