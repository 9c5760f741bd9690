"""Where the table of a target is, while it is written."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from lancewood.pipeline.loading.needs import Ground
from lancewood.table.door import open as open_table
from lancewood.table.table import Table


@dataclass(frozen=True)
class Place:
    """A table on the run's branch, to be written."""

    uri: str
    branch: str | None
    options: dict[str, str] | None = field(repr=False)
    """They may hold secrets."""

    def opened(self) -> Table:
        """As it stands now."""
        return open_table(self.uri, branch=self.branch, storage_options=self.options)


def is_there(ground: Ground, table: str) -> bool:
    """Whether there is a table to be written, perhaps by an earlier target."""
    return ground.has_now(table) or ground.has(table)


def find_place(ground: Ground, table: str) -> Place:
    """Where a table is written that is there."""
    return Place(*ground.place(table), ground.storage_options)


def new_place(ground: Ground, table: str, schema: pa.Schema, uri: str | None = None) -> Place:
    """The same for one that is not."""
    return Place(*ground.create(table, schema, uri), ground.storage_options)


def prepare_places(ground: Ground) -> None:
    """Make ready all tables that targets write and that are there, so that one which cannot be
    written, because it has diverged, is told before the first of them is."""
    tables = dict.fromkeys(each.table for each in ground.pipeline.targets)
    for each in tables:
        if is_there(ground, each):
            ground.place(each)
