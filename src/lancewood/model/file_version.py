"""The versions of data files: their names, their numbers, and which of them we handle."""

from __future__ import annotations

from typing import TypeAlias

FileVersion: TypeAlias = tuple[int, int]
"""(major, minor), as a manifest spells it."""

DEFAULT_FILE_VERSION = "2.2"
WRITABLE_FILE_VERSIONS: dict[str, FileVersion] = {"2.0": (2, 0), "2.1": (2, 1), "2.2": (2, 2)}
READABLE_FILE_VERSIONS: dict[str, FileVersion] = {**WRITABLE_FILE_VERSIONS, "2.3": (2, 3)}


def version_name(version: FileVersion) -> str:
    """The name of a version, for example ``2.1``."""
    return "{}.{}".format(*version)
