"""The verbs of ``lw`` on a repository: which there are, and where each of them lives."""

from __future__ import annotations

from contextvars import ContextVar

from lancewood.cli.lazy import Entry

_HOME = "lancewood.cli.repository"
STARTED_AT: ContextVar[str | None] = ContextVar("started_at", default=None)
"""The uri of a repository in a bucket that ``-C`` was given."""

VERBS: dict[str, Entry] = {
    "init": Entry(f"{_HOME}.init", "Make an empty repository."),
    "add": Entry(f"{_HOME}.add", "Take a table into the repository, as a commit."),
    "remove": Entry(f"{_HOME}.remove", "Take a table out of the repository, as a commit."),
    "tables": Entry(f"{_HOME}.tables", "List the tables of a commit, and where each is read."),
    "prepare": Entry(
        f"{_HOME}.prepare",
        "Make tables ready to be written on the current branch, and say where.",
    ),
    "status": Entry(f"{_HOME}.status", "Show which tables differ from the current commit."),
    "commit": Entry(
        f"{_HOME}.commit", "Record all tables of the branch as they stand at one moment."
    ),
    "snapshot": Entry(f"{_HOME}.snapshot", "Record the files of a directory as a commit."),
    "log": Entry(f"{_HOME}.log", "Show commits, newest first."),
    "show": Entry(
        f"{_HOME}.show", "Show a commit and the tables it changed, against its first parent."
    ),
    "diff": Entry(
        f"{_HOME}.diff",
        "Show which tables differ, with rows, fragments and columns: a summary as git diff --stat.",
    ),
    "branch": Entry(f"{_HOME}.branch", "List, make or delete branches."),
    "switch": Entry(f"{_HOME}.switch", "Make another branch the current one."),
    "tag": Entry(f"{_HOME}.tag", "List, make or delete tags."),
    "merge": Entry(f"{_HOME}.merge", "Bring the work of a branch into the current one."),
    "revert": Entry(f"{_HOME}.revert", "Take back what a commit did, as a new commit."),
    "reset": Entry(f"{_HOME}.reset", "Put the branch and its tables back to a commit."),
    "cherry-pick": Entry(f"{_HOME}.cherry_pick", "Do again what a commit did, as a new commit."),
    "reflog": Entry(f"{_HOME}.reflog", "Show every move of HEAD or of a branch, newest first."),
    "protect": Entry(
        f"{_HOME}.protect", "Keep what a commit pins from every cleanup, pylance's too."
    ),
    "exclusive": Entry(
        f"{_HOME}.exclusive",
        "Keep the tables for transactions of the repository, or open them to every writer.",
    ),
    "gc": Entry(f"{_HOME}.gc", "Remove what no commit needs any more."),
    "fsck": Entry(f"{_HOME}.fsck", "Check that history and tables are whole."),
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
"""What people may type, and what the verb is called here."""
