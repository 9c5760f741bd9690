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
    from lancewood.repo import (
        Commit,
        Committed,
        Divergence,
        FsckReport,
        GcReport,
        Head,
        LogEntry,
        NotLandedWarning,
        Pin,
        Repository,
        Shown,
        Status,
        TableChange,
        TableDone,
        TableStatus,
        TakenIn,
        View,
    )
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
    "Commit": "lancewood.git.objects",
    "Committed": "lancewood.repo.outcome",
    "CompactionCounts": "lancewood.jobs.job",
    "DeepClone": "lancewood.jobs.cloning.clone",
    "DetachCounts": "lancewood.jobs.cloning.detach",
    "Divergence": "lancewood.repo.outcome",
    "FsckReport": "lancewood.repo.fsck",
    "GcReport": "lancewood.repo.gc.needed",
    "Head": "lancewood.git.refs",
    "IndexMask": "lancewood.engine.rows.index_mask",
    "LocalRunner": "lancewood.jobs.runner",
    "LogEntry": "lancewood.git.reflog",
    "MoveCounts": "lancewood.jobs.job",
    "NotLandedWarning": "lancewood.repo.outcome",
    "Pin": "lancewood.catalog.pin",
    "Published": "lancewood.jobs.publishing.publish",
    "RelocationReport": "lancewood.jobs.relocate",
    "RepairReport": "lancewood.jobs.upkeep.problems",
    "Repository": "lancewood.repo.repository",
    "RowCounts": "lancewood.jobs.job",
    "Scan": "lancewood.table.scan",
    "ShallowClone": "lancewood.jobs.cloning.clone",
    "Shown": "lancewood.repo.looking.comparing",
    "Status": "lancewood.repo.looking.status",
    "Table": "lancewood.table.table",
    "TableChange": "lancewood.repo.looking.comparing",
    "TableDone": "lancewood.repo.outcome",
    "TableStats": "lancewood.engine.snapshot.snapshot",
    "TableStatus": "lancewood.repo.looking.status",
    "Tag": "lancewood.model.refs",
    "TakenIn": "lancewood.repo.outcome",
    "VerifyReport": "lancewood.jobs.upkeep.verify",
    "VersionInfo": "lancewood.engine.versions.history",
    "View": "lancewood.repo.looking.view",
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
    "Commit",
    "CommitUnknownError",
    "Committed",
    "CompactionCounts",
    "ConflictError",
    "DeepClone",
    "DetachCounts",
    "Divergence",
    "FormatError",
    "FsckReport",
    "GcReport",
    "Head",
    "IncompatibleConflictError",
    "IndexMask",
    "IntegrityError",
    "InvalidInputError",
    "LancewoodError",
    "LocalRunner",
    "LogEntry",
    "MoveCounts",
    "NotFoundError",
    "NotLandedWarning",
    "Pin",
    "Published",
    "RelocationReport",
    "RepairReport",
    "Repository",
    "RetryableConflictError",
    "RowCounts",
    "RunFailedError",
    "Scan",
    "ShallowClone",
    "Shown",
    "Status",
    "StorageError",
    "Table",
    "TableChange",
    "TableDone",
    "TableStats",
    "TableStatus",
    "Tag",
    "TakenIn",
    "UnsupportedError",
    "VerifyReport",
    "VersionInfo",
    "View",
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
