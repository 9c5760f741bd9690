"""The groups of commands below ``lw``, and the function of each command.

A command is named by its module below ``lancewood.cli`` and the function there. Nothing is imported
until a command is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from lancewood.cli.options import expanded

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="lw")
"""What runs, as it is typed: ``lw table delete``."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommandEntry(NamedTuple):
    """Which function a command is, and the one line that lists show of it."""

    function: str
    """The module below ``lancewood.cli``, a colon, and the function; or a Typer group there."""
    summary: str


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    entries: ClassVar[dict[str, CommandEntry]] = {}
    known_as: ClassVar[dict[str, str]] = {}
    """What people may type, and what the command is called here."""

    def instead_of(self, name: str) -> str | None:
        """What to do instead of a command that is not here on purpose."""
        return None

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._only_names = False
        self.commands = {
            name: TyperCommand(name, help=each.summary, short_help=each.summary)
            for name, each in self.entries.items()
        }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command itself; while names are listed, a stand-in with its summary."""
        if self._only_names or cmd_name not in self.entries:
            return self.commands.get(cmd_name)
        return load_command(cmd_name, self.entries[cmd_name].function)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name not in self.entries and not ctx.resilient_parsing:
            instead = self.instead_of(name)
            if instead is not None:
                ctx.fail(f"No such command {name!r}: {instead}")
            near = get_close_matches(name, [*self.entries, *self.known_as], 1)
            if near and near[0] not in self.entries:
                ctx.fail(f"No such command {name!r}. Did you mean {self.known_as[near[0]]!r}?")
        COMMAND.set(f"{ctx.command_path} {name}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._naming():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        with self._naming():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        self._only_names = True
        try:
            yield
        finally:
            self._only_names = False


def load_command(name: str, function: str) -> Any:
    """Import the module of a command and make the command."""
    module, _, attribute = function.partition(":")
    found = getattr(import_module(f"lancewood.cli.{module}"), attribute)
    if not isinstance(found, typer.Typer):
        app = new_app(add_completion=False)
        app.command(name, context_settings=CONTEXT)(expanded(found))
        found = app
    made = typer.main.get_command(found)
    made.name = name
    return made


def new_app(cls: type[LazyGroup] | None = None, **settings: Any) -> typer.Typer:
    """A Typer that prints plain help and leaves errors to ``main``."""
    return typer.Typer(
        cls=cls,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
        **settings,
    )


STARTED_AT: ContextVar[str | None] = ContextVar("started_at", default=None)
"""The uri of a repository in a bucket, if ``-C`` was given one."""

VERBS: dict[str, CommandEntry] = {
    "init": CommandEntry("commands.commits:init_command", "Make an empty repository."),
    "add": CommandEntry(
        "commands.commits:add_command",
        "Take tables into the repository, as one commit: all of them, or none.",
    ),
    "remove": CommandEntry(
        "commands.commits:remove_command", "Take a table out of the repository, as a commit."
    ),
    "tables": CommandEntry(
        "commands.commits:tables_command", "List the tables of a commit, and where each is read."
    ),
    "prepare": CommandEntry(
        "commands.commits:prepare_command",
        "Make tables ready to be written on the current branch, and say where.",
    ),
    "status": CommandEntry(
        "commands.looking:status_command", "Show which tables differ from the current commit."
    ),
    "commit": CommandEntry(
        "commands.commits:commit_command",
        "Record all tables of the branch as they stand at one moment.",
    ),
    "snapshot": CommandEntry(
        "commands.commits:snapshot_command", "Record the files of a directory as a commit."
    ),
    "log": CommandEntry("commands.looking:log_command", "Show commits, newest first."),
    "show": CommandEntry(
        "commands.looking:show_command",
        "Show a commit and the tables it changed, against its first parent.",
    ),
    "diff": CommandEntry(
        "commands.comparing:diff_command",
        "Show which tables differ between two commits, and with --rows which rows and cells.",
    ),
    "blame": CommandEntry(
        "commands.comparing:blame_command",
        "Show which commit brought each row or cell.",
    ),
    "branch": CommandEntry("commands.refs:branch_command", "List, make or delete branches."),
    "switch": CommandEntry("commands.refs:switch_command", "Make another branch the current one."),
    "tag": CommandEntry("commands.refs:tag_command", "List, make or delete tags."),
    "merge": CommandEntry(
        "commands.merging:merge_command", "Bring the work of a branch into the current one."
    ),
    "conflicts": CommandEntry(
        "commands.merging:conflicts_command",
        "Show the rows that a merge, a cherry-pick or a revert would leave to decide.",
    ),
    "resolve": CommandEntry(
        "commands.merging:resolve_command",
        "Decide conflicts of a merge, and keep that until it is done.",
    ),
    "revert": CommandEntry(
        "commands.merging:revert_command", "Take back what a commit did, as a new commit."
    ),
    "reset": CommandEntry(
        "commands.merging:reset_command", "Put the branch and its tables back to a commit."
    ),
    "cherry-pick": CommandEntry(
        "commands.merging:cherry_pick_command", "Do again what a commit did, as a new commit."
    ),
    "reflog": CommandEntry(
        "commands.looking:reflog_command", "Show every move of HEAD or of a branch, newest first."
    ),
    "protect": CommandEntry(
        "commands.commits:protect_command",
        "Keep what a commit pins from every cleanup, pylance's too.",
    ),
    "exclusive": CommandEntry(
        "commands.commits:exclusive_command",
        "Keep the tables for transactions of the repository, or open them to every writer.",
    ),
    "gc": CommandEntry("commands.checking:gc_command", "Remove what no commit needs any more."),
    "fsck": CommandEntry(
        "commands.checking:fsck_command", "Check that history and tables are whole."
    ),
}
KNOWN_AS = {
    "checkout": "switch",
    "rm": "remove",
    "ls": "tables",
    "ls-files": "tables",
    "st": "status",
    "history": "log",
    "branches": "branch",
    "tags": "tag",
    "backout": "revert",
}
"""Other names that people may type, and the verb for each."""


class TableGroup(LazyGroup):
    """The commands on one table, in the order in which people meet them."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "create": CommandEntry("commands.table:create_command", "Make an empty table."),
        "import": CommandEntry(
            "commands.rows:import_files_command",
            "Load files into a new or an existing table.",
        ),
        "export": CommandEntry(
            "commands.rows:export_command", "Write rows to a file or to stdout."
        ),
        "info": CommandEntry(
            "commands.table:info_command", "Show what a table is: size, versions, flags, settings."
        ),
        "schema": CommandEntry(
            "commands.table:schema_command", "Show columns with their ids, types and metadata."
        ),
        "head": CommandEntry("commands.rows:head_command", "Show the first rows."),
        "cat": CommandEntry(
            "commands.rows:cat_command", "Show rows, all of them or those of a filter."
        ),
        "count": CommandEntry("commands.rows:count_command", "Count rows."),
        "search": CommandEntry(
            "commands.rows:search_command",
            "Find rows that are like a vector, a row or a text.",
        ),
        "delete": CommandEntry("commands.changing:delete_command", "Delete rows."),
        "update": CommandEntry("commands.changing:update_command", "Change values of rows."),
        "merge": CommandEntry(
            "commands.changing:merge_command", "Insert, update and delete rows by key, from files."
        ),
        "add-columns": CommandEntry(
            "commands.changing:add_columns_command",
            "Add columns: computed, empty, or from a file.",
        ),
        "drop-columns": CommandEntry("commands.changing:drop_columns_command", "Remove columns."),
        "rename-column": CommandEntry(
            "commands.changing:rename_column_command", "Give a column another name."
        ),
        "cast-column": CommandEntry(
            "commands.changing:cast_column_command", "Give a column another type."
        ),
        "replace-columns": CommandEntry(
            "commands.changing:replace_columns_command",
            "Replace the values of columns in some fragments.",
        ),
        "versions": CommandEntry("commands.table:versions_command", "List versions, newest first."),
        "changes": CommandEntry(
            "commands.comparing:changes_command",
            "Show rows that were inserted, updated or deleted in between.",
        ),
        "diff": CommandEntry(
            "commands.comparing:table_diff_command",
            "Show which rows and cells differ between two revisions.",
        ),
        "blame": CommandEntry(
            "commands.comparing:table_blame_command",
            "Show which version wrote each row or cell.",
        ),
        "files": CommandEntry("commands.table:files_command", "List fragments with their files."),
        "restore": CommandEntry(
            "commands.upkeep:restore_command", "Make an older version the newest again."
        ),
        "branch": CommandEntry(
            "commands.branches:branch_command", "List, make, delete, rename or reset branches."
        ),
        "tag": CommandEntry("commands.branches:tag_command", "List, make, move or delete tags."),
        "publish": CommandEntry(
            "commands.merging:publish_command",
            "Bring the work on a branch to the branch it was made from.",
        ),
        "merge-branch": CommandEntry(
            "commands.merging:merge_branch_command",
            "Merge the work on a branch into another one, by rows.",
        ),
        "conflicts": CommandEntry(
            "commands.merging:table_conflicts_command",
            "Show the rows that a merge of a branch would leave to decide.",
        ),
        "config": CommandEntry(
            "commands.table:config_command", "Show, set or unset the table's settings."
        ),
        "compact": CommandEntry(
            "commands.upkeep:compact_command", "Join small fragments and leave out deleted rows."
        ),
        "cleanup": CommandEntry(
            "commands.upkeep:cleanup_command", "Remove old versions, and files that nothing needs."
        ),
        "verify": CommandEntry(
            "commands.checking:verify_command", "Check that a version is whole."
        ),
        "repair": CommandEntry(
            "commands.checking:repair_command", "Propose how to mend a table, and do it if told so."
        ),
        "index": CommandEntry(
            "groups:index_group", "Build, list, extend, optimize or drop indices."
        ),
        "index-mask": CommandEntry(
            "commands.table:index_mask_command", "Show which rows an index may answer for."
        ),
        "clone": CommandEntry(
            "commands.places:clone_command",
            "Make another table that begins with a version of this one.",
        ),
        "detach": CommandEntry(
            "commands.places:detach_command",
            "Copy in what a clone or a branch reads from elsewhere.",
        ),
        "base": CommandEntry(
            "commands.places:base_command", "List, add or set the other roots of a table's files."
        ),
        "move": CommandEntry(
            "commands.places:move_command", "Bring fragments to another root of the table."
        ),
        "relocate": CommandEntry(
            "commands.places:relocate_command",
            "Write the present place of a moved table into its manifests.",
        ),
        "migrate-names": CommandEntry(
            "commands.places:migrate_names_command",
            "Rename manifests from scheme V1 to V2, or finish doing so.",
        ),
        "drop": CommandEntry("commands.table:drop_command", "Delete a table."),
    }
    known_as: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("load", "append", "insert"), "import"),
        **dict.fromkeys(("show", "select"), "cat"),
        **dict.fromkeys(("find", "nearest", "similar"), "search"),
        **dict.fromkeys(("describe", "columns"), "schema"),
        **dict.fromkeys(("history", "log"), "versions"),
        **dict.fromkeys(("vacuum", "gc", "prune"), "cleanup"),
        **dict.fromkeys(("fsck", "check"), "verify"),
        **dict.fromkeys(("rollback", "revert"), "restore"),
        **dict.fromkeys(("branches", "checkout", "switch", "reset"), "branch"),
        **dict.fromkeys(("tags", "label"), "tag"),
        **dict.fromkeys(("pull", "integrate"), "merge-branch"),
        "fast-forward": "publish",
        **dict.fromkeys(("indices", "indexes", "create-index"), "index"),
        **dict.fromkeys(("fork", "copy"), "clone"),
        **dict.fromkeys(("bases", "base-paths"), "base"),
        **dict.fromkeys(("tier", "archive"), "move"),
        "upsert": "merge",
        "optimize": "compact",
        "unshare": "detach",
        "relink": "relocate",
    }


