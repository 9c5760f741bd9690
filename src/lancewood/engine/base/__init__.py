"""What all of the engine uses: checked numbers and lists, several producers at once with bounded
memory, and any Arrow data as one stream.
"""

from __future__ import annotations

from lancewood.engine.base.addresses import Addresses, addresses_in, offsets_by_fragment, offsets_of
from lancewood.engine.base.arrow_input import as_reader
from lancewood.engine.base.fanout import WORKERS, Task, in_order
from lancewood.engine.base.limits import (
    MOST,
    FileLimits,
    as_list,
    check_choice,
    check_file_version,
    check_number,
)

__all__ = [
    "MOST",
    "WORKERS",
    "Addresses",
    "FileLimits",
    "Task",
    "addresses_in",
    "as_list",
    "as_reader",
    "check_choice",
    "check_file_version",
    "check_number",
    "in_order",
    "offsets_by_fragment",
    "offsets_of",
]
