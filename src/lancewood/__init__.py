"""Lancewood: git for Lance tables, at Spark scale.

import lancewood as lw

photos = lw.create("photos.lance", data)
photos = photos.append(more, message="day 2")
lw.open("photos.lance", version=1).count_rows()
"""

from lancewood.engine.history import VersionInfo
from lancewood.engine.stats import TableStats
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
from lancewood.table.door import create, drop, exists, open
from lancewood.table.scan import Scan
from lancewood.table.table import Table
from lancewood.version import RELEASE as __version__

__all__ = [
    "AlreadyExistsError",
    "CommitUnknownError",
    "ConflictError",
    "FormatError",
    "IncompatibleConflictError",
    "IntegrityError",
    "InvalidInputError",
    "LancewoodError",
    "NotFoundError",
    "RetryableConflictError",
    "Scan",
    "StorageError",
    "Table",
    "TableStats",
    "UnsupportedError",
    "VersionInfo",
    "__version__",
    "create",
    "drop",
    "exists",
    "open",
]