class IndexGroup(LazyGroup):
    """The commands on the indices of one table."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "create": CommandEntry(
            "commands.upkeep:create_index_command", "Build an index on a column."
        ),
        "list": CommandEntry(
            "commands.upkeep:list_indices_command",
            "List indices: column, kind, size, and how many rows each covers.",
        ),
        "extend": CommandEntry(
            "commands.upkeep:extend_index_command",
            "Cover what an index, or every index, does not cover yet.",
        ),
        "optimize": CommandEntry(
            "commands.upkeep:optimize_index_command",
            "Cover everything, and leave one segment of each index.",
        ),
        "drop": CommandEntry("commands.upkeep:drop_index_command", "Remove an index."),
    }
    known_as: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("build", "add", "new"), "create"),
        **dict.fromkeys(("ls", "show", "describe", "status"), "list"),
        **dict.fromkeys(("append", "update", "refresh"), "extend"),
        **dict.fromkeys(("merge", "compact", "rebuild"), "optimize"),
        **dict.fromkeys(("delete", "remove", "rm"), "drop"),
    }


class SparkGroup(LazyGroup):
    """The commands about Spark on this machine."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "doctor": CommandEntry(
            "commands.checking:spark_doctor_command", "Say what Spark needs, and what is missing."
        ),
    }
    known_as: ClassVar[dict[str, str]] = {"check": "doctor", "info": "doctor", "java": "doctor"}


