"""How ``lw`` fails: the closed list of exit codes, and errors in the words of the command line.

There is one exit code for each thing that a script would do differently.

Before an error is printed, secrets of the command line are hidden. Options that carry secrets are
known by their names, even if ``--storage-option`` was forgotten before them. Advice for the API,
such as ``force=True``, becomes advice for the command line, such as ``--force``.

A path without a table gets a suggestion: a table beside it with a similar name, or the one of the
repository in the current directory. Only local directories are searched, and only a few thousand
names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import IntEnum
from itertools import islice
from shlex import quote

from lancewood.errors import (
    AlreadyExistsError,
    BatchAppliedError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    IncompatibleConflictError,
    IntegrityError,
    InvalidInputError,
    LancewoodError,
    MergeConflictError,
    NotFoundError,
    RetryableConflictError,
    RunFailedError,
    StorageError,
    UnsupportedError,
)
from lancewood.repo import own_table_uri
from lancewood.table import is_secret

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


_HIDDEN = "***"
_STORAGE_OPTION = "--storage-option"
_STORAGE_OPTIONS = (_STORAGE_OPTION, "--target-storage-option")
_LONG = 8
"""A secret of this length is hidden everywhere; a shorter one could be any word."""
_PASSWORD = re.compile(r"(?<=://)[^/\s@]*:([^/\s@]+)(?=@)")
_PAIR = re.compile(r"-*([A-Za-z0-9_.-]+)=(.+)", re.DOTALL)
_SETTING = re.compile(r"-*([A-Za-z0-9_.-]*)(?:=\S*)?")
_EXTRA_ARGUMENTS = re.compile(r"(.*unexpected extra arguments?(?:\(s\))?) \(.*\)", re.DOTALL)
_MOST_NAMES = 5_000
_VERSIONS = "_versions"
_SUFFIX = ".lance"
_ON_BRANCH = re.compile(r"branches\.(reset|delete)\('([^']*)'\)(?: there)?")
_SET_BASE = re.compile(r"set_base\(id, ('[^']*')\)")
_OF_REPOSITORY = re.compile(
    r"(?<![\w.])(commit|reset|log|status|switch|gc|fsck|merge|remove|snapshot)\(\)"
)
_OF_TABLE = re.compile(r"(?<![\w.])(drop|repair|verify)\(\)")
_PROTECT = re.compile(r"(?<![\w.])protect\('([^']*)'\)")
_TO_DECIDE = re.compile(
    r"(?:conflicts\('([^']*)'(?:, verb='(\w+)')?\) shows them, (?:resolve\(\) or )?)?"
    r"(?<!\w)resolve= decides them"
)
_BY_OPTIONS = "--ours, --theirs, --rule, --winner, --deletes or --decisions decide them"
_OTHER_NAME = re.compile(r"with columns=, or give it another name: columns=\{[^}]*\}")
_ADD = re.compile(r"repo\.add\('([^']*)', (?:uri|'([^']*)')\)")
_TYPED = {
    "switch(create=True)": "lw switch -c",
    "create=True": "-c",
    "already: open it": "already, and stays as it is: lw status looks at it",
    "detach() goes there": "lw switch -d goes there",
    "log(table=…)": "lw log --table NAME",
    "adopt=True": "--adopt",
    "force=True": "--force",
    "check=False": "--no-check",
    "in_flight=timedelta(0)": "--in-flight 0s",
    "lw.drop": "lw table drop",
    "manifest_store takes": "--manifest-store takes",
    "Open it with that manifest_store": "Name that one with --manifest-store",
    "set_config({'lancewood.manifest_store': None})": (
        "lw table config URI --unset lancewood.manifest_store"
    ),
    "'allow_http': 'true' in storage_options": "--storage-option allow_http=true",
    "'region' in storage_options": "--storage-option region=…",
    "'timeout' in storage_options": "--storage-option timeout=…",
    "in storage_options or in the environment": "with --storage-option or in the environment",
    "set_base": "lw table base URI --set",
    "conflicts() shows them": "lw table conflicts shows them",
    "conflicts() shows those": "lw conflicts shows those",
    "detect='tables' makes": "--detect tables makes",
    "Resolve(schema=) decides that": "--schema decides that",
    "search needs vector=, like= or text=": "search needs --vector, --like or --text",
    "give vector= or like=": "give --vector or --like",
    "text_column= is for": "--text-column is for",
    "columns to compare (columns=)": "columns to compare (-c)",
    "column= says which": "--column says which",
    "metric=, refine=, nprobes= and use_index=": "--metric, --refine, --nprobes and --exact",
    "metric= out": "--metric out",
    "give metric=": "give --metric",
    "use_index=False": "--exact",
    "options={'with_position': True}": "--option with_position=true",
    "replace=True": "--replace",
    "indices.extend()": "lw table index extend",
    "indices.create()": "create",
    "name= gives": "--name gives",
    "sub_vectors is for": "--sub-vectors is for",
    "which add_columns makes": "which lw table add-columns makes",
    ". A pathlib.Path is never taken for a revision": "",
}


class ExitCode(IntEnum):
    """The exit codes of ``lw``. A number never gets a new meaning."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    NOT_FOUND = 3
    ALREADY_EXISTS = 4
    INVALID_INPUT = 5
    CONFLICT_RETRY = 6
    CONFLICT = 7
    COMMIT_UNKNOWN = 8
    UNSUPPORTED = 9
    DAMAGED = 10
    STORAGE = 11
    CHECK_FAILED = 12
    DECLINED = 13
    NOT_PUBLISHED = 14
    RUN_FAILED = 15
    MERGE_CONFLICT = 16
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.INTERNAL: (
        "a bug in lw; LANCEWOOD_DEBUG=1 shows where. With --exit-code: something differs"
    ),
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.NOT_FOUND: "no such repository, table, version, branch, tag, commit or file",
    ExitCode.ALREADY_EXISTS: "the repository, table, branch, tag or file is already there",
    ExitCode.INVALID_INPUT: "a value or the data cannot be right; nothing was changed",
    ExitCode.CONFLICT_RETRY: "another commit was first; run the command again",
    ExitCode.CONFLICT: "another commit changed what this one rests on; look, then decide",
    ExitCode.COMMIT_UNKNOWN: "the store did not answer; the commit may have landed",
    ExitCode.UNSUPPORTED: "a feature, type or version that Lancewood does not know",
    ExitCode.DAMAGED: "the bytes of the table or the repository break the format",
    ExitCode.STORAGE: "the store or disk failed, or memory ran out; often only for a moment",
    ExitCode.CHECK_FAILED: "lw doctor, verify, repair or fsck found something wrong",
    ExitCode.DECLINED: "you were asked and said no",
    ExitCode.NOT_PUBLISHED: (
        "lw run published nothing: a check failed, too many rows are bad, or the run was reverted"
    ),
    ExitCode.RUN_FAILED: "Spark, a source or a function of the pipeline failed in lw run",
    ExitCode.MERGE_CONFLICT: "rows were changed on both sides; decide",
    ExitCode.INTERRUPTED: "Ctrl-C; a commit has landed whole or not at all",
    ExitCode.BROKEN_PIPE: "whoever read the output has left",
}

