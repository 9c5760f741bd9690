"""Groups of commands that are loaded one by one, when they are asked for.

``lw --help`` and the completion of a command's name show summaries and import nothing. Does not
know what any command does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from lancewood.cli.option_sets import expanded

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="lw")
"""What runs, as it is typed: ``lw table delete``."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommandEntry(NamedTuple):
    """Which function a command is, and the one line that lists show of it."""

    function: str
    """The module below ``lancewood.cli``, a colon, and the function; or a Typer group there."""
    summary: str


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    entries: ClassVar[dict[str, CommandEntry]] = {}
    known_as: ClassVar[dict[str, str]] = {}
    """What people may type, and what the command is called here."""

    def instead_of(self, name: str) -> str | None:
        """What to do instead of a command that is not here on purpose."""
        return None

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._only_names = False
        self.commands = {
            name: TyperCommand(name, help=each.summary, short_help=each.summary)
            for name, each in self.entries.items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command itself; while names are listed, a stand-in with its summary."""
        if self._only_names or cmd_name not in self.entries:
            return self.commands.get(cmd_name)
        return load_command(cmd_name, self.entries[cmd_name].function)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name not in self.entries and not ctx.resilient_parsing:
            instead = self.instead_of(name)
            if instead is not None:
                ctx.fail(f"No such command {name!r}: {instead}")
            near = get_close_matches(name, [*self.entries, *self.known_as], 1)
            if near and near[0] not in self.entries:
                ctx.fail(f"No such command {name!r}. Did you mean {self.known_as[near[0]]!r}?")
        COMMAND.set(f"{ctx.command_path} {name}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._naming():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        with self._naming():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        self._only_names = True
        try:
            yield
        finally:
            self._only_names = False


def load_command(name: str, function: str) -> Any:
    """Import the module of a command and make the command."""
    module, _, attribute = function.partition(":")
    found = getattr(import_module(f"lancewood.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        app = new_app(add_completion=False)
        app.command(name, context_settings=CONTEXT)(expanded(found))
        found = app
    made = typer.main.get_command(found)
    made.name = name
    return made


def new_app(cls: type[LazyGroup] | None = None, **settings: Any) -> typer.Typer:
    """A Typer that prints plain help and leaves errors to ``main``."""
    return typer.Typer(
        cls=cls,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
        **settings,
    )
