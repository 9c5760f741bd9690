"""Every error that Lancewood raises, grouped by what the catcher would do.

LancewoodError
├── ConflictError                   someone's commit landed first
│   ├── RetryableConflictError      run the operation again on the newer version
│   └── IncompatibleConflictError   a person must decide
│       ├── BatchAppliedError       the batch is there already; nothing is left to do
│       └── MergeConflictError      rows were changed on both sides; say what they become
├── CommitUnknownError              the store did not answer; the commit may have landed
├── NotFoundError                   table, version, branch, tag (also a LookupError)
├── AlreadyExistsError              table, branch, tag
├── InvalidInputError               the argument is wrong (also a ValueError)
├── UnsupportedError                a feature flag, operation or file version we do not know
├── FormatError                     the bytes break the format
│   └── IntegrityError              they are whole, but not the ones that were pinned
├── StorageError                    the store failed; often passing
└── RunFailedError                  Spark, or a function of a pipeline, failed in a run

A message says what was asked, what was found, and the way out. The facts are attributes too
(``error.facts``), and every error survives pickling, because workers send them home.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class LancewoodError(Exception):
    """The root of the tree. ``facts`` holds what the message tells, for programs."""

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.facts)


def _rebuild(kind: type[LancewoodError], message: str, facts: dict[str, Any]) -> LancewoodError:
    return kind(message, **facts)


class ConflictError(LancewoodError):
    """Someone's commit landed first and ours cannot simply follow it."""


class RetryableConflictError(ConflictError):
    """Another commit landed first; the operation may succeed when run again on the newer
    version."""


class IncompatibleConflictError(ConflictError):
    """The other commit changed what this one rests on; a person must decide."""


class BatchAppliedError(IncompatibleConflictError):
    """The table holds this batch of this application already, or a later one."""


class MergeConflictError(IncompatibleConflictError):
    """Both sides of a merge changed the same rows or columns, and nothing decides what they
    become. Nothing has changed."""


class CommitUnknownError(LancewoodError):
    """The store did not say whether the commit landed. Nothing was deleted."""


class NotFoundError(LancewoodError, LookupError):
    """A table, version, branch, tag or file that is not there."""


class AlreadyExistsError(LancewoodError):
    """A table, branch or tag that is already there."""


class InvalidInputError(LancewoodError, ValueError):
    """An argument that cannot be right, found before anything was changed."""


class UnsupportedError(LancewoodError):
    """A feature flag, operation, type or file version that Lancewood does not know."""


class FormatError(LancewoodError):
    """Bytes that break the format; the message names the file."""


class IntegrityError(FormatError):
    """Whole bytes that are not the ones that were pinned."""


class StorageError(LancewoodError):
    """The store failed, often only for a moment."""


class RunFailedError(LancewoodError):
    """What a run of a pipeline called has failed: Spark, a source, or a function of the file."""


@contextmanager
def found_in(name: str) -> Iterator[None]:
    """Put the name of a file in front of what is found to be wrong with its bytes."""
    try:
        yield
    except (FormatError, UnsupportedError) as error:
        if name and name not in error.message:
            raise type(error)(
                f"{name}: {error.message}", **{**error.facts, "file": name}
            ) from error
        raise