class ItemsGroup(LazyGroup):
    """The commands on all repositories below a folder."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "refs": CommandEntry(
            "commands.items:refs_command", "List HEAD, branches and tags of every item."
        ),
        "log": CommandEntry(
            "commands.items:log_command", "Show the commits of every item, newest first."
        ),
        "files": CommandEntry(
            "commands.items:files_command", "List the files of every item at a revision."
        ),
        "tag": CommandEntry("commands.items:tag_command", "Tag every item at a revision."),
    }
    known_as: ClassVar[dict[str, str]] = {
        "history": "log",
        **dict.fromkeys(("contents", "ls", "ls-files"), "files"),
        **dict.fromkeys(("branch", "branches", "tags"), "refs"),
    }


class RepoGroup(LazyGroup):
    """The commands that make repositories."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "import-plain": CommandEntry(
            "commands.items:import_plain_command",
            "Import snapshots in the plain layout of ADR-019 into a repository.",
        ),
    }


class RunsGroup(LazyGroup):
    """The commands about runs of pipelines, in one repository."""

    entries: ClassVar[dict[str, CommandEntry]] = {
        "list": CommandEntry(
            "commands.pipeline:list_runs_command",
            "List the runs of a repository, and how each stands.",
        ),
        "show": CommandEntry(
            "commands.pipeline:show_run_command", "Show one run, and what it loaded."
        ),
        "clean": CommandEntry(
            "commands.pipeline:clean_runs_command",
            "Remove the branches of runs that nobody finished.",
        ),
    }
    known_as: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("ls", "log", "status"), "list"),
        **dict.fromkeys(("info", "describe", "get"), "show"),
        **dict.fromkeys(("cleanup", "prune", "gc", "rm", "remove", "delete"), "clean"),
    }


def _group(kind: type[LazyGroup], help: str) -> typer.Typer:
    app = new_app(kind, help=help, no_args_is_help=True, add_completion=False)
    app.callback()(_no_options)
    return app


def _no_options() -> None:
    """Typer wants a callback in a group without commands of its own."""


table_group = _group(TableGroup, "Make, fill, read and look after a table.")
index_group = _group(IndexGroup, "Build, list, extend, optimize or drop indices.")
spark_group = _group(SparkGroup, "Look after what Spark needs.")
items_group = _group(ItemsGroup, "Look at, and tag, all small repositories below a folder.")
repo_group = _group(RepoGroup, "Make a repository of something else.")
runs_group = _group(RunsGroup, "Look after the runs of pipelines.")
