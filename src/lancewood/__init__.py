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
    from lancewood.engine.location import BasePath
    from lancewood.engine.rows import IndexMask
    from lancewood.engine.snapshot import TableStats
    from lancewood.engine.versions import VersionInfo
    from lancewood.jobs.cloning.clone import DeepClone, ShallowClone
    from lancewood.jobs.cloning.detach import DetachCounts
    from lancewood.jobs.job import CompactionCounts, MoveCounts, RowCounts
    from lancewood.jobs.publishing.publish import Published
    from lancewood.jobs.relocate import RelocationReport
    from lancewood.jobs.runner import LocalRunner
    from lancewood.jobs.upkeep.cleanup import CleanupReport
    from lancewood.jobs.upkeep.problems import RepairReport
    from lancewood.jobs.upkeep.verify import VerifyReport
    from lancewood.model.refs import Branch, Tag
    from lancewood.query.answer import Answer, sql
    from lancewood.repo.repository import Repository
    from lancewood.table.changing import Changes
    from lancewood.table.door import create, drop, exists, migrate_names, open, relocate, repair
    from lancewood.table.scan import Scan
    from lancewood.table.table import Table

_MODULES = {
    "Answer": "lancewood.query.answer",
    "BasePath": "lancewood.engine.location.base_paths",
    "BlobFile": "lancewood.data.blob_file",
    "Branch": "lancewood.model.refs",
    "Changes": "lancewood.table.changing",
    "CleanupReport": "lancewood.jobs.upkeep.cleanup",
    "CompactionCounts": "lancewood.jobs.job",
    "DeepClone": "lancewood.jobs.cloning.clone",
    "DetachCounts": "lancewood.jobs.cloning.detach",
    "IndexMask": "lancewood.engine.rows.index_mask",
    "LocalRunner": "lancewood.jobs.runner",
    "MoveCounts": "lancewood.jobs.job",
    "Published": "lancewood.jobs.publishing.publish",
    "RelocationReport": "lancewood.jobs.relocate",
    "RepairReport": "lancewood.jobs.upkeep.problems",
    "Repository": "lancewood.repo.repository",
    "RowCounts": "lancewood.jobs.job",
    "Scan": "lancewood.table.scan",
    "ShallowClone": "lancewood.jobs.cloning.clone",
    "Table": "lancewood.table.table",
    "TableStats": "lancewood.engine.snapshot.snapshot",
    "Tag": "lancewood.model.refs",
    "VerifyReport": "lancewood.jobs.upkeep.verify",
    "VersionInfo": "lancewood.engine.versions.history",
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

__getattr__, __dir__ = lazy_names(globals(), _MODULES)
