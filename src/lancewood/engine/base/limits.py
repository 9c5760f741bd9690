"""Checks of what a caller asks for: sizes and versions of files, numbers, lists and choices."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from lancewood.errors import InvalidInputError
from lancewood.model.fragment import WRITABLE_FILE_VERSIONS

GIB = 1 << 30
T = TypeVar("T")

MOST = (1 << 62) - 1
"""A limit above this counts as no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Limits of a file, which is closed when it reaches either."""

    max_rows: int = 1_048_576
    max_bytes: int = 90 * GIB

    @classmethod
    def checked(cls, max_rows: int, max_bytes: int) -> FileLimits:
        """The limits that a caller asks for; raises InvalidInputError for an invalid size."""
        return cls(
            max_rows=min(check_number("max_rows_per_file", max_rows, least=1), MOST),
            max_bytes=min(check_number("max_bytes_per_file", max_bytes, least=1), MOST),
        )


def check_number(name: str, value: object, *, least: int = 0) -> int:
    """The number if it is whole and large enough; raises InvalidInputError otherwise."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least:
        raise InvalidInputError(f"{name} must be a whole number from {least}, got {value!r}")
    return number


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise InvalidInputError for a value that is not one of a ``Literal``'s."""
    if value not in get_args(choices):
        options = ", ".join(map(repr, get_args(choices)))
        raise InvalidInputError(f"{name} is one of {options}, got {value!r}")


def as_list(name: str, values: Iterable[T]) -> list[T]:
    """The values as a list; raises InvalidInputError for a string or what cannot be listed."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name} takes a list, got {values!r}")
    try:
        return list(values)
    except OverflowError as cause:
        raise InvalidInputError(
            f"{name} takes a list, and {values!r} is too long for one"
        ) from cause


def check_file_version(version: str) -> str:
    """The version itself if we can write it; raises InvalidInputError otherwise."""
    if not isinstance(version, str) or version not in WRITABLE_FILE_VERSIONS:
        raise InvalidInputError(
            f"file_version {version!r} cannot be written: "
            f"choose {', '.join(WRITABLE_FILE_VERSIONS)}"
        )
    return version
