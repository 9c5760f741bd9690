"""The record of a branch beside its versions: which version of the parent it begins at, and in
which version of its own.

The versions count; the record is what keeps the parent's version from being cleaned up: for us by
the parent's version in it, for pylance by the last step of its descent (tried with 14.0.2).
"""

from __future__ import annotations

from dataclasses import replace

from lancewood.engine.refs import read_refs
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.model.closing import reset_version
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, called
from lancewood.store.base import ReplaceOutcome, Store

_ATTEMPTS = 10


def mend_record(main: Store, begun: Snapshot, fork: Version, size: int | None = None) -> None:
    """Let the record say where the branch begins, as its versions do, of which ``begun`` is one
    since then; ``size`` is that of the parent's manifest.

    A reset that was cut off left it behind. A branch without a record is left alone.
    """
    name = BranchName.found(str(begun.manifest.branch))
    key = branch_key(name)
    for _ in range(_ATTEMPTS):
        try:
            etag = main.head(key).etag
            record = decode_branch(name, main.get(key))
        except NotFoundError:
            return
        reset = max(record.reset_in or 0, reset_version(begun.manifest.config)) or None
        if (record.parent_version, record.reset_in) == (fork, reset):
            return
        mended = replace(
            record,
            parent_version=fork,
            manifest_size=record.manifest_size if size is None else size,
            identifier=_descent(main, record.identifier, fork),
            reset_in=None if reset is None else Version(reset),
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
