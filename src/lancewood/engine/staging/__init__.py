"""A table in a transaction of a repository: states that are built and not visible yet, and how they
land.
"""

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

if TYPE_CHECKING:
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

__getattr__, __dir__ = lazy_names(
    globals(),
    {
        "lancewood.engine.staging.landing": "LandingState find_landing land",
        "lancewood.engine.staging.staging": "Stage",
        "lancewood.engine.staging.steps": "Landed already_made is_in_place is_last_step",
    },
)
