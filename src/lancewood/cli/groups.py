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
from typing import Any, ClassVar, NamedTuple, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from lancewood.cli.options import expanded

COMMAND: ContextVar[str] = ContextVar("COMMAND", default="lw")
"""What runs, as it is typed: ``lw table delete``."""
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class CommandEntry(NamedTuple):
    """Which function a command is, and the one line that lists show of it."""

    function: str
    """The module below ``lancewood.cli``, a colon, and the function or the group."""
    summary: str


Section: TypeAlias = "dict[str, tuple[str, str] | type[LazyGroup]]"
"""Commands by name: of each the module below ``commands`` and the line that lists show of it, or
else a group of commands. The function is called as the command, unless it follows the module."""


class LazyGroup(TyperGroup):
    """A group whose commands are imported when they are used."""

    summary: ClassVar[str] = ""
    sections: ClassVar[dict[str, Section]] = {}
    """The commands by what they are for, in the order in which people meet them."""
    entries: ClassVar[dict[str, CommandEntry]] = {}
    """The commands of all sections."""
    known_as: ClassVar[dict[str, str]] = {}
    """What people may type, and what the command is called here."""

    def __init_subclass__(cls) -> None:
        cls.entries = {}
        for name, each in (item for some in cls.sections.values() for item in some.items()):
            if isinstance(each, type):
                entry = CommandEntry(f"groups:{each.__name__}", each.summary)
            else:
                module, _, function = each[0].partition(":")
                function = function or f"{name.replace('-', '_')}_command"
                entry = CommandEntry(f"commands.{module}:{function}", each[1])
            cls.entries[name] = entry

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

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The commands, by what they are for, as ``git help`` lists them."""
        longest = max(map(len, self.entries))
        for title, some in self.sections.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(longest), self.entries[name].summary) for name in some]
                )

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
    if isinstance(found, type) and issubclass(found, LazyGroup):
        app = new_app(found, help=found.summary, no_args_is_help=True, add_completion=False)
        app.callback()(_no_options)
    else:
        app = new_app(add_completion=False)
        app.command(name, context_settings=CONTEXT)(expanded(found))
    made = typer.main.get_command(app)
    made.name = name
    return made


def _no_options() -> None:
    """Typer wants a callback in a group without commands of its own."""


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


REPOSITORY: dict[str, Section] = {
    "Begin a repository, and say which tables are in it": {
        "init": ("commits", "Make an empty repository."),
        "add": ("commits", "Take tables into the repository, as one commit: all of them, or none."),
        "remove": ("commits", "Take a table out of the repository, as a commit."),
        "tables": ("commits", "List the tables of a commit, and where each is read."),
        "prepare": (
            "commits",
            "Make tables ready to be written on the current branch, and say where.",
        ),
    },
    "Record what was written": {
        "status": ("looking", "Show which tables differ from the current commit."),
        "commit": ("commits", "Record all tables of the branch as they stand at one moment."),
        "snapshot": ("commits", "Record the files of a directory as a commit."),
    },
    "Look at the history": {
        "log": ("looking", "Show commits, newest first."),
        "show": ("looking", "Show a commit and the tables it changed, against its first parent."),
        "diff": (
            "comparing",
            "Show which tables differ between two commits, and with --rows which rows and cells.",
        ),
        "blame": ("comparing", "Show which commit brought each row or cell."),
    },
    "Branch, merge and undo": {
        "branch": ("refs", "List, make or delete branches."),
        "switch": ("refs", "Make another branch the current one."),
        "tag": ("refs", "List, make or delete tags."),
        "merge": ("merging", "Bring the work of a branch into the current one."),
        "conflicts": (
            "merging",
            "Show the rows that a merge, a cherry-pick or a revert would leave to decide.",
        ),
        "resolve": ("merging", "Decide conflicts of a merge, and keep that until it is done."),
        "revert": ("merging", "Take back what a commit did, as a new commit."),
        "reset": ("merging", "Put the branch and its tables back to a commit."),
        "cherry-pick": ("merging", "Do again what a commit did, as a new commit."),
        "reflog": ("looking", "Show every move of HEAD or of a branch, newest first."),
    },
    "Keep it whole": {
        "protect": ("commits", "Keep what a commit pins from every cleanup, pylance's too."),
        "exclusive": (
            "commits",
            "Keep the tables for transactions of the repository, or open them to every writer.",
        ),
        "gc": ("checking", "Remove what no commit needs any more."),
        "fsck": ("checking", "Check that history and tables are whole."),
    },
}
"""The verbs on a repository, in the words of git."""
VERBS = [name for some in REPOSITORY.values() for name in some]
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


class IndexGroup(LazyGroup):
    """The commands on the indices of one table."""

    summary = "Build, list, extend, optimize or drop indices."
    sections: ClassVar[dict[str, Section]] = {
        "Commands": {
            "create": ("upkeep:index_create_command", "Build an index on a column."),
            "list": (
                "upkeep:index_list_command",
                "List indices: column, kind, size, and how many rows each covers.",
            ),
            "extend": (
                "upkeep:index_extend_command",
                "Cover what an index, or every index, does not cover yet.",
            ),
            "optimize": (
                "upkeep:index_optimize_command",
                "Cover everything, and leave one segment of each index.",
            ),
            "drop": ("upkeep:index_drop_command", "Remove an index."),
        },
    }
    known_as: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("build", "add", "new"), "create"),
        **dict.fromkeys(("ls", "show", "describe", "status"), "list"),
        **dict.fromkeys(("append", "update", "refresh"), "extend"),
        **dict.fromkeys(("merge", "compact", "rebuild"), "optimize"),
        **dict.fromkeys(("delete", "remove", "rm"), "drop"),
    }


class TableGroup(LazyGroup):
    """The commands on one table."""

    summary = "Make, fill, read and look after a table."
    sections: ClassVar[dict[str, Section]] = {
        "Make, fill and read": {
            "create": ("table", "Make an empty table."),
            "import": ("rows", "Load files into a new or an existing table."),
            "export": ("rows", "Write rows to a file or to stdout."),
            "info": ("table", "Show what a table is: size, versions, flags, settings."),
            "schema": ("table", "Show columns with their ids, types and metadata."),
            "head": ("rows", "Show the first rows."),
            "cat": ("rows", "Show rows, all of them or those of a filter."),
            "count": ("rows", "Count rows."),
            "search": ("rows", "Find rows that are like a vector, a row or a text."),
        },
        "Change rows and columns": {
            "delete": ("changing", "Delete rows."),
            "update": ("changing", "Change values of rows."),
            "merge": ("changing", "Insert, update and delete rows by key, from files."),
            "add-columns": ("changing", "Add columns: computed, empty, or from a file."),
            "drop-columns": ("changing", "Remove columns."),
            "rename-column": ("changing", "Give a column another name."),
            "cast-column": ("changing", "Give a column another type."),
            "replace-columns": ("changing", "Replace the values of columns in some fragments."),
        },
        "Look at versions, and come back to them": {
            "versions": ("table", "List versions, newest first."),
            "changes": (
                "comparing",
                "Show rows that were inserted, updated or deleted in between.",
            ),
            "diff": (
                "comparing:table_diff_command",
                "Show which rows and cells differ between two revisions.",
            ),
            "blame": (
                "comparing:table_blame_command",
                "Show which version wrote each row or cell.",
            ),
            "files": ("table", "List fragments with their files."),
            "restore": ("upkeep", "Make an older version the newest again."),
        },
        "Branch and merge": {
            "branch": ("branches", "List, make, delete, rename or reset branches."),
            "tag": ("branches", "List, make, move or delete tags."),
            "publish": (
                "merging:table_publish_command",
                "Bring the work on a branch to the branch it was made from.",
            ),
            "merge-branch": (
                "merging:table_merge_branch_command",
                "Merge the work on a branch into another one, by rows.",
            ),
            "conflicts": (
                "merging:table_conflicts_command",
                "Show the rows that a merge of a branch would leave to decide.",
            ),
        },
        "Keep it fast and whole": {
            "config": ("table", "Show, set or unset the table's settings."),
            "compact": ("upkeep", "Join small fragments and leave out deleted rows."),
            "cleanup": ("upkeep", "Remove old versions, and files that nothing needs."),
            "verify": ("checking", "Check that a version is whole."),
            "repair": ("checking", "Propose how to mend a table, and do it if told so."),
            "index": IndexGroup,
            "index-mask": ("table", "Show which rows an index may answer for."),
        },
        "Copy, move and drop": {
            "clone": ("places", "Make another table that begins with a version of this one."),
            "detach": ("places", "Copy in what a clone or a branch reads from elsewhere."),
            "base": ("places", "List, add or set the other roots of a table's files."),
            "move": ("places", "Bring fragments to another root of the table."),
            "relocate": ("places", "Write the present place of a moved table into its manifests."),
            "migrate-names": (
                "places",
                "Rename manifests from scheme V1 to V2, or finish doing so.",
            ),
            "drop": ("table", "Delete a table."),
        },
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


class RunsGroup(LazyGroup):
    """The commands about runs of pipelines, in one repository."""

    summary = "Look after the runs of pipelines."
    sections: ClassVar[dict[str, Section]] = {
        "Commands": {
            "list": (
                "pipeline:runs_list_command",
                "List the runs of a repository, and how each stands.",
            ),
            "show": ("pipeline:runs_show_command", "Show one run, and what it loaded."),
            "clean": (
                "pipeline:runs_clean_command",
                "Remove the branches of runs that nobody finished.",
            ),
        },
    }
    known_as: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("ls", "log", "status"), "list"),
        **dict.fromkeys(("info", "describe", "get"), "show"),
        **dict.fromkeys(("cleanup", "prune", "gc", "rm", "remove", "delete"), "clean"),
    }


class ItemsGroup(LazyGroup):
    """The commands on all repositories below a folder."""

    summary = "Look at, and tag, all small repositories below a folder."
    sections: ClassVar[dict[str, Section]] = {
        "Commands": {
            "refs": ("items", "List HEAD, branches and tags of every item."),
            "log": ("items", "Show the commits of every item, newest first."),
            "files": ("items", "List the files of every item at a revision."),
            "tag": ("items", "Tag every item at a revision."),
        },
    }
    known_as: ClassVar[dict[str, str]] = {
        "history": "log",
        **dict.fromkeys(("contents", "ls", "ls-files"), "files"),
        **dict.fromkeys(("branch", "branches", "tags"), "refs"),
    }


class RepoGroup(LazyGroup):
    """The commands that make repositories."""

    summary = "Make a repository of something else."
    sections: ClassVar[dict[str, Section]] = {
        "Commands": {
            "import-plain": (
                "items",
                "Import snapshots in the plain layout of ADR-019 into a repository.",
            ),
        },
    }


class SparkGroup(LazyGroup):
    """The commands about Spark on this machine."""

    summary = "Look after what Spark needs."
    sections: ClassVar[dict[str, Section]] = {
        "Commands": {
            "doctor": (
                "checking:spark_doctor_command",
                "Say what Spark needs, and what is missing.",
            ),
        },
    }
    known_as: ClassVar[dict[str, str]] = {"check": "doctor", "info": "doctor", "java": "doctor"}
