"""``lw revert``: a commit is taken back."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import by_table, committed_facts, committed_text


def command(
    revision: words.OneRevision,
    author: words.Author = None,
    branch: words.OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Take back what a commit did, as a new commit.

    Each table that the commit changed gets the content it had before, where it is still what the
    commit made of it. Tables that were changed since are named, and nothing is done.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done.
    """
    with repository(storage_option) as repo:
        done = repo.revert(revision, branch=branch, author=author)
        told = committed_text(repo, done) if done.is_new else "nothing to commit, tables clean"
        Output(as_json=json).document({**committed_facts(done), "done": by_table(done)}, told)
