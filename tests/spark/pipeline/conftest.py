"""Pipelines need a newer Spark than tables do."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def pipelines() -> None:
    """Skip everything here where this Spark has none."""
    from tests.spark.needs import why_not

    from lancewood.spark.abilities import PIPELINES, release_here

    if not PIPELINES.is_in(release_here()):
        pytest.skip(why_not(PIPELINES))
