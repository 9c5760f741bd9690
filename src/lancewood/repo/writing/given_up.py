"""Tables that a branch of the repository does not pin, and what commits left in them.

What was made by commits is kept by those, and may be followed by something else. What others wrote
is theirs: it stays, and they are told.
"""

from __future__ import annotations

from lancewood.catalog.names import home_uri
from lancewood.catalog.pin import Pin
from lancewood.engine.place import Place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.transactions import load_transaction, load_transaction_of
from lancewood.engine.versions import versions_since
from lancewood.errors import IncompatibleConflictError
from lancewood.format.manifest_digest import content_digest
from lancewood.git.hashes import Hash
from lancewood.git.history import walk
from lancewood.model.ids import Version
from lancewood.model.operations import Clone
from lancewood.model.transaction import STAGED_PROPERTY
from lancewood.repo.grounds import Grounds
from lancewood.repo.landing.landed import landed_version
from lancewood.repo.landing.settling import settle
from lancewood.repo.notes.merged_notes import check_unmerged
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.writable import diverged, landed_source, own_head


def left_head(grounds: Grounds, branch: str, tip: Hash | None, name: str) -> Snapshot | None:
    """The newest version, on its own branch, of a table at home that the branch pinned once and
    pins no more; None if it never did.

    Looks at the commits one by one, back to the one that had it. Raises IncompatibleConflictError
    if others wrote to it since.
    """
    pin, wanted = _last_pin(grounds, tip, name), lance_branch(branch)
    if pin is None or pin.uri != home_uri(name):
        return None
    for each in settle(grounds, branch, tip, [name]):
        raise diverged(each)
    if pin.branch == wanted:
        landed_source(grounds, name, pin)
        check_unmerged(grounds, branch, tip, name)
        return given_up_head(grounds, pin) or load_snapshot(grounds.place(pin))
    if wanted is None:
        return None
    return own_head(grounds, branch, tip, name, landed_source(grounds, name, pin), wanted)


def _last_pin(grounds: Grounds, tip: Hash | None, name: str) -> Pin | None:
    if tip is None:
        return None
    for each in walk(grounds.git.objects, [tip], first_parent=True):
        tree = grounds.tree(each.hash)
        if tree.blob_hash(name) is not None:
            return tree.pin(name)
    return None


def is_free(head: Snapshot) -> bool:
    """Whether something else may follow the newest version of a table that a branch does not pin:
    a commit made it, or nobody wrote there since the branch of the table began.

    A table whose first version is empty began for a branch that made it.
    """
    made = load_transaction(head.place.store, head.manifest)
    if STAGED_PROPERTY in made.properties:
        return True
    if head.manifest.branch is not None:
        return isinstance(made.operations[0], Clone)
    return head.manifest.version == 1 and not head.manifest.fragment_count


def given_up_head(grounds: Grounds, pin: Pin) -> Snapshot | None:
    """The newest version of a table that a branch does not pin, if its content is not the pin's:
    what came after that was made by commits that were given up.

    Raises IncompatibleConflictError if others wrote to it.
    """
    head = load_snapshot(grounds.place(pin))
    if content_digest(head.manifest.message) == pin.content:
        return None
    known = landed_version(grounds, pin)
    if known is not None:
        since = known.manifest.version
    else:
        since = pin.version if pin.landing is None else pin.landing.base
    _check_given_up(head, since)
    return head


def given_up_since(place: Place, fork: Version) -> Snapshot | None:
    """The newest version of a table that a branch does not pin, if there is one after ``fork``:
    that was made by commits that were given up.

    Raises IncompatibleConflictError if others wrote to it.
    """
    head = load_snapshot(place)
    if head.manifest.version == fork:
        return None
    _check_given_up(head, fork)
    return head


def _check_given_up(head: Snapshot, since: Version) -> None:
    store, scheme = head.place.store, head.scheme
    for version in versions_since(store, since, scheme).versions:
        if STAGED_PROPERTY not in load_transaction_of(store, version, scheme).properties:
            raise IncompatibleConflictError(
                "it is not on this branch, and others wrote to the table itself, as version "
                f"{version}; add() takes it as it stands"
            )
