"""What not every supported Spark can, since which release, and what stands in for it.

The one place that knows releases: whoever needs an ability asks here, and the doctor lists what
an installed Spark lacks. Starts nothing, and asks a session for its version once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from lancewood.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Release: TypeAlias = tuple[int, ...]
"""The numbers of a version, such as 4, 0, 5; a release is told by the first two."""

OLDEST: Release = (3, 5)
NEWEST: Release = (4, 3)
"""The newest that was tried; the next major release is not taken."""


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that a Spark has from some release on."""

    what: str
    since: Release
    without: str
    """What older ones do instead, or the way out."""

    def is_in(self, release: Release) -> bool:
        return release[:2] >= self.since


SOURCES = Ability(
    'format("lance")', (4, 0), "lancewood.spark.read() and write() do the same for batches"
)
CONNECT = Ability("Spark Connect", (4, 0), "use a session on a cluster of that Spark")
BOUNDED_BATCHES = Ability(
    "batches by bytes",
    (4, 0),
    "for wide rows lower spark.sql.execution.arrow.maxRecordsPerBatch",
)
PIPELINES = Ability("pipelines", (4, 0), "read(), write() and sql() do their steps one by one")
STRICT_SQL = Ability(
    "errors for what SQL cannot compute",
    (4, 0),
    "such values are null, unless spark.sql.ansi.enabled is true",
)
TIMES = Ability("times to the nanosecond", (4, 3), "leave the column out with columns=")
DOUBLED_QUOTES = Ability(
    "'' in texts of SQL", (4, 1), "such a text is two texts in a row: write \\' for a quote"
)
ARROW_FUNCTIONS = Ability(
    "functions of Arrow arrays", (4, 1), "let it take values, or make it a pandas_udf of PySpark's"
)
LIMITED_STREAMS = Ability(
    "limits of streams",
    (4, 2),
    "a batch has all that is there; leave the option out",
)
MISSED = (
    *(SOURCES, CONNECT, PIPELINES, STRICT_SQL, BOUNDED_BATCHES, DOUBLED_QUOTES),
    *(ARROW_FUNCTIONS, LIMITED_STREAMS, TIMES),
)
"""Abilities whose lack people notice."""

ARROW_FRAMES = Ability("frames from and to Arrow tables", (4, 0), "they go by rows or batches")
TAGGED_THREADS = Ability("threads with the tags of a session", (4, 0), "they have none")
LOGGED_REFUSALS = Ability("a log of refused queries", (4, 0), "they are raised and not printed")
PLACING = Ability("rows sent to a partition by its number", (4, 1), "a hash leads them there")

_of_sessions: WeakKeyDictionary[Any, Release] = WeakKeyDictionary()


def release_of(spark: SparkSession) -> Release:
    """What the session can: its Spark's release, or pyspark's here if that is an older one."""
    known = _of_sessions.get(spark)
    if known is None:
        known = _of_sessions[spark] = min(parse_release(spark.version), release_here())
    return known


def release_here() -> Release:
    """The release of pyspark in this process."""
    import pyspark

    return parse_release(pyspark.__version__)


def require(asked: str, ability: Ability, release: Release, **facts: object) -> None:
    """Raise UnsupportedError for what was asked if that release lacks what it needs."""
    if not ability.is_in(release):
        raise UnsupportedError(
            f"{asked} needs {ability.what}, which Spark has from {shown(ability.since)} on, and "
            f"this is {shown(release)}: {ability.without}",
            spark=shown(release),
            **facts,
        )


def parse_release(text: str) -> Release:
    """The leading numbers of a version: 4, 1, 0 of ``4.1.0.dev1``, 3, 5, 0 of ``3.5.0-amzn-1``."""
    found: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if digits:
            found.append(int(digits))
        if digits != part:
            break
    return tuple(found)


def shown(release: Release) -> str:
    """A release as people write it, such as 4.0.1."""
    return ".".join(map(str, release))
