"""Columns by name: what a read needs, how a change alters them, and where they were before."""

from __future__ import annotations

from lancewood.engine.schema.config import config_update, field_metadata_update, text_update
from lancewood.engine.schema.evolve import (
    Cast,
    Chain,
    cast_column,
    chains,
    drop_columns,
    find_column,
    find_field,
    is_in_structs,
    next_field_id,
    path_of,
    rename_column,
)
from lancewood.engine.schema.followed import (
    find_earlier,
    merged_columns,
    merged_from_others,
    related_columns,
)
from lancewood.engine.schema.new_columns import (
    Drop,
    NewColumns,
    missing_columns,
    nulls_of,
    plan_new_columns,
    stored_fields,
)
from lancewood.engine.schema.projection import (
    Columns,
    Parameters,
    Path,
    Projection,
    checked_names,
    cut_schema,
    project,
    project_path,
    row_schema,
    stored_paths,
    unknown_column,
)

__all__ = [
    "Cast",
    "Chain",
    "Columns",
    "Drop",
    "NewColumns",
    "Parameters",
    "Path",
    "Projection",
    "cast_column",
    "chains",
    "checked_names",
    "config_update",
    "cut_schema",
    "drop_columns",
    "field_metadata_update",
    "find_column",
    "find_earlier",
    "find_field",
    "is_in_structs",
    "merged_columns",
    "merged_from_others",
    "missing_columns",
    "next_field_id",
    "nulls_of",
    "path_of",
    "plan_new_columns",
    "project",
    "project_path",
    "related_columns",
    "rename_column",
    "row_schema",
    "stored_fields",
    "stored_paths",
    "text_update",
    "unknown_column",
]
