"""The environment of a process that a test starts: as a user's shell would have it."""

from __future__ import annotations

import os

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for seconds on a busy machine; it halves the time of these tests."""


def of_a_shell(**more: str) -> dict[str, str]:
    """Without what sessions of this worker have set, such as that the last one was of Connect,
    and without what a ``make`` that runs the tests has."""
    own = {name for name in os.environ if "SPARK_" in name or "MAKE" in name}
    return {name: os.environ[name] for name in os.environ.keys() - own} | more
