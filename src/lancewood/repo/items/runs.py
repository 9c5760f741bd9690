"""Which run made a snapshot: a trailer of the commit, where stock git finds it too.

``git log --format='%(trailers:key=Lancewood-Run,valueonly)'`` prints it. Pure, but for looking
through a history. Does not know what a run does.
"""

from __future__ import annotations

import re
import secrets
from datetime import UTC, datetime

from lancewood.errors import InvalidInputError
from lancewood.git.hashes import Hash
from lancewood.git.history import Commits, reachable

RUN = "Lancewood-Run"
_is_run = re.compile(r"[^\s\x00-\x20\x7f]{1,100}").fullmatch
_is_trailer = re.compile(r"[A-Za-z0-9-]+: .*").fullmatch
_is_claim = re.compile(rf"^{RUN}\s*:", re.IGNORECASE | re.MULTILINE).search


def new_run() -> str:
    """An id that nobody else has: the time in UTC, and some chance."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"


def checked_run(run: object) -> str:
    """The id itself; raises InvalidInputError."""
    if not isinstance(run, str) or not _is_run(run) or not _is_utf8(run):
        raise InvalidInputError(
            f"run id {str(run)[:200]!r} is not allowed: it is 1 to 100 characters without spaces"
        )
    return run


def check_claims_none(message: str) -> None:
    """Raise InvalidInputError for a message that itself says which run it is of."""
    if _is_claim(message):
        raise InvalidInputError(
            f"a message is not allowed to have a line that starts with '{RUN}:': that says which "
            "run made a snapshot, and is added to it"
        )


def with_run(message: str, run: str) -> str:
    """A message that says which run it is of; beside trailers that it has already."""
    text = message.rstrip()
    first, _, last = text.rpartition("\n\n")
    has_trailers = bool(first) and all(map(_is_trailer, last.split("\n")))
    return f"{text}{chr(10) if has_trailers else chr(10) * 2}{RUN}: {run}"


def run_of(message: str) -> str | None:
    """The run that a message tells of; None for a commit that no run made."""
    first, _, last = message.rstrip().rpartition("\n\n")
    if not first:
        return None
    for line in reversed(last.split("\n")):
        key, colon, value = line.partition(":")
        if colon and key.lower() == RUN.lower():
            return value.strip()
    return None


def made_by(objects: Commits, tip: Hash, run: str) -> Hash | None:
    """The snapshot of a run among all that ``tip`` leads to; None if there is none.

    Nearly always it is the tip. Otherwise all commits are read: whoever committed on top of it may
    have had any clock.
    """
    for commit in reachable(objects, [tip]):
        if run_of(commit.message) == run:
            return commit.hash
    return None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
