"""The option ``--manifest-store``, which every command on one table has, and what was said.

One place instead of forty: the option is put beside ``--storage-option``, and whoever opens a table
asks here. Does not open anything. The environment may say it too, for a uri may hold a password.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from typing import Annotated, Any, TypeAlias

import typer

VARIABLE = "LANCEWOOD_MANIFEST_STORE"
Command: TypeAlias = Callable[..., None]
_HOME = "lancewood.cli.commands."
_NAME = "manifest_store"
_Option: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--manifest-store",
        metavar="URI",
        envvar=VARIABLE,
        help="Where versions are committed, if not in the object store itself: sqlite:///FILE, "
        "postgresql://…, dynamodb://TABLE.",
    ),
]
_said: ContextVar[str | None] = ContextVar(_NAME, default=None)


def manifest_store() -> str | None:
    """The manifest store that this command was given; None where there is none."""
    return _said.get()


def with_manifest_store(command: Command, module: str) -> Command:
    """The command with the option, if it is about a table; else as it is."""
    signature = inspect.signature(command, eval_str=True)
    given = signature.parameters
    if not module.startswith(_HOME) or not {"uri", "storage_option"} <= given.keys():
        return command
    kind = given["storage_option"].kind
    option = inspect.Parameter(_NAME, kind, default=None, annotation=_Option)
    parameters = []
    for each in given.values():
        parameters += [each, option] if each.name == "storage_option" else [each]

    @wraps(command)
    def told(**values: Any) -> None:
        _said.set(values.pop(_NAME))
        command(**values)

    told.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    told.__annotations__ = {each.name: each.annotation for each in parameters}
    return told
