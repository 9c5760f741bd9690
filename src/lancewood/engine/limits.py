"""What a caller may ask of the files of a write: how large, and of which version."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from lancewood.errors import InvalidInputError
from lancewood.model.file_version import WRITABLE_FILE_VERSIONS

GIB = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """A file is closed when it has reached either limit."""

    max_rows: int = 1_048_576
    max_bytes: int = 90 * GIB

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_bytes"):
            value = getattr(self, name)
            check_number(f"{name}_per_file", value, least=1)


def check_number(name: str, value: object, *, least: int = 0) -> int:
    """The number if it is whole and large enough; raises InvalidInputError otherwise."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or number < least:
        raise InvalidInputError(f"{name} must be a whole number from {least}, got {value!r}")
    return number


def check_file_version(version: str) -> str:
    """The version itself if we write it; raises InvalidInputError otherwise."""
    if version not in WRITABLE_FILE_VERSIONS:
        raise InvalidInputError(
            f"file_version {version!r} cannot be written: "
            f"choose {', '.join(WRITABLE_FILE_VERSIONS)}"
        )
    return version
