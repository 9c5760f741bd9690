"""What a test needs that not every supported Spark has: without it, the test is skipped.

Where there is no pyspark, a module that imports this one is skipped.
"""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from lancewood.spark.abilities import SOURCES, Ability, release_here, shown

COLLATIONS = Ability("collations and letters of newer Unicode", (4, 0), "")
VARIANTS = Ability("variants", (4, 0), "")
HAS_SOURCES = SOURCES.is_in(release_here())


def needs(ability: Ability) -> pytest.MarkDecorator:
    """A mark for a test, a module or a parameter."""
    lacks = not ability.is_in(release_here())
    return pytest.mark.skipif(lacks, reason=why_not(ability))


def why_not(ability: Ability) -> str:
    return f"Spark has {ability.what} from {shown(ability.since)} on"
