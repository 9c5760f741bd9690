"""The record of a branch beside its versions: which version of the parent it begins at.

The versions count; the record is what keeps the parent's version from being cleaned up: for us by
the parent's version in it, for pylance by the last step of its descent (tried with 14.0.2).
"""

from __future__ import annotations

from dataclasses import replace

from lancewood.engine.refs import read_refs
from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, called
from lancewood.store.base import ReplaceOutcome, Store

_ATTEMPTS = 10


def mend_record(
    main: Store, name: BranchName, fork: Version, manifest_size: int | None = None
) -> None:
    """Let the record say where the branch begins, as its versions do.

    A reset that was cut off left it behind. A branch without a record is left alone.
    """
    key = branch_key(name)
    for _ in range(_ATTEMPTS):
        try:
            etag = main.head(key).etag
            record = decode_branch(name, main.get(key))
        except NotFoundError:
            return
        if record.parent_version == fork:
            return
        size = record.manifest_size if manifest_size is None else manifest_size
        mended = replace(
            record,
            parent_version=fork,
            manifest_size=size,
            identifier=_descent(main, record.identifier, fork),
        )
        data = encode_branch(mended)
        if main.replace(key, data, etag) is ReplaceOutcome.REPLACED:
            return
    raise RetryableConflictError(
        f"the record of {called(name)} changed {_ATTEMPTS} times while it was written; try again",
        branch=str(name),
    )


def _descent(
    main: Store, known: tuple[BranchPoint, ...] | None, fork: Version
) -> tuple[BranchPoint, ...] | None:
    """The descent with another last version; the same where branches that descend from this one
    repeat it, for that is how they are known."""
    if not known:
        return known
    for _, each in read_refs(main, BRANCHES_DIR):
        if isinstance(each, FormatError):
            return known
        steps = each.identifier or () if isinstance(each, Branch) else ()
        if len(steps) > len(known) and steps[: len(known)] == known:
            return known
    return (*known[:-1], BranchPoint(fork, known[-1].uuid))
