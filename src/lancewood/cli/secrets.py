"""Keeping what storage options hold out of messages.

Knows which options carry secrets by their names, also where ``--storage-option`` or its like was
forgotten before them. Does not encrypt and does not log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lancewood.store.options import is_secret

_HIDDEN = "***"
_OPTION = "--storage-option"
_OPTIONS = (_OPTION, "--target-storage-option")
_PASSWORD = re.compile(r"(?<=://)[^/\s@]*:([^/\s@]+)(?=@)")
_PAIR = re.compile(r"-*([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)
_WORD = re.compile(r"-*([A-Za-z0-9_.-]*)(?:=\S*)?")
_EXTRA = re.compile(r"(.*unexpected extra arguments?(?:\(s\))?) \(.*\)", re.DOTALL)
_SURELY_ONE = 8
"""A value of this length is hidden wherever it stands; a shorter one could be any word."""


def hide_secrets(message: str, args: Sequence[str]) -> str:
    """The message without the secrets that stand on this command line."""
    for value in sorted(set(_secrets(args)), key=len, reverse=True):
        message = message.replace(value, _HIDDEN)
    for each in args:
        for password in _PASSWORD.findall(each):
            message = message.replace(password, _HIDDEN)
        pair = _PAIR.fullmatch(each)
        if pair is not None and is_secret(pair[1]):
            message = message.replace(f"{pair[1]}={pair[2]}", f"{pair[1]}={_HIDDEN}")
            if len(pair[2]) >= _SURELY_ONE:
                message = message.replace(pair[2], _HIDDEN)
    return message


def without_extra_arguments(message: str, args: Sequence[str]) -> str:
    """What is said of arguments too many; without them where one may be a secret."""
    found = _EXTRA.fullmatch(message)
    if found is None or not any(map(_may_tell, args)):
        return message
    told = f"{found[1]}, not shown as it may be a secret"
    if any("=" in each or "://" in each for each in args):
        told += f"; is {_OPTION} missing before it?"
    return told


def _secrets(args: Sequence[str]) -> Iterator[str]:
    for position, each in enumerate(args):
        following = list(args[position + 1 : position + 3])
        option, is_joined, joined = each.partition("=")
        if each in _OPTIONS and following:
            pair = following.pop(0)
        elif is_joined and option in _OPTIONS:
            pair = joined
        else:
            continue
        name, equals, value = pair.partition("=")
        if equals and value and is_secret(name):
            yield value
        elif not equals and pair:
            yield pair
        if not value and is_secret(name) and following and not following[0].startswith("-"):
            yield following[0]  # a space stands in or behind the pair


def _may_tell(argument: str) -> bool:
    """Whether a word may come with a secret: a setting of a store, or a uri. SQL has spaces."""
    word = _WORD.fullmatch(argument)
    return "://" in argument or (word is not None and ("=" in argument or is_secret(word[1])))
