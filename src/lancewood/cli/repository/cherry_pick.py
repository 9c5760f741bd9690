"""``lw cherry-pick``: what a commit did elsewhere is done here."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.repository import words
from lancewood.cli.repository.finding import repository
from lancewood.cli.repository.telling import by_table, committed_facts, committed_text


def command(
    revision: words.OneRevision,
    branch: words.OnBranch = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Do again what a commit did, as a new commit.

    Each table that the commit changed gets the content it has there, where it is still what it was
    before that commit. Tables that differ are named, and nothing is done.

    JSON keys: branch, hash, new, tables, diverged, taken_in, done.
    """
    with repository(storage_option) as repo:
        done = repo.cherry_pick(revision, branch=branch)
        told = committed_text(repo, done) if done.is_new else "nothing to commit, tables clean"
        Output(as_json=json).document({**committed_facts(done), "done": by_table(done)}, told)
