"""The closed list of exit codes, one for each thing that a script would do differently.

Knows the error tree. Does not print and does not exit.
"""

from __future__ import annotations

from enum import IntEnum

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
    NotFoundError,
    RetryableConflictError,
    RunFailedError,
    StorageError,
    UnsupportedError,
)


class ExitCode(IntEnum):
    """What ``lw`` ends with. Numbers are never given a new meaning."""

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
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.INTERNAL: "a bug in lw; LANCEWOOD_DEBUG=1 shows where",
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
    ExitCode.INTERRUPTED: "Ctrl-C; a commit has landed whole or not at all",
    ExitCode.BROKEN_PIPE: "whoever read the output has left",
}

OF_ERRORS: dict[type[LancewoodError], ExitCode] = {
    LancewoodError: ExitCode.INTERNAL,
    ConflictError: ExitCode.CONFLICT,
    RetryableConflictError: ExitCode.CONFLICT_RETRY,
    IncompatibleConflictError: ExitCode.CONFLICT,
    BatchAppliedError: ExitCode.CONFLICT,
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
