"""What a write is, and writing files that a commit will name: rows, columns, deletions, copies; the
first version of a table, a branch or a clone.
"""

from __future__ import annotations

from lancewood.engine.write.claims import OwnIds, claim_ids, claim_space, owns_its_space
from lancewood.engine.write.cloning import (
    check_clonable,
    check_source,
    version_after,
    write_clone,
    write_clone_after,
    write_deep_clone,
)
from lancewood.engine.write.column_file import ColumnFileWriter, laid_over, mark_deleted
from lancewood.engine.write.file_copies import CopiedFile, CopiedFragment, Residents, copy_fragments
from lancewood.engine.write.file_writer import FileWriter
from lancewood.engine.write.plan import (
    Layout,
    PlannedWrite,
    WriteMode,
    WriteRequest,
    not_for,
    plan_on,
    plan_write,
    table_exists,
)
from lancewood.engine.write.write import (
    RowsToWrite,
    commit_written,
    create_table,
    rows_to_append,
    rows_to_overwrite,
    write_first,
)

__all__ = [
    "ColumnFileWriter",
    "CopiedFile",
    "CopiedFragment",
    "FileWriter",
    "Layout",
    "OwnIds",
    "PlannedWrite",
    "Residents",
    "RowsToWrite",
    "WriteMode",
    "WriteRequest",
    "check_clonable",
    "check_source",
    "claim_ids",
    "claim_space",
    "commit_written",
    "copy_fragments",
    "create_table",
    "laid_over",
    "mark_deleted",
    "not_for",
    "owns_its_space",
    "plan_on",
    "plan_write",
    "rows_to_append",
    "rows_to_overwrite",
    "table_exists",
    "version_after",
    "write_clone",
    "write_clone_after",
    "write_deep_clone",
    "write_first",
]