OF_ERRORS: dict[type[LancewoodError], ExitCode] = {
    LancewoodError: ExitCode.INTERNAL,
    ConflictError: ExitCode.CONFLICT,
    RetryableConflictError: ExitCode.CONFLICT_RETRY,
    IncompatibleConflictError: ExitCode.CONFLICT,
    BatchAppliedError: ExitCode.CONFLICT,
    MergeConflictError: ExitCode.MERGE_CONFLICT,
    CommitUnknownError: ExitCode.COMMIT_UNKNOWN,
    NotFoundError: ExitCode.NOT_FOUND,
    AlreadyExistsError: ExitCode.ALREADY_EXISTS,
    InvalidInputError: ExitCode.INVALID_INPUT,
    UnsupportedError: ExitCode.UNSUPPORTED,
    FormatError: ExitCode.DAMAGED,
    IntegrityError: ExitCode.DAMAGED,
    StorageError: ExitCode.STORAGE,
    RunFailedError: ExitCode.RUN_FAILED,
}


def exit_code_of(error: BaseException) -> ExitCode:
    """The code for an error that ends a command."""
    if isinstance(error, LancewoodError):
        return next(OF_ERRORS[kind] for kind in type(error).__mro__ if kind in OF_ERRORS)
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return ExitCode.BROKEN_PIPE
    if isinstance(error, OSError | MemoryError):
        return ExitCode.STORAGE
    return ExitCode.INTERNAL


