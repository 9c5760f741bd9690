"""A table that is handed over open, instead of a uri: a state of a transaction, or a handle on a
branch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.table.by_uri import open as open_table
from lancewood.table.table import Table


def opened(uri: str | os.PathLike[str] | Table, how: Mapping[str, Any]) -> Snapshot:
    """The version that is asked for, or that a handle is on; raises what either raises."""
    given = snapshot_in(uri, **how)
    if given is not None:
        return given
    assert not isinstance(uri, Table)
    return open_table(uri, **how)._snapshot


def snapshot_in(given: Any, **how: Any) -> Snapshot | None:
    """The version that a handle is on; None for a uri.

    ``how`` are the arguments that say how a table is opened. Raises InvalidInputError for one that
    comes with a handle, where it would do nothing.
    """
    if not isinstance(given, Table):
        return None
    for name, value in how.items():
        if value is not None and value is not False:
            raise InvalidInputError(
                f"{name}= says how a table is opened, and this one is open already: leave it out, "
                "or give the uri"
            )
    return given._snapshot
