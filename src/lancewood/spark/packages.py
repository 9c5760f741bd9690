"""Which packages this Python has, in which versions. Imports none of them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed(package: str) -> str | None:
    """The version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def installed_pyspark() -> str | None:
    """The version of pyspark, whole or as the client of Spark Connect alone."""
    return installed("pyspark") or installed("pyspark-client")


def is_connect_only() -> bool:
    """Whether there is nothing of Spark but the client of Spark Connect, which needs no Java."""
    return installed("pyspark") is None and installed("pyspark-client") is not None
