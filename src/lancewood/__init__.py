"""Lancewood: git for Lance tables, at Spark scale.

import lancewood as lw

photos = lw.create("photos.lance", data)
photos = photos.append(more, message="day 2")
lw.open("photos.lance", version=1).count_rows()

What stands behind a name is loaded when it is first asked for, so that ``lw --help`` and whoever
only wants the errors do not wait for Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    IncompatibleConflictError,
    IntegrityError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedError,
)
from lancewood.version import RELEASE as __version__

if TYPE_CHECKING:
    from lancewood.data.blob_file import BlobFile
    from lancewood.engine.history import VersionInfo
    from lancewood.engine.index_mask import IndexMask
    from lancewood.engine.stats import TableStats
    from lancewood.jobs.counts import CompactionCounts, RowCounts
    from lancewood.jobs.runner import LocalRunner
    from lancewood.jobs.upkeep.cleanup import CleanupReport
    from lancewood.jobs.upkeep.proposals import RepairReport
    from lancewood.jobs.upkeep.verify import VerifyReport
    from lancewood.table.changing import Changes
    from lancewood.table.door import create, drop, exists, migrate_names, open, repair
    from lancewood.table.scan import Scan
    from lancewood.table.table import Table

_HOMES = {
    "BlobFile": "lancewood.data.blob_file",
    "Changes": "lancewood.table.changing",
    "CleanupReport": "lancewood.jobs.upkeep.cleanup",
    "CompactionCounts": "lancewood.jobs.counts",
    "IndexMask": "lancewood.engine.index_mask",
    "LocalRunner": "lancewood.jobs.runner",
    "RepairReport": "lancewood.jobs.upkeep.proposals",
    "RowCounts": "lancewood.jobs.counts",
    "Scan": "lancewood.table.scan",
    "Table": "lancewood.table.table",
    "TableStats": "lancewood.engine.stats",
    "VerifyReport": "lancewood.jobs.upkeep.verify",
    "VersionInfo": "lancewood.engine.history",
    "create": "lancewood.table.door",
    "drop": "lancewood.table.door",
    "exists": "lancewood.table.door",
    "migrate_names": "lancewood.table.door",
    "open": "lancewood.table.door",
    "repair": "lancewood.table.door",
}

__all__ = [
    "AlreadyExistsError",
    "BlobFile",
    "Changes",
    "CleanupReport",
    "CommitUnknownError",
    "CompactionCounts",
    "ConflictError",
    "FormatError",
    "IncompatibleConflictError",
    "IndexMask",
    "IntegrityError",
    "InvalidInputError",
    "LancewoodError",
    "LocalRunner",
    "NotFoundError",
    "RepairReport",
    "RetryableConflictError",
    "RowCounts",
    "Scan",
    "StorageError",
    "Table",
    "TableStats",
    "UnsupportedError",
    "VerifyReport",
    "VersionInfo",
    "__version__",
    "create",
    "drop",
    "exists",
    "migrate_names",
    "open",
    "repair",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
