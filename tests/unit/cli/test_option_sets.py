"""Option sets: dataclasses that stand for several options of a command."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import pytest
import typer
from typer.testing import CliRunner

from lancewood.cli.groups import new_app
from lancewood.cli.options import Command, OptionSet, expanded


@dataclass(frozen=True, kw_only=True)
class Shared(OptionSet):
    verb = "Show"

    json: Annotated[bool, typer.Option("--json", help="{verb} JSON.")] = False


@dataclass(frozen=True, kw_only=True)
class Sized(Shared):
    size: Annotated[int, typer.Option("--size", "-s", help="{verb} so many.")] = 3
    names: Annotated[list[str] | None, typer.Option("--name", help="{verb} these.")] = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise typer.BadParameter("--size is too small")


class Counted(Sized):
    verb = "Count"


@dataclass(frozen=True, kw_only=True)
class Placed(OptionSet):
    place: Annotated[str, typer.Option("--place", help="Where.")] = "here"


def run(command: Command, *args: str) -> Any:
    app = new_app(add_completion=False)
    app.command()(expanded(command))
    return CliRunner().invoke(app, args)


def test_a_command_gets_its_sets_with_what_was_said_and_defaults() -> None:
    seen: list[Any] = []

    def command(
        word: str, flag: Annotated[bool, typer.Option("--flag")] = False, *, a: Placed, b: Sized
    ) -> None:
        seen.append((word, flag, a, b))

    assert run(command, "w", "--name", "x", "-s", "5", "--name", "y").exit_code == 0
    assert run(command, "w", "--flag", "--json", "--place", "there").exit_code == 0
    assert seen == [
        ("w", False, Placed(), Sized(size=5, names=["x", "y"])),
        ("w", True, Placed(place="there"), Sized(json=True)),
    ]


def test_options_stand_in_the_place_of_their_set_and_those_it_extends_come_after() -> None:
    def command(*, first: Placed, sized: Sized, last: bool = False) -> None: ...

    names = list(inspect.signature(expanded(command)).parameters)
    assert names == ["place", "size", "names", "json", "last"]


def test_the_help_says_the_verb_of_the_set_and_leaves_that_of_others_alone() -> None:
    def help_of(command: Command) -> list[str]:
        parameters = inspect.signature(expanded(command)).parameters.values()
        return [get_args(each.annotation)[1].help for each in parameters]

    def counts(*, sized: Counted) -> None: ...
    def shows(*, sized: Sized) -> None: ...

    assert help_of(counts) == ["Count so many.", "Count these.", "Count JSON."]
    assert help_of(shows) == ["Show so many.", "Show these.", "Show JSON."]


def test_a_set_refuses_what_does_not_go_together() -> None:
    def command(*, sized: Sized) -> None:
        pytest.fail("it was called")

    failed = run(command, "--size", "-1")
    assert failed.exit_code == 2
    assert "--size is too small" in failed.stderr


def test_two_sets_with_one_option_are_a_mistake_in_the_command() -> None:
    def command(*, one: Sized, other: Shared) -> None: ...

    with pytest.raises(ValueError, match="json"):
        expanded(command)


def test_a_command_without_sets_stays_as_it_is() -> None:
    def command(word: str) -> None: ...

    assert expanded(command) is command
