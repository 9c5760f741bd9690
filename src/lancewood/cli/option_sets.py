"""Option sets: options that several commands share, as one value.

A set is a frozen dataclass whose fields are annotated as options of Typer. A command takes one as
a keyword-only parameter, and is handed its value:

    def count_command(uri: options.UriOrName, *, read: Reading) -> None

In the help the options of a set stand where the parameter stands; those of the set itself come
before those of the sets that it extends. Does not know any option.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, ClassVar, TypeAlias, get_args, get_type_hints

Command: TypeAlias = Callable[..., None]


@dataclass(frozen=True, kw_only=True)
class OptionSet:
    """What the command line says by options that belong together."""

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
