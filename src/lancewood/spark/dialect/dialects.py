"""Making dialects of sqlglot: subclasses, a parser that cannot hang on garbage, and sqlglot's
errors in our words.

The caller has imported sqlglot.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lancewood.errors import InvalidInputError


def subclass(parent: Any, name: str, members: dict[str, Any]) -> Any:
    """A subclass as sqlglot's metaclasses complete it: its own way to make a dialect."""
    return type(parent)(name, (parent,), members)


def counted_advance(parser: Any, steps_per_token: int) -> Any:
    """The method ``_advance`` of a parser, which raises RecursionError after this many steps.

    sqlglot tries alternatives inside each other; garbage must not make it try for ever.
    """

    def advance(self: Any, times: int = 1) -> None:
        steps = getattr(self, "steps", 0) + 1
        if steps > steps_per_token * (len(self._tokens) + 100):
            raise RecursionError
        self.steps = steps
        parser._advance(self, times)

    return advance


@contextmanager
def translated_errors(
    sql: str, shown: str, *, reason: str = "", limits: str = ""
) -> Iterator[None]:
    """Turn whatever sqlglot raises over a text into an InvalidInputError.

    ``shown`` is the text as messages repeat it, ``reason`` what is wrong with it if the caller
    knows better than sqlglot, ``limits`` how deep a text may nest.
    """
    from sqlglot.errors import ParseError, TokenError

    try:
        yield
    except InvalidInputError:
        raise
    except ParseError as error:
        raise _not_sql(
            sql, shown, error, reason
        ) from None  # its message repeats our text, in colours
    except TokenError as error:
        raise InvalidInputError(
            f"cannot read {shown} as SQL: a quote or comment is not closed, or a character does "
            "not belong there",
            sql=sql,
        ) from error
    except RecursionError:
        raise InvalidInputError(f"{shown} nests too deeply{limits}", sql=sql) from None
    except Exception as error:  # sqlglot fails on some garbage with errors of every kind
        raise InvalidInputError(f"cannot read {shown} as SQL: {error}", sql=sql) from error


def _not_sql(sql: str, shown: str, error: Any, reason: str) -> InvalidInputError:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    where = f" at line {line}, column {column}" if line and column else ""
    message = reason or _in_words(first.get("description") or "it is not SQL")
    return InvalidInputError(
        f"cannot read {shown} as SQL{where}: {message}", sql=sql, line=line, column=column
    )


def _in_words(reason: str) -> str:
    """sqlglot's message without its class and token names."""
    if reason.startswith("Required keyword"):
        return "something is missing here, or a keyword is used as a name without quotes"
    return re.sub(r",? but got <.*", "", reason, flags=re.DOTALL)
