"""Tables that refuse a verb: all are found before any is told, so that nobody meets one after the
other. What holds for several is said once."""

from __future__ import annotations

from lancewood.errors import (
    CommitUnknownError,
    IncompatibleConflictError,
    LancewoodError,
    StorageError,
)


class Refusals:
    """The tables that refuse, and why."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, table: str, why: str | LancewoodError) -> None:
        """Note that a table refuses; raises what is no refusal, but a store that failed."""
        if isinstance(why, StorageError | CommitUnknownError):
            raise why
        text = why if isinstance(why, str) else why.message
        self._found[table] = text.removeprefix(f"table {table!r}: ")

    def check(self, what: str) -> None:
        """Raise IncompatibleConflictError with every table and its reason, if there is one."""
        if not self._found:
            return
        found = dict(sorted(self._found.items()))
        names: dict[str, list[str]] = {}
        for name, why in found.items():
            names.setdefault(why, []).append(repr(name))
        told = "; ".join(
            f"table{'s' if len(each) > 1 else ''} {', '.join(each)}: {why}"
            for why, each in names.items()
        )
        raise IncompatibleConflictError(f"{what}, and nothing has changed. {told}", tables=found)
