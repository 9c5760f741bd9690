"""A table as a whole: dropped, migrated, diagnosed; and the pins that keep versions for clones."""

from __future__ import annotations

from lancewood.engine.upkeep.doctor import examine
from lancewood.engine.upkeep.drop import Dropped, drop_table
from lancewood.engine.upkeep.migrate import MigratedNames, migrate_names
from lancewood.engine.upkeep.pins import (
    CLONE_PIN,
    CLONE_PROPERTY,
    PINS_CONFIG,
    ClonePin,
    PinRecord,
    Unpinned,
    announced,
    check_not_being_removed,
    find_pins,
    new_tag,
    place_pins,
    read_record,
    remove_pins,
    without_record,
)

__all__ = [
    "CLONE_PIN",
    "CLONE_PROPERTY",
    "PINS_CONFIG",
    "ClonePin",
    "Dropped",
    "MigratedNames",
    "PinRecord",
    "Unpinned",
    "announced",
    "check_not_being_removed",
    "drop_table",
    "examine",
    "find_pins",
    "migrate_names",
    "new_tag",
    "place_pins",
    "read_record",
    "remove_pins",
    "without_record",
]
