"""A new table in the place of one that the branch had before: the same table goes on, with nothing
of what it held."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from lancewood.model.exclusive import EXCLUSIVE_KEY
from lancewood.repo.committing.staged_table import StagedTable


def begin_anew(table: StagedTable, data: Any, **options: Any) -> StagedTable:
    """The table with other columns and rows, or none for a ``pyarrow.Schema``; without settings.

    What its rows were made of goes too, such as which batches of a stream were applied. ``options``
    are those of ``overwrite``. Nobody else's write may come in between.
    """
    settings = dict.fromkeys(table.config.keys() - {EXCLUSIVE_KEY})
    if settings:
        table = table.set_config(settings)
    if table.metadata:
        table = table.set_metadata({}, replace=True)
    rows = data.empty_table() if isinstance(data, pa.Schema) else data
    return table.overwrite(rows, serializable=True, **options)
