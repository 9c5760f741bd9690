"""What the tests of the benchmarks need."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def _little_garbage() -> None:
    """The clock collects garbage before every sample: what other tests left is not looked at."""
    gc.collect()
    gc.freeze()
