"""Keeping what storage options hold out of messages.

Knows which options carry secrets by their names. Does not encrypt and does not log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

_TELLING = ("secret", "token", "password", "key", "credential", "sas", "private", "signature")
_HIDDEN = "***"
_OPTION = "--storage-option"


def hide_secrets(message: str, args: Sequence[str]) -> str:
    """The message without the secrets that stand on this command line."""
    for value in sorted(set(_secrets(args)), key=len, reverse=True):
        message = message.replace(value, _HIDDEN)
    return message


def _secrets(args: Sequence[str]) -> Iterator[str]:
    for position, each in enumerate(args):
        if each == _OPTION and position + 1 < len(args):
            pair = args[position + 1]
        elif each.startswith(f"{_OPTION}="):
            pair = each.removeprefix(f"{_OPTION}=")
        else:
            continue
        name, equals, value = pair.partition("=")
        if equals and value and any(word in name.lower() for word in _TELLING):
            yield value
        elif not equals and pair:
            yield pair