def hide_secrets(message: str, args: Sequence[str]) -> str:
    """The message without the secrets on this command line."""
    for value in sorted(set(_secrets(args)), key=len, reverse=True):
        message = message.replace(value, _HIDDEN)
    for each in args:
        for password in _PASSWORD.findall(each):
            message = message.replace(password, _HIDDEN)
        pair = _PAIR.fullmatch(each)
        if pair is not None and is_secret(pair[1]):
            message = message.replace(f"{pair[1]}={pair[2]}", f"{pair[1]}={_HIDDEN}")
            if len(pair[2]) >= _LONG:
                message = message.replace(pair[2], _HIDDEN)
    return message


def _secrets(args: Sequence[str]) -> Iterator[str]:
    for position, each in enumerate(args):
        following = list(args[position + 1 : position + 3])
        option, is_joined, joined = each.partition("=")
        if each in _STORAGE_OPTIONS and following:
            pair = following.pop(0)
        elif is_joined and option in _STORAGE_OPTIONS:
            pair = joined
        else:
            continue
        name, equals, value = pair.partition("=")
        if equals and value and is_secret(name):
            yield value
        elif not equals and pair:
            yield pair
        if not value and is_secret(name) and following and not following[0].startswith("-"):
            yield following[0]  # there is a space in or after the pair


def without_extra_arguments(message: str, args: Sequence[str]) -> str:
    """The message about extra arguments, without these if one may be a secret."""
    found = _EXTRA_ARGUMENTS.fullmatch(message)
    if found is None or not any(map(_may_be_secret, args)):
        return message
    text = f"{found[1]}, not shown as it may be a secret"
    if any("=" in each or "://" in each for each in args):
        text += f"; is {_STORAGE_OPTION} missing before it?"
    return text


def _may_be_secret(argument: str) -> bool:
    """Whether an argument may hold a secret: a setting of a store, or a uri. SQL has spaces."""
    word = _SETTING.fullmatch(argument)
    return "://" in argument or (word is not None and ("=" in argument or is_secret(word[1])))


def near_table(path: str) -> str | None:
    """The path of the table that was most likely meant; None if none is similar."""
    if "://" in path:
        return None
    parent, name = os.path.split(path.rstrip("/"))
    found = [each for each in _tables_in(parent or ".") if each != name]
    if f"{name}{_SUFFIX}" in found:
        return os.path.join(parent, f"{name}{_SUFFIX}")
    of_repository = os.path.join(parent, own_table_uri(name))
    if os.path.isdir(os.path.join(of_repository, _VERSIONS)):
        return of_repository
    near = get_close_matches(name, found, 1)
    if near:
        return os.path.join(parent, near[0])
    inside = _tables_in(path)
    return os.path.join(path, inside[0]) if len(inside) == 1 else None


def _tables_in(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            names = [each.name for each in islice(entries, _MOST_NAMES)]
    except OSError:
        return []
    return sorted(e for e in names if os.path.isdir(os.path.join(directory, e, _VERSIONS)))


def _decided_by(found: re.Match[str]) -> str:
    name, verb = found.groups()
    if not name:
        return _BY_OPTIONS
    if verb is None:
        return f"lw conflicts {quote(name)} shows them, lw resolve or {_BY_OPTIONS}"
    return f"lw conflicts --{verb.replace('_', '-')} {quote(name)} shows them, {_BY_OPTIONS}"


def as_typed(message: str) -> str:
    """The message with options in place of arguments.

    >>> as_typed("it is needed; force=True does it all the same")
    'it is needed; --force does it all the same'
    >>> as_typed("it has diverged; commit() takes it as it stands, repo.add('a', uri) takes it in")
    'it has diverged; lw commit takes it as it stands, lw add a URI takes it in'
    >>> as_typed("an http:// endpoint needs 'allow_http': 'true' in storage_options")
    'an http:// endpoint needs --storage-option allow_http=true'
    """
    message = _SET_BASE.sub(r"lw table base URI --set ID \1", message)
    message = _ADD.sub(lambda found: f"lw add {found[1]} {quote(found[2] or 'URI')}", message)
    message = _TO_DECIDE.sub(_decided_by, message)
    message = _OTHER_NAME.sub("with --columns", message)
    message = _PROTECT.sub(r"lw protect \1", message)
    message = _OF_REPOSITORY.sub(r"lw \1", message)
    message = _OF_TABLE.sub(r"lw table \1", message)
    for argument, option in _TYPED.items():
        message = message.replace(argument, option)
    return _ON_BRANCH.sub(r"lw table branch URI --\1 \2", message)
