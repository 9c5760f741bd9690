"""What is recorded about a branch: its file among the refs, and its descent.

The descent is a list of pairs, the version that a branch left its parent at and a random id; that
of a child begins with that of its parent, and so deletion finds out who came from whom. Older
writers left it out. Opens no manifest.

What is being done to the root of a branch, written down there before the first step.

Making, deleting and renaming a branch take several steps, and a process may die between any two. So
each begins by leaving a small file in the root that says what it is about, and ends by removing it.
Whoever comes later finds it, and goes on, or steps back while the other may still be at work.

It also keeps two makers of one branch apart: the file is created by one of them only, or taken over
by compare-and-swap. pylance does not know it and never touches it. Knows nothing of the steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, cast, get_args
from uuid import uuid4

from lancewood.engine.snapshot import Snapshot, main_place
from lancewood.engine.versions import load_branch, load_refs, read_refs
from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.format.json_object import decode_object
from lancewood.format.layout import TRANSACTIONS_DIR, TREE_DIR
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.model.ids import Version
from lancewood.model.refs import MAIN, Branch, BranchName, BranchPoint
from lancewood.model.revision import branch_name
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.clock import is_older
from lancewood.store.readback import put_new_settled

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


INTENT_KEY = f"{TRANSACTIONS_DIR}/lancewood-intent.json"
ABANDONED = timedelta(minutes=10)
"""So long may somebody be between two steps."""
_MOST_BYTES = 64 * 1024

Verb: TypeAlias = Literal["create", "delete", "move out", "move in"]
"""A rename moves one root out and another one in."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What somebody is about to do with a root."""

    verb: Verb
    branch: BranchName | None = None
    """Made from this branch, or moved to or from it; None means main."""
    version: int = 0
    """Made from this version, or brought over up to it."""
    uuid: str = field(default_factory=lambda: uuid4().hex, compare=False)

    def is_like(self, other: Intent) -> bool:
        """Whether both are about the same, however far it is."""
        return (self.verb, self.branch) == (other.verb, other.branch)

    def __str__(self) -> str:
        if self.verb == "create":
            return f"is being created from version {self.version} of {self.branch or MAIN}"
        if self.verb == "delete":
            return "is being deleted"
        way = "to" if self.verb == "move out" else "from"
        return f"is being renamed {way} {str(self.branch)!r}"


@dataclass(frozen=True, slots=True)
class Standing:
    """An intent that was found in a root."""

    root: Store
    intent: Intent
    etag: str
    since: datetime

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody can still be at work on it."""
        return is_older(self.root, self.since, ABANDONED, TRANSACTIONS_DIR)


def load_standing(root: Store) -> Standing | None:
    """What is being done to a root; None where nothing is. Raises FormatError."""
    try:
        found = root.head(INTENT_KEY)
        data = root.get(INTENT_KEY)
    except NotFoundError:
        return None
    intent = _decode(data, f"{root.uri}/{INTENT_KEY}")
    return Standing(root, intent, found.etag, found.modified)


def is_leaving(main: Store, name: BranchName) -> bool:
    """Whether somebody is about to delete a branch, or to rename it."""
    standing = load_standing(main.at(f"{TREE_DIR}/{name}"))
    if standing is None or standing.intent.verb not in ("delete", "move out"):
        return False
    return not standing.is_abandoned or is_moving(main, name, standing)


def is_moving(main: Store, name: BranchName, standing: Standing) -> bool:
    """Whether a rename that a root tells of is between two of its steps, however long ago: the
    other root tells of it, too."""
    mirrored = {"move out": "move in", "move in": "move out"}.get(standing.intent.verb)
    if mirrored is None:
        return False
    other = load_standing(main.at(f"{TREE_DIR}/{standing.intent.branch}"))
    return other is not None and other.intent.verb == mirrored and other.intent.branch == name


def declare(root: Store, mine: Intent, instead_of: Standing | None) -> bool:
    """Whether the root is now under this intent; False if somebody was faster."""
    data = _encode(mine)
    if instead_of is None:
        return put_new_settled(root, INTENT_KEY, data) is PutOutcome.CREATED
    return root.replace(INTENT_KEY, data, instead_of.etag) is ReplaceOutcome.REPLACED


def withdraw(root: Store) -> None:
    """Nothing is being done any more."""
    root.delete([INTENT_KEY])


def _encode(intent: Intent) -> bytes:
    document = {
        "verb": intent.verb,
        "branch": intent.branch,
        "version": intent.version,
        "uuid": intent.uuid,
    }
    return json.dumps(document).encode()


def _decode(data: bytes, name: str) -> Intent:
    document: dict[str, Any] = decode_object(data, name=name, most=_MOST_BYTES)
    verb, branch, version, uuid = map(document.get, ("verb", "branch", "version", "uuid"))
    is_odd = verb not in get_args(Verb) or not isinstance(branch, str | None)
    if is_odd or not isinstance(version, int) or not isinstance(uuid, str):
        raise FormatError(
            f"{name}: does not say what is being done to the branch; remove the file if nobody is "
            "creating, deleting or renaming it",
            file=name,
        )
    known = None if branch is None else BranchName.found(branch)
    return Intent(cast(Verb, verb), known, version, uuid)
