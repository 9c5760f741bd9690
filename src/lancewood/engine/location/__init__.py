"""Where a table lives: its root, its base paths wherever they are today, and where new files go."""

from __future__ import annotations

from lancewood.engine.location.base_paths import (
    BasePath,
    NewBase,
    base_options,
    check_location,
    check_not_moved,
    checked_bases,
    declared_bases,
    is_table_root,
    moved_bases,
    new_base_paths,
    normal_path,
    uri_of_base,
)
from lancewood.engine.location.deletion_vectors import deletion_key, load_deletions, write_deletions
from lancewood.engine.location.file_roots import (
    Base,
    Bases,
    NewFile,
    default_file_root,
    discard,
    file_roots_to_write,
    find_base_path,
    find_file_root,
    ids_to_read,
    new_data_file,
    new_data_files,
    new_deletion_files,
    own_file_root,
)
from lancewood.engine.location.location import Location
from lancewood.engine.location.moved_roots import find_trace, real_path

__all__ = [
    "Base",
    "BasePath",
    "Bases",
    "Location",
    "NewBase",
    "NewFile",
    "base_options",
    "check_location",
    "check_not_moved",
    "checked_bases",
    "declared_bases",
    "default_file_root",
    "deletion_key",
    "discard",
    "file_roots_to_write",
    "find_base_path",
    "find_file_root",
    "find_trace",
    "ids_to_read",
    "is_table_root",
    "load_deletions",
    "moved_bases",
    "new_base_paths",
    "new_data_file",
    "new_data_files",
    "new_deletion_files",
    "normal_path",
    "own_file_root",
    "real_path",
    "uri_of_base",
    "write_deletions",
]
