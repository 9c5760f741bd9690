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
        "versions": Entry(f"{_HOME}.versions", "List versions, newest first."),
        "files": Entry(f"{_HOME}.files", "List fragments with their files."),
        "restore": Entry(f"{_HOME}.restore", "Make an older version the newest again."),
        "config": Entry(f"{_HOME}.config", "Show, set or unset the table's settings."),
        "migrate-names": Entry(
            f"{_HOME}.migrate_names", "Rename manifests from scheme V1 to V2, or finish doing so."
        ),
        "drop": Entry(f"{_HOME}.drop", "Delete a table."),
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
