"""Where a table lives: its root, its base paths wherever they are today, and the homes of new
files.
"""

from __future__ import annotations

from lancewood.engine.place.base_homes import find_trace, real_path
from lancewood.engine.place.base_paths import (
    BasePath,
    NewBase,
    base_options,
    check_not_moved,
    check_place,
    checked_bases,
    declared_bases,
    is_table_root,
    moved_bases,
    new_base_paths,
    normal_path,
    uri_of_base,
)
from lancewood.engine.place.homes import (
    Base,
    Bases,
    NewFile,
    data_home,
    discard,
    find_base_path,
    find_home,
    homes_to_write,
    ids_to_read,
    new_data_file,
    new_data_files,
    new_deletion_files,
    own_home,
)
from lancewood.engine.place.place import Place
from lancewood.engine.place.vectors import deletion_key, load_deletions, write_deletions

__all__ = [
    "Base",
    "BasePath",
    "Bases",
    "NewBase",
    "NewFile",
    "Place",
    "base_options",
    "check_not_moved",
    "check_place",
    "checked_bases",
    "data_home",
    "declared_bases",
    "deletion_key",
    "discard",
    "find_base_path",
    "find_home",
    "find_trace",
    "homes_to_write",
    "ids_to_read",
    "is_table_root",
    "load_deletions",
    "moved_bases",
    "new_base_paths",
    "new_data_file",
    "new_data_files",
    "new_deletion_files",
    "normal_path",
    "own_home",
    "real_path",
    "uri_of_base",
    "write_deletions",
]
