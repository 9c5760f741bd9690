"""What a user says to a stream that reads a table: where it begins, how fast it goes, and what
becomes of versions that changed rows.

Texts of options to one checked value. Knows no table: whether there is such a version is told
when it is looked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from lancewood.errors import InvalidInputError
from lancewood.spark import option_values as values

ON_CHANGE = "onChange"
STARTING_VERSION = "startingVersion"
STARTING_TAG = "startingTag"
STARTING_TIMESTAMP = "startingTimestamp"
MAX_VERSIONS = "maxVersionsPerTrigger"
MAX_ROWS = "maxRowsPerTrigger"
STREAM_READ_OPTIONS = (
    ON_CHANGE,
    STARTING_VERSION,
    STARTING_TAG,
    STARTING_TIMESTAMP,
    MAX_VERSIONS,
    MAX_ROWS,
)
"""The names of the options that only a stream understands."""

LATEST, EARLIEST = "latest", "earliest"
DEFAULT_MAX_VERSIONS = 1_000
"""Each version of a batch costs a small read on the driver."""
_MOST = (1 << 63) - 1


class OnChange(Enum):
    """What becomes of a version that updated or deleted rows."""

    FAIL = "fail"
    IGNORE = "ignore"
    """Only rows come that are new; what was updated or deleted is passed over."""
    CHANGES = "changes"
    """Every change is a row of its own."""


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Checked options of a stream that reads."""

    on_change: OnChange = OnChange.FAIL
    starting_version: int | None = None
    is_from_latest: bool = False
    is_from_earliest: bool = False
    starting_tag: str | None = None
    starting_timestamp: datetime | None = None
    max_versions: int = DEFAULT_MAX_VERSIONS
    max_rows: int | None = None

    @classmethod
    def parsed(cls, options: Mapping[str, str]) -> StreamOptions:
        """What the options say; those of others are passed over.

        ``options`` finds its keys in whatever case, as Spark's does. Raises InvalidInputError.
        """
        given = {name: str(options[name]) for name in STREAM_READ_OPTIONS if name in options}
        starts = (STARTING_VERSION, STARTING_TAG, STARTING_TIMESTAMP)
        said = [name for name in starts if name in given]
        if len(said) > 1:
            raise InvalidInputError(
                f"options {' and '.join(said)} each say where the stream begins; give one"
            )
        begin = given.get(STARTING_VERSION, "").strip()
        moment = given.get(STARTING_TIMESTAMP)
        version = None
        if STARTING_VERSION in given and begin.lower() not in (LATEST, EARLIEST):
            version = _number(STARTING_VERSION, begin, f", {LATEST!r} or {EARLIEST!r}")
        return cls(
            on_change=_on_change(given.get(ON_CHANGE, OnChange.FAIL.value)),
            starting_version=version,
            is_from_latest=begin.lower() == LATEST,
            is_from_earliest=begin.lower() == EARLIEST,
            starting_tag=given.get(STARTING_TAG),
            starting_timestamp=None
            if moment is None
            else values.moment(STARTING_TIMESTAMP, moment),
            max_versions=_number(MAX_VERSIONS, given.get(MAX_VERSIONS, str(DEFAULT_MAX_VERSIONS))),
            max_rows=_number(MAX_ROWS, given[MAX_ROWS]) if MAX_ROWS in given else None,
        )


def _on_change(text: str) -> OnChange:
    try:
        return OnChange(text.strip().lower())
    except ValueError:
        words = ", ".join(repr(each.value) for each in OnChange)
        raise InvalidInputError(f"option {ON_CHANGE!r} takes {words}, got {text!r}") from None


def _number(name: str, text: str, others: str = "") -> int:
    return values.number(name, text, least=1, most=_MOST, others=others)
