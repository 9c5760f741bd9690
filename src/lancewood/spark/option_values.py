"""Texts that people give as options, turned into values; each raises InvalidInputError.

Knows options only by the name that a caller gives, and never shows a text that may be a secret.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from lancewood.engine.base import check_file_version
from lancewood.errors import InvalidInputError

_WHOLE_NUMBER = re.compile(r"[0-9]{1,20}")
_MOST = (1 << 64) - 1
"""The largest number that an option takes; detached versions have 20 digits."""
_FLAGS = {"true": True, "false": False}


def text(name: str, given: str) -> str:
    """The text itself, which says something."""
    if not given.strip():
        raise InvalidInputError(f"option {name!r} is empty; leave it out, or say something")
    return given


def number(name: str, given: str, *, least: int = 0, most: int = _MOST, others: str = "") -> int:
    """A whole number; ``others`` says what else would be taken."""
    if not _WHOLE_NUMBER.fullmatch(given.strip()) or not least <= int(given) <= most:
        raise InvalidInputError(
            f"option {name!r} takes a whole number from {least}{others}, got {given!r}"
        )
    return int(given)


def positive(name: str, given: str) -> int:
    """A whole number from 1."""
    return number(name, given, least=1)


def flag(name: str, given: str) -> bool:
    """True or false."""
    found = _FLAGS.get(given.strip().lower())
    if found is None:
        raise InvalidInputError(f"option {name!r} takes true or false, got {given!r}")
    return found


def moment(name: str, given: str) -> datetime:
    """A moment in ISO 8601; without a zone it is UTC, wherever the driver runs."""
    try:
        found = datetime.fromisoformat(given.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInputError(
            f"option {name!r} takes a moment such as 2026-05-01 or 2026-05-01T12:30:00+02:00, "
            f"got {given!r}"
        ) from None


def columns(name: str, given: str) -> list[str] | dict[str, str]:
    """Names parted by commas, a JSON list of names, or a JSON object of names and SQL texts."""
    if not given.lstrip().startswith(("[", "{")):
        return [text(name, each).strip() for each in given.split(",")]
    found = _json(name, given)
    listed = found.values() if isinstance(found, dict) else found
    if not all(isinstance(each, str) for each in listed):
        raise InvalidInputError(
            f'option {name!r} takes a, b or ["a", "b"] or {{"name": "SQL"}}, got {given!r}'
        )
    return found  # type: ignore[no-any-return]


def list_of_texts(name: str, given: str) -> list[str]:
    """A JSON list of texts."""
    found = _json(name, given)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidInputError(f'option {name!r} takes a JSON list of texts: ["text"]')
    return found


def texts(name: str, given: str) -> dict[str, str]:
    """A JSON object of texts."""
    found = _json(name, given)
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidInputError(f'option {name!r} takes a JSON object of texts: {{"key": "text"}}')
    return found


def nested_texts(name: str, given: str) -> dict[str, dict[str, str]]:
    """A JSON object of JSON objects of texts; the error does not show it."""
    found = _json(name, given)
    inner = list(found.values()) if isinstance(found, dict) else [None]
    if not all(
        isinstance(each, dict) and all(isinstance(value, str) for value in each.values())
        for each in inner
    ):
        raise InvalidInputError(
            f"option {name!r} takes a JSON object that has an object of texts for every base path: "
            '{"cold": {"aws_region": "…"}}'
        )
    return found  # type: ignore[no-any-return]


def file_version(name: str, given: str) -> str | None:
    """A version of data files; None for ``stable``, which asks for none in particular."""
    found = text(name, given).strip().lower()
    return None if found == "stable" else check_file_version(found)


def _json(name: str, given: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
            raise InvalidInputError(f"option {name!r} names {twice!r} twice; say it once")
        return found

    try:
        return json.loads(given, object_pairs_hook=once)
    except InvalidInputError:
        raise
    except (ValueError, RecursionError):
        raise InvalidInputError(f"option {name!r} is to be JSON, and is none") from None
