"""The file formats that rows come from and go to: their names, suffixes and detection."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePath

from lancewood.errors import InvalidInputError

COMPRESSED = frozenset({".gz", ".bz2", ".zst", ".lz4"})


class FileFormat(StrEnum):
    """As ``--format`` takes them."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"
    ARROW_STREAM = "arrow-stream"


SUFFIXES = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".tsv": FileFormat.CSV,
    ".json": FileFormat.JSON,
    ".jsonl": FileFormat.JSON,
    ".ndjson": FileFormat.JSON,
    ".arrow": FileFormat.ARROW,
    ".ipc": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
    ".arrows": FileFormat.ARROW_STREAM,
}


def format_of(path: str) -> FileFormat | None:
    """The format that a file's name tells; None where it tells none."""
    suffixes = PurePath(path.lower()).suffixes
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return SUFFIXES.get(suffixes[-1]) if suffixes else None


def require_format(path: str, asked: FileFormat | None) -> FileFormat:
    """The format asked for, or the one that the name tells; raises InvalidInputError."""
    found = asked or format_of(path)
    if found is None:
        known = ", ".join(SUFFIXES)
        raise InvalidInputError(
            f"the format of {path!r} cannot be told from its name: use --format, or one of {known}"
        )
    return found


def is_tab_separated(path: str) -> bool:
    """Whether a CSV file's name says that tabs are between its values."""
    return ".tsv" in PurePath(path.lower()).suffixes[-2:]
