"""A published branch is closed: its configuration says what its work became.

The key is in the branch only; it never reaches the branch that it was published onto, nor a branch
or clone made from it. Plain values; ``rules.closed`` says what follows for writers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lancewood.errors import FormatError
from lancewood.model.ids import MAX_U64, Version

PUBLISHED_KEY = "lancewood.published"
RESET_KEY = "lancewood.reset"
"""In every version of a branch since its last reset: the version in which that was. In two versions
with different values, equal row ids are different rows. The record of the branch has it, too, and
does not apply to versions with another value."""
_MOST_DIGITS = 20
"""The pattern of a version's number."""
RENAMED_KEY = "lancewood.renamed"
"""In the last version of a root whose branch was renamed: the new name."""


def reset_version(config: Mapping[str, str]) -> int:
    """The version in which a branch was last reset, by its configuration; 0 if it never was."""
    text = config.get(RESET_KEY, "")
    found = int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
    return found if found <= MAX_U64 else 0


@dataclass(frozen=True, slots=True)
class Closing:
    """What a closed branch records about its publishing."""

    onto: str | None
    """The branch that it is published onto; None for main."""
    uuid: str
    """The identity of the commit there, landed or not."""
    head: Version
    """The version of the branch that is published."""
    fork: Version
    """The version of the target that the branch was forked from."""
    after: Version
    """The newest version of the target when the branch was closed; the commit comes later."""
    landed: Version | None = None
    """The version of the target that the work became; None if not recorded yet."""

    def encode(self) -> str:
        """The value of the key."""
        return json.dumps(asdict(self))

    @classmethod
    def found_in(cls, config: Mapping[str, str], name: str) -> Closing | None:
        """The closing in a configuration; None for an open branch. Raises FormatError naming the
        file for an invalid value."""
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
