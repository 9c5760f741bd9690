"""What git has and ``lw`` has not, and what to type instead.

Knows verbs and options by name, and is asked only when a command line was not understood. Does not
know what any command does.
"""

from __future__ import annotations

import re

_STOCK = "stock git reads this repository"
_NO_REMOTES = (
    "a repository has no remotes; copy its directory, or use git bundle for the history alone"
)
_ALL_THERE = "the tables of every branch are there all the time, and lw switch touches none"
_REWRITES = "commits are not rewritten; lw merge brings a branch, lw cherry-pick one commit"
_WHOLE = (
    "it is done whole or not at all, so there is nothing to finish or to give up; lw conflicts "
    "shows what is in the way, lw resolve decides it for the next lw merge"
)
_DECIDE = (
    "lw merge --ours or --theirs takes one side of rows that both changed, --rule and --winner "
    "decide by SQL"
)
_ANYWAY = "it is what happens anyway; leave it out"
_NO_INDEX = "there is no index"

VERBS = {
    **dict.fromkeys(("fetch", "pull", "push", "remote"), _NO_REMOTES),
    "clone": f"{_NO_REMOTES}; lw table clone is about one table",
    "stash": f"{_ALL_THERE}: what is not committed stays on the branch where it was written",
    **dict.fromkeys(("worktree", "clean"), _ALL_THERE),
    "restore": "lw reset HEAD takes back what is not committed, in all tables; "
    "lw table restore makes an old version of one table the newest",
    "rebase": _REWRITES,
    "mergetool": "there are no markers in files to edit; lw conflicts -o FILE writes what both "
    "sides changed, with a column to decide it in, and lw merge --decisions FILE reads it",
    "rerere": "lw resolve keeps what was decided until the merge is done, in commits that git log "
    "shows; a --rule of lw merge decides the same way every time",
    "mv": "a table keeps the name under which it was made or added",
    **{
        name: f"{_STOCK}: git {name}"
        for name in ("rev-parse", "rev-list", "cat-file", "for-each-ref", "describe", "bundle")
    },
    "grep": "lw table cat --where shows rows",
}
"""Verbs of git, and what to do instead."""
OPTIONS: dict[str, dict[str, str]] = {
    "init": {"--bare": _ANYWAY, "--object-format": "it is always sha256"},
    "add": dict.fromkeys(
        ("-A", "--all", "-u", "-p"), "a table is added once, by name; lw commit records them all"
    ),
    "status": dict.fromkeys(("-s", "--short", "--porcelain"), "--json is for programs"),
    "commit": {
        "--amend": "lw reset --soft HEAD~1 and then lw commit -m TEXT make the last one anew",
        "--allow-empty": "a commit records tables that changed; lw tag names one that is there",
    },
    "log": {
        **dict.fromkeys(
            ("-p", "--patch"),
            "lw log --stat counts what each commit did, lw diff REVISION^ REVISION --rows shows it",
        ),
        **{
            name: f"{_STOCK}: git log {name} …"
            for name in ("--since", "--until", "--grep", "--author", "--format", "--pretty")
        },
        **dict.fromkeys(("-S", "-L", "-G"), "--table NAME --where SQL shows who changed such rows"),
    },
    "show": {"--stat": _ANYWAY, "-p": f"{_STOCK}: git show -p"},
    "diff": {
        **dict.fromkeys(("-p", "--patch"), "lw diff --rows shows rows, git diff shows pins"),
        **dict.fromkeys(
            ("--cached", "--staged"), f"{_NO_INDEX}; lw diff is about the tables as they stand"
        ),
    },
    "branch": {
        **dict.fromkeys(
            ("-m", "-M", "--move"), "lw switch -c NEW OLD and then lw branch -d OLD rename it"
        ),
        **dict.fromkeys(("-a", "-r", "--all", "--remotes"), "there are no remotes"),
        **dict.fromkeys(("--merged", "--no-merged"), f"{_STOCK}: git branch --merged"),
    },
    "switch": dict.fromkeys(
        ("-C", "--force-create"), "lw switch NAME and then lw reset REVISION move a branch"
    ),
    "tag": {
        **dict.fromkeys(("-f", "--force"), "a tag stays where it is; lw tag -d NAME goes first"),
        **dict.fromkeys(("-a", "--annotate"), "lw tag -m TEXT NAME annotates the tag"),
    },
    "merge": {
        **dict.fromkeys(("--abort", "--continue", "--quit"), _WHOLE),
        **dict.fromkeys(("-X", "-s", "--strategy", "--strategy-option"), _DECIDE),
        "--no-ff": "into main there is always a merge commit",
        "--ff-only": "--dry-run says what would happen",
        "--squash": f"{_REWRITES}; lw log --first-parent leaves out what a merge brought",
    },
    "revert": {
        "--no-edit": _ANYWAY,
        **dict.fromkeys(("--abort", "--continue", "--quit", "--skip"), _WHOLE),
        **dict.fromkeys(("-X", "--strategy", "--strategy-option"), _DECIDE),
    },
    "cherry-pick": {
        **dict.fromkeys(("--abort", "--continue", "--quit", "--skip"), _WHOLE),
        **dict.fromkeys(("-X", "--strategy", "--strategy-option"), _DECIDE),
    },
    "reset": dict.fromkeys(
        ("--mixed", "--keep", "--merge"),
        f"{_NO_INDEX}; --soft moves the branch alone, without it the tables go back too",
    ),
}
"""Options that only git has, by verb of both, and what to do instead."""
_is_number = re.compile(r"-\d+").fullmatch


def instead_of_verb(name: str) -> str | None:
    """What to do instead of a verb of git; None where nothing is known of it."""
    return VERBS.get(name)


def instead_of_option(verb: str, option: str) -> str | None:
    """What to do instead of an option of one of git's verbs.

    >>> instead_of_option("log", "-3")
    'write the number as -n N'
    """
    if verb in ("log", "reflog") and _is_number(option):
        return "write the number as -n N"
    return OPTIONS.get(verb, {}).get(option)
