"""What a caller may ask of the files of a write: how large, and of which version."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from lancewood.errors import InvalidInputError
from lancewood.model.file_version import WRITABLE_FILE_VERSIONS

GIB = 1 << 30
T = TypeVar("T")

_MOST = (1 << 62) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """A file is closed when it has reached either limit."""

    max_rows: int = 1_048_576
    max_bytes: int = 90 * GIB

    @classmethod
    def checked(cls, max_rows: int, max_bytes: int) -> FileLimits:
        """The limits that a caller asks for; raises InvalidInputError for what is no size."""
        return cls(
            max_rows=min(check_number("max_rows_per_file", max_rows, least=1), _MOST),
            max_bytes=min(check_number("max_bytes_per_file", max_bytes, least=1), _MOST),
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


def as_list(name: str, values: Iterable[T]) -> list[T]:
    """The values as a list; raises InvalidInputError for a text or what cannot be listed."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InvalidInputError(f"{name} takes a list, got {values!r}")
    try:
        return list(values)
    except OverflowError as cause:
        raise InvalidInputError(
            f"{name} takes a list, and {values!r} is too long for one"
        ) from cause


def check_file_version(version: str) -> str:
    """The version itself if we write it; raises InvalidInputError otherwise."""
    if not isinstance(version, str) or version not in WRITABLE_FILE_VERSIONS:
        raise InvalidInputError(
            f"file_version {version!r} cannot be written: "
            f"choose {', '.join(WRITABLE_FILE_VERSIONS)}"
        )
    return version
