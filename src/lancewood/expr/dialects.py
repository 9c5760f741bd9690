"""Dialects of sqlglot's that are our own: how one is made, and a parser that garbage does not hold.

Knows how sqlglot builds dialects, and none of them. Whoever calls has imported sqlglot.
"""

from __future__ import annotations

from typing import Any


def subclass(parent: Any, name: str, members: dict[str, Any]) -> Any:
    """sqlglot's own way to make a dialect: subclasses, which its metaclasses complete."""
    return type(parent)(name, (parent,), members)


def counted_advance(parser: Any, steps_per_token: int) -> Any:
    """The step ``_advance`` of a parser, which raises RecursionError after so many of them.

    sqlglot tries alternatives one inside the other; garbage may not make it try for ever.
    """

    def advance(self: Any, times: int = 1) -> None:
        steps = getattr(self, "steps", 0) + 1
        if steps > steps_per_token * (len(self._tokens) + 100):
            raise RecursionError
        self.steps = steps
        parser._advance(self, times)

    return advance
