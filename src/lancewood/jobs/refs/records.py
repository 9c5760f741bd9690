"""The record of a branch among the refs, its descent, and the intent file in its root.

The descent is a list of pairs: the version at which a branch left its parent, and a random id. A
child's descent begins with its parent's, so a deletion can find all descendants. Older writers left
it out.

Creating, deleting and renaming a branch take several steps, and a process may die between any two.
So each of them first leaves an intent, a small file in the root, and removes it at the end. Another
writer that finds it finishes the work, or gives up while its owner may still be active. The file is
created by one writer only, or taken over by compare-and-swap, so it also keeps two creators of one
branch apart. pylance ignores it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, cast, get_args
from uuid import uuid4

from lancewood.engine.snapshot import Snapshot, main_location
from lancewood.engine.versions import load_branch, load_refs, read_refs
from lancewood.errors import FormatError, NotFoundError, RetryableConflictError
from lancewood.format.json_object import decode_object
from lancewood.format.layout import TRANSACTIONS_DIR, TREE_DIR
from lancewood.format.refs import BRANCHES_DIR, branch_key, decode_branch, encode_branch
from lancewood.model.ids import Version
from lancewood.model.refs import MAIN, Branch, BranchName, BranchPoint, branch_name
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.clock import is_older
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import LOST_RACES

INTENT_KEY = f"{TRANSACTIONS_DIR}/lancewood-intent.json"
ABANDONED = timedelta(minutes=10)
"""The longest time a writer may spend between two steps."""
_MOST_BYTES = 64 * 1024
Verb: TypeAlias = Literal["create", "delete", "move out", "move in"]
"""A rename moves one root out and another one in."""


def find_branch(snapshot: Snapshot, name: str) -> Branch:
    """The record of a branch; raises NotFoundError or FormatError."""
    main = main_location(snapshot).store
    asked = branch_name(name)
    found = None if asked is None else load_branch(main, asked)
    if found is None:
        raise no_branch(main, name)
    return found


def list_branches(snapshot: Snapshot) -> dict[str, Branch]:
    """Every branch but main by its name, sorted; raises FormatError for a damaged record."""
    found = {}
    for _, each in read_refs(main_location(snapshot).store, BRANCHES_DIR):
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
    before = () if parent is None else _descent_of(main, parent)
    return [*before, BranchPoint(version, uuid4().hex)]


def _descent_of(main: Store, name: BranchName) -> tuple[BranchPoint, ...]:
    """The descent of a branch; one without a descent gets one, which is recorded.

    pylance would make up one that we cannot know, unless it is found in a child's. Once recorded,
    it is the same for everybody.
    """
    for _ in LOST_RACES:
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


@dataclass(frozen=True, slots=True)
class Intent:
    """What a writer is about to do with a root."""

    verb: Verb
    branch: BranchName | None = None
    """Created from this branch, or moved to or from it; None means main."""
    version: int = 0
    """Created from this version, or copied up to it."""
    uuid: str = field(default_factory=lambda: uuid4().hex, compare=False)

    def is_like(self, other: Intent) -> bool:
        """Whether both are about the same work, whatever its progress."""
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
    """An intent found in a root."""

    root: Store
    intent: Intent
    etag: str
    since: datetime

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody can still be working on what the intent announces."""
        return is_older(self.root, self.since, ABANDONED, TRANSACTIONS_DIR)


def load_standing(root: Store) -> Standing | None:
    """The intent in a root, or None; raises FormatError."""
    try:
        found = root.head(INTENT_KEY)
        data = root.get(INTENT_KEY)
    except NotFoundError:
        return None
    intent = _decode(data, f"{root.uri}/{INTENT_KEY}")
    return Standing(root, intent, found.etag, found.modified)


def is_leaving(main: Store, name: BranchName) -> bool:
    """Whether a branch is being deleted or renamed."""
    standing = load_standing(main.at(f"{TREE_DIR}/{name}"))
    if standing is None or standing.intent.verb not in ("delete", "move out"):
        return False
    return not standing.is_abandoned or is_moving(main, name, standing)


def is_moving(main: Store, name: BranchName, standing: Standing) -> bool:
    """Whether a root is part of an unfinished rename, however old: the other root has the matching
    intent."""
    mirrored = {"move out": "move in", "move in": "move out"}.get(standing.intent.verb)
    if mirrored is None:
        return False
    other = load_standing(main.at(f"{TREE_DIR}/{standing.intent.branch}"))
    return other is not None and other.intent.verb == mirrored and other.intent.branch == name


def declare(root: Store, mine: Intent, instead_of: Standing | None) -> bool:
    """Whether the root now has this intent; False if another writer was faster."""
    data = json.dumps(
        {"verb": mine.verb, "branch": mine.branch, "version": mine.version, "uuid": mine.uuid}
    ).encode()
    if instead_of is None:
        return put_new_settled(root, INTENT_KEY, data) is PutOutcome.CREATED
    return root.replace(INTENT_KEY, data, instead_of.etag) is ReplaceOutcome.REPLACED


def withdraw(root: Store) -> None:
    root.delete([INTENT_KEY])


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
