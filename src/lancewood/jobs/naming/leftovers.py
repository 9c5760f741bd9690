"""What a root without a record is: the very branch that is asked for, or another's first step.

Judges by the transaction that made a version and by its fragments. Changes nothing.
"""

from __future__ import annotations

from operator import attrgetter

from lancewood.engine.snapshot import Snapshot
from lancewood.engine.transactions import load_transaction
from lancewood.engine.versions import VersionList
from lancewood.format.clone import CloneHead, clone_manifest
from lancewood.format.manifest import Stamp
from lancewood.model.operations import Clone
from lancewood.model.refs import BranchName


def is_lone_clone(there: Snapshot, found: VersionList, name: BranchName) -> bool:
    """Whether a root holds nothing but the first version of a branch of that name."""
    return len(found.versions) == 1 and _clone_of(there, name) is not None


def is_the_clone(there: Snapshot, source: Snapshot, name: BranchName) -> bool:
    """Whether a version is what making the branch from the source would write."""
    made = _clone_of(there, name)
    if made is None:
        return False
    head = source.manifest
    if made.ref_version != head.version or made.ref_name != head.branch:
        return False
    stamp = Stamp(head.version, 0, "", b"", "", "")
    expected, _ = clone_manifest(head, CloneHead(made.ref_path, head.branch, name), stamp)
    mine, theirs = expected.message, there.manifest.message
    return (
        list(mine.fields) == list(theirs.fields)
        and sorted(map(str, mine.base_paths)) == sorted(map(str, theirs.base_paths))
        and list(map(attrgetter("message"), expected.fragments))
        == list(map(attrgetter("message"), there.manifest.fragments))
        and expected.indices == there.manifest.indices
    )


def _clone_of(there: Snapshot, name: BranchName) -> Clone | None:
    """The operation that made a first version of this branch; None if something else did."""
    if there.manifest.branch != name:
        return None
    operation = load_transaction(there.place.store, there.manifest).operation
    if not isinstance(operation, Clone) or not operation.is_shallow:
        return None
    is_first = operation.ref_version == there.manifest.version
    return operation if is_first and operation.branch_name == name else None
