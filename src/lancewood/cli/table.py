"""The group ``lw table``: which commands it has, and where each of them lives."""

from __future__ import annotations

from typing import ClassVar

from lancewood.cli.lazy import Entry, LazyGroup, new_app

_HOME = "lancewood.cli.commands"


class TableGroup(LazyGroup):
    """The commands on one table, in the order in which people meet them."""

    entries: ClassVar[dict[str, Entry]] = {
        "create": Entry(f"{_HOME}.create", "Make an empty table."),
        "import": Entry(f"{_HOME}.import_files", "Load files into a new or an existing table."),
        "export": Entry(f"{_HOME}.export", "Write rows to a file or to stdout."),
        "info": Entry(f"{_HOME}.info", "Show what a table is: size, versions, flags, settings."),
        "schema": Entry(f"{_HOME}.schema", "Show columns with their ids, types and metadata."),
        "head": Entry(f"{_HOME}.head", "Show the first rows."),
        "cat": Entry(f"{_HOME}.cat", "Show rows, all of them or those of a filter."),
        "count": Entry(f"{_HOME}.count", "Count rows."),
        "delete": Entry(f"{_HOME}.delete", "Delete rows."),
        "update": Entry(f"{_HOME}.update", "Change values of rows."),
        "merge": Entry(f"{_HOME}.merge", "Insert, update and delete rows by key, from files."),
        "add-columns": Entry(
            f"{_HOME}.add_columns", "Add columns: computed, empty, or from a file."
        ),
        "drop-columns": Entry(f"{_HOME}.drop_columns", "Remove columns."),
        "rename-column": Entry(f"{_HOME}.rename_column", "Give a column another name."),
        "cast-column": Entry(f"{_HOME}.cast_column", "Give a column another type."),
        "replace-columns": Entry(
            f"{_HOME}.replace_columns", "Replace the values of columns in some fragments."
        ),
        "versions": Entry(f"{_HOME}.versions", "List versions, newest first."),
        "changes": Entry(
            f"{_HOME}.changes", "Show rows that were inserted, updated or deleted in between."
        ),
        "files": Entry(f"{_HOME}.files", "List fragments with their files."),
        "restore": Entry(f"{_HOME}.restore", "Make an older version the newest again."),
        "branch": Entry(f"{_HOME}.branch", "List, make, delete, rename or reset branches."),
        "tag": Entry(f"{_HOME}.tag", "List, make, move or delete tags."),
        "publish": Entry(
            f"{_HOME}.publish", "Bring the work on a branch to the branch it was made from."
        ),
        "config": Entry(f"{_HOME}.config", "Show, set or unset the table's settings."),
        "compact": Entry(f"{_HOME}.compact", "Join small fragments and leave out deleted rows."),
        "cleanup": Entry(f"{_HOME}.cleanup", "Remove old versions, and files that nothing needs."),
        "verify": Entry(f"{_HOME}.verify", "Check that a version is whole."),
        "repair": Entry(f"{_HOME}.repair", "Propose how to mend a table, and do it if told so."),
        "index-mask": Entry(f"{_HOME}.index_mask", "Show which rows an index may answer for."),
        "clone": Entry(
            f"{_HOME}.clone", "Make another table that begins with a version of this one."
        ),
        "detach": Entry(
            f"{_HOME}.detach", "Copy in what a clone or a branch reads from elsewhere."
        ),
        "base": Entry(f"{_HOME}.base", "List, add or set the other homes of a table's files."),
        "move": Entry(f"{_HOME}.move", "Bring fragments to another home of the table."),
        "relocate": Entry(
            f"{_HOME}.relocate", "Write the present place of a moved table into its manifests."
        ),
        "migrate-names": Entry(
            f"{_HOME}.migrate_names", "Rename manifests from scheme V1 to V2, or finish doing so."
        ),
        "drop": Entry(f"{_HOME}.drop", "Delete a table."),
    }
    known_as: ClassVar[dict[str, str]] = {
        "load": "import",
        "append": "import",
        "insert": "import",
        "upsert": "merge",
        "show": "cat",
        "select": "cat",
        "describe": "schema",
        "columns": "schema",
        "history": "versions",
        "log": "versions",
        "diff": "changes",
        "optimize": "compact",
        "vacuum": "cleanup",
        "gc": "cleanup",
        "prune": "cleanup",
        "fsck": "verify",
        "check": "verify",
        "rollback": "restore",
        "revert": "restore",
        "branches": "branch",
        "checkout": "branch",
        "switch": "branch",
        "reset": "branch",
        "tags": "tag",
        "label": "tag",
        "merge-branch": "publish",
        "fast-forward": "publish",
        "fork": "clone",
        "copy": "clone",
        "unshare": "detach",
        "bases": "base",
        "base-paths": "base",
        "tier": "move",
        "archive": "move",
        "relink": "relocate",
    }


group = new_app(
    TableGroup,
    help="Make, fill, read and look after a table.",
    no_args_is_help=True,
    add_completion=False,
)


@group.callback()
def table() -> None:
    """Make, fill, read and look after a table."""
