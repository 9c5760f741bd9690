"""A table in a transaction of a repository: states that are built and not visible, and how they
land.
"""

from __future__ import annotations

from lancewood.engine.staging.landing import LandingState, find_landing, land
from lancewood.engine.staging.staging import Stage
from lancewood.engine.staging.steps import Landed, already_made, is_in_place, is_last_step

__all__ = [
    "Landed",
    "LandingState",
    "Stage",
    "already_made",
    "find_landing",
    "is_in_place",
    "is_last_step",
    "land",
]
