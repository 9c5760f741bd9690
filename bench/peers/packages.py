"""Which package of a peer goes with which Spark, and what Spark's client says when it has none.

Knows names and versions. Fetches nothing, and names no registry: Spark's client has its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Minor: TypeAlias = tuple[int, int]

COMMON_SPARK = "4.1.4"
"""The newest Spark on which Lancewood runs and for which Delta and Iceberg have a package."""
OLDER_SPARK = "3.5.9"
"""The newest Spark for which lance-spark has a package."""

DELTA, ICEBERG, LANCE_SPARK = "Delta", "Iceberg", "lance-spark"

PACKAGES: Mapping[str, Mapping[Minor, str]] = {
    DELTA: {
        (3, 5): "io.delta:delta-spark_2.12:3.3.3",
        (4, 0): "io.delta:delta-spark_4.0_2.13:4.4.0",
        (4, 1): "io.delta:delta-spark_4.1_2.13:4.4.0",
        (4, 2): "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    ICEBERG: {
        (3, 5): "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",
        (4, 0): "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        (4, 1): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    LANCE_SPARK: {(3, 5): "org.lance:lance-spark-3.5_2.12:0.4.0"},
}

_UNRESOLVED = re.compile(r"unresolved dependency: ([^#\s]+)#([^;\s]+);([^:\s]+): not found")
_VERSION = re.compile(r"(\d+)\.(\d+)\.\d+")


@dataclass(frozen=True, slots=True)
class Choice:
    """A package, and whether it was made for another Spark than the one it is tried on."""

    package: str
    made_for: Minor
    is_foreign: bool


def minor(version: str) -> Minor:
    """``(4, 1)`` of ``4.1.4``. Raises ValueError where it is not such a number."""
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ValueError(f"{version!r} is not a version of Spark; one looks like {COMMON_SPARK}")
    return int(found[1]), int(found[2])


def choose(peer: str, spark: str) -> Choice:
    """The package for that Spark, else the one for the newest Spark before it, to be tried.

    Raises ValueError where the peer has only packages for newer Sparks, or of another first number:
    those are compiled for another Scala.
    """
    asked, offered = minor(spark), PACKAGES[peer]
    older = [each for each in offered if each <= asked and each[0] == asked[0]]
    if not older:
        known = ", ".join(f"{first}.{second}" for first, second in sorted(offered))
        raise ValueError(f"{peer} has no package for Spark {spark}: it has one for {known}")
    newest = max(older)
    return Choice(offered[newest], newest, newest != asked)


def refusal(package: str, output: str) -> str:
    """Why it could not be fetched, in one line, from what Spark's client printed.

    The client says the same of a package that nobody has and of a network that is not there.
    """
    missing = [":".join(found.groups()) for found in _UNRESOLVED.finditer(output)]
    if not missing:
        return f"{package} cannot be fetched: Spark's client ended without a reason"
    what = "it" if package in missing else f"{missing[0]}, which it needs"
    return f"{package} cannot be fetched: Spark's client finds no registry that has {what}"
