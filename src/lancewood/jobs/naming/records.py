"""What is recorded about a branch: its file among the refs, and its descent.

The descent is a list of pairs, the version that a branch left its parent at and a random id; that
of a child begins with that of its parent, and so deletion finds out who came from whom. Older
writers left it out. Opens no manifest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid4

from lancewood.engine.refs import load_branch, load_refs, read_refs
from lancewood.engine.revisions import main_place
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint
from lancewood.model.revision import branch_name
from lancewood.store.base import ReplaceOutcome, Store

_ATTEMPTS = 10


def find_branch(snapshot: Snapshot, name: str) -> Branch:
    """What is recorded about a branch; raises NotFoundError or FormatError."""
    main = main_place(snapshot).store
    asked = branch_name(name)
    found = None if asked is None else load_branch(main, asked)
    if found is None:
        raise no_branch(main, name)
    return found


def list_branches(snapshot: Snapshot) -> dict[str, Branch]:
    """Every branch but main by its name, sorted; raises FormatError for one that is damaged."""
    found = {}
    for _, each in read_refs(main_place(snapshot).store, BRANCHES_DIR):
        if isinstance(each, FormatError):
            raise each
        if isinstance(each, Branch):
            found[str(each.name)] = each
    return dict(sorted(found.items()))


def no_branch(main: Store, name: str) -> NotFoundError:
    why = "main is the table itself, and nothing is recorded about it" if name == "main" else ""
    found = why or f"branch {str(name)!r} of {main.uri} not found"
    return NotFoundError(found, branch=str(name))


def descent_from(main: Store, parent: BranchName | None, version: Version) -> list[BranchPoint]:
    """The descent of a new branch; raises NotFoundError if its parent is not recorded."""
    before: tuple[BranchPoint, ...] = ()
    if parent is not None:
        before = _descent_of(main, parent)
    return [*before, BranchPoint(version, uuid4().hex)]


def _descent_of(main: Store, name: BranchName) -> tuple[BranchPoint, ...]:
    """The descent of a branch; one that has none recorded gets one, and keeps it.

    pylance makes one up for it that we cannot know, unless a child of its own tells. Written down,
    it is the same for everybody.
    """
    for _ in range(_ATTEMPTS):
        try:
            etag = main.head(branch_key(name)).etag
            found = decode_branch(name, main.get(branch_key(name)))
        except NotFoundError:
            raise NotFoundError(
                f"branch {str(name)!r} of {main.uri} is not recorded, so nothing can be made from "
                "it; create it again to finish what was cut off",
                branch=str(name),
            ) from None
        if found.identifier:
            return found.identifier
        descent = _told_by_children(main, name) or (BranchPoint(Version(0), uuid4().hex),)
        data = encode_branch(replace(found, identifier=descent))
        if main.replace(branch_key(name), data, etag) is ReplaceOutcome.REPLACED:
            return descent
    raise RetryableConflictError(
        f"the record of branch {str(name)!r} of {main.uri} keeps changing; try again",
        branch=str(name),
    )


def _told_by_children(main: Store, name: BranchName) -> tuple[BranchPoint, ...] | None:
    for each in load_refs(main).branches:
        if each.parent_branch == name and len(each.identifier or ()) > 1:
            return (each.identifier or ())[:-1]
    return None


def new_record(
    name: BranchName,
    parent: BranchName | None,
    version: Version,
    descent: list[BranchPoint],
    now: int,
    metadata: Mapping[str, str],
) -> Branch:
    """The record of a branch that is about to be made."""
    return Branch(
        name=name,
        parent_branch=parent,
        parent_version=version,
        created_at_seconds=now,
        manifest_size=0,
        identifier=tuple(descent),
        metadata=metadata,
    )
