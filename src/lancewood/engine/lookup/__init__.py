"""Looking rows up: what BTREE, BITMAP and ZONEMAP indices say of a condition, by readers of our
own."""

from __future__ import annotations

from lancewood.engine.lookup.lookup import (
    NOT_COVERING,
    Lookup,
    Offsets,
    index_section,
    look_up,
    unused_indices,
)
from lancewood.engine.lookup.value_tests import ValueTests
from lancewood.engine.lookup.zones import Spans

__all__ = [
    "NOT_COVERING",
    "Lookup",
    "Offsets",
    "Spans",
    "ValueTests",
    "index_section",
    "look_up",
    "unused_indices",
]
