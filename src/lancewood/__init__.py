"""Lancewood: git for Lance tables, at Spark scale.

import lancewood as lw

photos = lw.create("photos.lance", data)
photos = photos.append(more, message="day 2")
lw.open("photos.lance", version=1).count_rows()

What stands behind a name is loaded when it is first asked for, so that ``lw --help`` and whoever
only wants the errors do not wait for Arrow.
"""

from typing import TYPE_CHECKING

from lancewood.errors import (
    AlreadyExistsError,
    BatchAppliedError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    IncompatibleConflictError,
    IntegrityError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    RunFailedError,
    StorageError,
    UnsupportedError,
)
from lancewood.lazy_names import lazy_names
from lancewood.version import RELEASE as __version__

if TYPE_CHECKING:
    from lancewood.data.blob_file import BlobFile
    from lancewood.engine.base_paths import BasePath
    from lancewood.engine.history import VersionInfo
    from lancewood.engine.index_mask import IndexMask
    from lancewood.engine.stats import TableStats
    from lancewood.jobs.cloning.deep import DeepClone
    from lancewood.jobs.cloning.detach import DetachCounts
    from lancewood.jobs.cloning.shallow import ShallowClone
    from lancewood.jobs.counts import CompactionCounts, MoveCounts, RowCounts
    from lancewood.jobs.publishing.publish import Published
    from lancewood.jobs.relocation.relocate import RelocationReport
    from lancewood.jobs.runner import LocalRunner
    from lancewood.jobs.upkeep.cleanup import CleanupReport
    from lancewood.jobs.upkeep.proposals import RepairReport
    from lancewood.jobs.upkeep.verify import VerifyReport
    from lancewood.model.refs import Branch, Tag
    from lancewood.query.answer import Answer, sql
    from lancewood.repo.repository import Repository
    from lancewood.table.changing import Changes
    from lancewood.table.door import create, drop, exists, migrate_names, open, relocate, repair
    from lancewood.table.scan import Scan
    from lancewood.table.table import Table

_HOMES = {
    "Answer": "lancewood.query.answer",
    "BasePath": "lancewood.engine.base_paths",
    "BlobFile": "lancewood.data.blob_file",
    "Branch": "lancewood.model.refs",
    "Changes": "lancewood.table.changing",
    "CleanupReport": "lancewood.jobs.upkeep.cleanup",
    "CompactionCounts": "lancewood.jobs.counts",
    "DeepClone": "lancewood.jobs.cloning.deep",
    "DetachCounts": "lancewood.jobs.cloning.detach",
    "IndexMask": "lancewood.engine.index_mask",
    "LocalRunner": "lancewood.jobs.runner",
    "MoveCounts": "lancewood.jobs.counts",
    "Published": "lancewood.jobs.publishing.publish",
    "RelocationReport": "lancewood.jobs.relocation.relocate",
    "RepairReport": "lancewood.jobs.upkeep.proposals",
    "Repository": "lancewood.repo.repository",
    "RowCounts": "lancewood.jobs.counts",
    "Scan": "lancewood.table.scan",
    "ShallowClone": "lancewood.jobs.cloning.shallow",
    "Table": "lancewood.table.table",
    "TableStats": "lancewood.engine.stats",
    "Tag": "lancewood.model.refs",
    "VerifyReport": "lancewood.jobs.upkeep.verify",
    "VersionInfo": "lancewood.engine.history",
    "create": "lancewood.table.door",
    "drop": "lancewood.table.door",
    "exists": "lancewood.table.door",
    "migrate_names": "lancewood.table.door",
    "open": "lancewood.table.door",
    "relocate": "lancewood.table.door",
    "repair": "lancewood.table.door",
    "sql": "lancewood.query.answer",
}

__all__ = [
    "AlreadyExistsError",
    "Answer",
    "BasePath",
    "BatchAppliedError",
    "BlobFile",
    "Branch",
    "Changes",
    "CleanupReport",
    "CommitUnknownError",
    "CompactionCounts",
    "ConflictError",
    "DeepClone",
    "DetachCounts",
    "FormatError",
    "IncompatibleConflictError",
    "IndexMask",
    "IntegrityError",
    "InvalidInputError",
    "LancewoodError",
    "LocalRunner",
    "MoveCounts",
    "NotFoundError",
    "Published",
    "RelocationReport",
    "RepairReport",
    "Repository",
    "RetryableConflictError",
    "RowCounts",
    "RunFailedError",
    "Scan",
    "ShallowClone",
    "StorageError",
    "Table",
    "TableStats",
    "Tag",
    "UnsupportedError",
    "VerifyReport",
    "VersionInfo",
    "__version__",
    "create",
    "drop",
    "exists",
    "migrate_names",
    "open",
    "relocate",
    "repair",
    "sql",
]

__getattr__, __dir__ = lazy_names(globals(), _HOMES)
