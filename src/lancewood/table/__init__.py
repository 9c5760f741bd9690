"""One table: the handle that people hold, what its verbs answer, and the words of tables that the
rooms above need. A name is loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

if TYPE_CHECKING:
    from lancewood.data.blob_file import BlobFile
    from lancewood.engine.base import FileLimits
    from lancewood.engine.location import BasePath
    from lancewood.engine.rows import IndexMask
    from lancewood.engine.schema import Parameters
    from lancewood.engine.snapshot import Access, Address, At, TableStats
    from lancewood.engine.upkeep import Dropped, MigratedNames, examine
    from lancewood.engine.versions import VersionInfo
    from lancewood.engine.write import Layout
    from lancewood.expr import shorten
    from lancewood.external.base import ManifestStore
    from lancewood.external.lock import CommitLock
    from lancewood.format.logical_type import parse_column, parse_type
    from lancewood.jobs.counts import (
        ColumnCounts,
        CompactionCounts,
        Counts,
        DeepClone,
        DetachCounts,
        IndexCounts,
        Merged,
        MoveCounts,
        Published,
        RowCounts,
        ShallowClone,
        stale_note,
    )
    from lancewood.jobs.index.listing import IndexInfo
    from lancewood.jobs.job import CommitOptions
    from lancewood.jobs.merge.resolve import Resolve
    from lancewood.jobs.merge_into.source import Choices, Matched, NotMatched, NotMatchedBySource
    from lancewood.jobs.relocate import RelocationReport
    from lancewood.jobs.runner import LocalRunner, Runner
    from lancewood.jobs.upkeep.cleanup import CleanupReport
    from lancewood.jobs.upkeep.problems import Problem, RepairReport
    from lancewood.jobs.upkeep.retention import COMMITTING, IN_FLIGHT
    from lancewood.jobs.upkeep.verify import VerifyReport
    from lancewood.model.fragment import Fragment
    from lancewood.model.ids import version_words
    from lancewood.model.index import Index
    from lancewood.model.refs import MAIN, Branch, Tag, called
    from lancewood.model.schema import EXTENSION_NAME, Field
    from lancewood.model.transaction import (
        Append,
        CreateIndex,
        DataReplacement,
        Delete,
        Merge,
        Operation,
        Overwrite,
        Project,
        ReserveFragments,
        Restore,
        Rewrite,
        Transaction,
        Update,
        UpdateBases,
        UpdateConfig,
    )
    from lancewood.store.checkup import CheckStatus, StoreCheck
    from lancewood.store.options import is_secret
    from lancewood.table.blame import Blame
    from lancewood.table.by_uri import (
        NamedVersion,
        create,
        diff,
        drop,
        exists,
        migrate_names,
        open,
        open_named,
        relocate,
        repair,
    )
    from lancewood.table.details import StoredFile, TableDetails, count_versions, history
    from lancewood.table.diffs import (
        CHANGE,
        ChangedRows,
        Changes,
        Diff,
        DiffCells,
        DiffStat,
        SchemaDiff,
        files_added,
    )
    from lancewood.table.indices import Indices
    from lancewood.table.naming import Conflicts
    from lancewood.table.scan import Scan
    from lancewood.table.schemas import (
        check_index,
        check_key,
        check_rules,
        check_where,
        index_kind,
        is_column_name,
        scanned_schema,
    )
    from lancewood.table.table import Table

__all__ = [
    "CHANGE",
    "COMMITTING",
    "EXTENSION_NAME",
    "IN_FLIGHT",
    "MAIN",
    "Access",
    "Address",
    "Append",
    "At",
    "BasePath",
    "Blame",
    "BlobFile",
    "Branch",
    "ChangedRows",
    "Changes",
    "CheckStatus",
    "Choices",
    "CleanupReport",
    "ColumnCounts",
    "CommitLock",
    "CommitOptions",
    "CompactionCounts",
    "Conflicts",
    "Counts",
    "CreateIndex",
    "DataReplacement",
    "DeepClone",
    "Delete",
    "DetachCounts",
    "Diff",
    "DiffCells",
    "DiffStat",
    "Dropped",
    "Field",
    "FileLimits",
    "Fragment",
    "Index",
    "IndexCounts",
    "IndexInfo",
    "IndexMask",
    "Indices",
    "Layout",
    "LocalRunner",
    "ManifestStore",
    "Matched",
    "Merge",
    "Merged",
    "MigratedNames",
    "MoveCounts",
    "NamedVersion",
    "NotMatched",
    "NotMatchedBySource",
    "Operation",
    "Overwrite",
    "Parameters",
    "Problem",
    "Project",
    "Published",
    "RelocationReport",
    "RepairReport",
    "ReserveFragments",
    "Resolve",
    "Restore",
    "Rewrite",
    "RowCounts",
    "Runner",
    "Scan",
    "SchemaDiff",
    "ShallowClone",
    "StoreCheck",
    "StoredFile",
    "Table",
    "TableDetails",
    "TableStats",
    "Tag",
    "Transaction",
    "Update",
    "UpdateBases",
    "UpdateConfig",
    "VerifyReport",
    "VersionInfo",
    "called",
    "check_index",
    "check_key",
    "check_rules",
    "check_where",
    "count_versions",
    "create",
    "diff",
    "drop",
    "examine",
    "exists",
    "files_added",
    "history",
    "index_kind",
    "is_column_name",
    "is_secret",
    "migrate_names",
    "open",
    "open_named",
    "parse_column",
    "parse_type",
    "relocate",
    "repair",
    "scanned_schema",
    "shorten",
    "stale_note",
    "version_words",
]

_NAMES = {
    "lancewood.store.options": "is_secret",
    "lancewood.model.schema": "EXTENSION_NAME Field",
    "lancewood.table.details": "StoredFile TableDetails count_versions history",
    "lancewood.data.blob_file": "BlobFile",
    "lancewood.engine.base": "FileLimits",
    "lancewood.engine.location": "BasePath",
    "lancewood.engine.rows": "IndexMask",
    "lancewood.engine.schema": "Parameters",
    "lancewood.engine.snapshot": "Access Address At TableStats",
    "lancewood.engine.upkeep": "MigratedNames examine Dropped",
    "lancewood.engine.versions": "VersionInfo",
    "lancewood.engine.write": "Layout",
    "lancewood.expr": "shorten",
    "lancewood.external.base": "ManifestStore",
    "lancewood.external.lock": "CommitLock",
    "lancewood.format.logical_type": "parse_column parse_type",
    "lancewood.jobs.counts": (
        "ColumnCounts CompactionCounts Counts DeepClone DetachCounts IndexCounts Merged MoveCounts "
        "Published RowCounts ShallowClone stale_note"
    ),
    "lancewood.jobs.index.listing": "IndexInfo",
    "lancewood.jobs.job": "CommitOptions",
    "lancewood.jobs.merge_into.source": "Choices Matched NotMatched NotMatchedBySource",
    "lancewood.jobs.relocate": "RelocationReport",
    "lancewood.jobs.runner": "LocalRunner Runner",
    "lancewood.jobs.merge.resolve": "Resolve",
    "lancewood.jobs.upkeep.cleanup": "CleanupReport",
    "lancewood.jobs.upkeep.problems": "Problem RepairReport",
    "lancewood.jobs.upkeep.retention": "COMMITTING IN_FLIGHT",
    "lancewood.jobs.upkeep.verify": "VerifyReport",
    "lancewood.model.fragment": "Fragment",
    "lancewood.model.index": "Index",
    "lancewood.model.transaction": (
        "Append CreateIndex DataReplacement Delete Merge Operation Overwrite Project "
        "ReserveFragments Restore Rewrite Transaction Update UpdateBases UpdateConfig"
    ),
    "lancewood.model.ids": "version_words",
    "lancewood.model.refs": "MAIN Branch Tag called",
    "lancewood.store.checkup": "CheckStatus StoreCheck",
    "lancewood.table.blame": "Blame",
    "lancewood.table.diffs": (
        "CHANGE ChangedRows Changes Diff DiffCells DiffStat SchemaDiff files_added"
    ),
    "lancewood.table.by_uri": (
        "NamedVersion create diff drop exists migrate_names open open_named relocate repair"
    ),
    "lancewood.table.indices": "Indices",
    "lancewood.table.naming": "Conflicts",
    "lancewood.table.scan": "Scan",
    "lancewood.table.schemas": (
        "check_index check_key check_rules check_where index_kind is_column_name scanned_schema"
    ),
    "lancewood.table.table": "Table",
}
__getattr__, __dir__ = lazy_names(globals(), _NAMES)
