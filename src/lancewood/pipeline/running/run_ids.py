"""The id of a run: who runs twice with the same one loads once.

It names a branch of the repository and of its tables, a ref, a file and a directory, and keeps to
the rules of all of them.
"""

from __future__ import annotations

import secrets
from datetime import datetime

from lancewood.errors import InvalidInputError
from lancewood.git.names import checked_ref
from lancewood.repo.ref_names import branch_ref

RUN_BRANCHES = "run/"
_MOST_CHARACTERS = 100


def new_run_id(now: datetime) -> str:
    """An id that nobody else has: the time in UTC, and some chance."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def checked_run_id(text: str) -> str:
    """The id itself; raises InvalidInputError, which says which rule it breaks."""
    if not isinstance(text, str):
        raise InvalidInputError(f"the id of a run is a text, not {type(text).__name__}")
    why = None
    if "/" in text:
        why = "it contains '/'"
    elif len(text) > _MOST_CHARACTERS:
        why = f"it has {len(text)} characters, {_MOST_CHARACTERS} are allowed"
    else:
        try:
            branch_ref(run_branch(text))
            checked_ref(f"refs/{text}")
        except InvalidInputError as refused:
            why = refused.message
    if why is not None:
        raise InvalidInputError(f"run id {text[:200]!r} is not allowed: {why}", run=text)
    return text


def run_branch(run: str) -> str:
    """The branch that a run works on."""
    return RUN_BRANCHES + run
