"""A branch that was published is closed: its configuration says where its work went.

The key stands in the branch only; it never reaches what the branch was published onto, nor a branch
or clone that is made of it. Plain values; what follows for writers is said in ``rules.closed``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lancewood.errors import FormatError
from lancewood.model.ids import MAX_U64, Version

PUBLISHED_KEY = "lancewood.published"
RESET_KEY = "lancewood.reset"
"""Stands in every version of a branch since it began anew, and says in which version that was. Two
versions with different values have row ids that are not the same rows'. The record of the branch
says it, too: of versions with another value it tells nothing."""
_MOST_DIGITS = 20
"""Of a version's number."""
RENAMED_KEY = "lancewood.renamed"
"""Stands in the last version of a root whose branch has another name now, and says which."""


def reset_version(config: Mapping[str, str]) -> int:
    """The version in which a branch began anew for the last time, by its configuration; 0 if it
    never did."""
    text = config.get(RESET_KEY, "")
    found = int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
    return found if found <= MAX_U64 else 0


@dataclass(frozen=True, slots=True)
class Closing:
    """What a closed branch says about its publishing."""

    onto: str | None
    """The branch that it is published onto; None is main."""
    uuid: str
    """The identity of the commit there, landed or not."""
    head: Version
    """The version of the branch that is published."""
    fork: Version
    """The version of the target that the branch began at."""
    after: Version
    """The newest version of the target when the branch was closed: the commit comes later."""
    landed: Version | None = None
    """The version of the target that the work became; None where nobody has noted it yet."""

    def encode(self) -> str:
        """The value of the key."""
        return json.dumps(asdict(self))

    @classmethod
    def found_in(cls, config: Mapping[str, str], name: str) -> Closing | None:
        """What a configuration says; None for an open branch. Raises FormatError naming the file
        for a value that says nothing."""
        text = config.get(PUBLISHED_KEY)
        if text is None:
            return None
        try:
            found = json.loads(text)
            onto, uuid = found["onto"], found["uuid"]
            numbers = [found[key] for key in ("head", "fork", "after")]
            landed = found.get("landed")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as cause:
            raise _odd(name, text) from cause
        is_text = isinstance(uuid, str) and isinstance(onto, str | None)
        all_numbers = [*numbers, 0 if landed is None else landed]
        if not is_text or any(type(each) is not int or each < 0 for each in all_numbers):
            raise _odd(name, text)
        head, fork, after = map(Version, numbers)
        return cls(onto, uuid, head, fork, after, landed)


def _odd(name: str, text: str) -> FormatError:
    shown = text if len(text) <= 80 else f"{text[:80]}…"
    return FormatError(f"{name}: the configuration {PUBLISHED_KEY} says {shown!r}", file=name)
