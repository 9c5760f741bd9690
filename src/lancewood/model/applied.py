"""Which batches of which applications a table holds, so that none is loaded twice.

The newest batch of each application is a key of the table's configuration, in the same manifest as
the rows: a reader that sees the rows sees the mark, also on a branch or clone made from it, and
restoring an older version restores both. Only the most recent applications are kept. Plain values;
``rules.applied`` decides when a batch is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lancewood.errors import FormatError, InvalidInputError
from lancewood.model.transaction import check_text

APPLIED_PREFIX = "lancewood.applied."
MOST_APPS = 256
"""Number of applications for which the newest batch is kept."""
_LONGEST_NAME = 200
_MOST = LATEST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """One batch of one application. Raises InvalidInputError for invalid values."""

    app: str
    """The application that loads: the same name in every run, also after a crash."""
    batch: int
    """Grows with every batch of the application; gaps are fine."""

    def __post_init__(self) -> None:
        check_text("app", self.app)
        if not self.app or len(self.app) > _LONGEST_NAME:
            raise InvalidInputError(
                f"app takes a name of 1 to {_LONGEST_NAME} characters, got {self.app[:80]!r}"
            )
        is_number = isinstance(self.batch, int) and not isinstance(self.batch, bool)
        if not is_number or not 0 <= self.batch <= _MOST:
            raise InvalidInputError(
                f"batch takes a whole number from 0 that grows with every batch, got {self.batch!r}"
            )

    @property
    def key(self) -> str:
        return APPLIED_PREFIX + self.app

    @classmethod
    def asked_for(cls, app: str | None, batch: int | None) -> AppliedBatch | None:
        """The batch that a caller names; None for neither value. Raises InvalidInputError for only
        one."""
        if app is None and batch is None:
            return None
        if app is None or batch is None:
            raise InvalidInputError(
                "app and batch go together: app names who loads, batch is its running number; got "
                f"app={app!r}, batch={batch!r}"
            )
        return cls(app, batch)


@dataclass(frozen=True, slots=True)
class Mark:
    """What the configuration records for an application."""

    batch: int
    uuid: str
    """The identity of the commit that loaded it."""
    at: int
    """The time in nanoseconds since 1970: the oldest marks make room for new ones."""

    def encode(self) -> str:
        return json.dumps({"batch": self.batch, "uuid": self.uuid, "at": self.at})


def newest_batch(config: Mapping[str, str], app: str) -> int | None:
    """The newest batch of an application that a table holds; None for an unknown application.

    Raises FormatError for an invalid mark: loading again would be a guess.
    """
    text = config.get(APPLIED_PREFIX + app)
    return None if text is None else decode_mark(app, text).batch


def marks(config: Mapping[str, str]) -> Iterator[tuple[str, Mark]]:
    """All applications that a table knows, and their marks."""
    for key, text in config.items():
        if key.startswith(APPLIED_PREFIX):
            app = key.removeprefix(APPLIED_PREFIX)
            yield app, decode_mark(app, text)


def decode_mark(app: str, text: str) -> Mark:
    """Decode a mark; raises FormatError for an invalid one."""
    try:
        found = json.loads(text)
        batch, uuid, at = found["batch"], found["uuid"], found["at"]
    except (ValueError, LookupError, TypeError, RecursionError) as cause:
        raise _odd(app, text) from cause
    numbers_hold = all(type(each) is int and 0 <= each <= _MOST for each in (batch, at))
    if not numbers_hold or not isinstance(uuid, str):
        raise _odd(app, text)
    return Mark(batch, uuid, at)


def _odd(app: str, text: str) -> FormatError:
    key = APPLIED_PREFIX + app
    return FormatError(
        f"the configuration {key!r} says {text[:80]!r}, which names no batch; look which batch of "
        f"{app!r} was loaded last, and remove the key with set_config to begin anew",
        key=key,
    )
