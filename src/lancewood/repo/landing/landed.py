"""Which version of a table is exactly what a commit pins. Reads, and lands nothing."""

from __future__ import annotations

import contextlib

from lancewood.catalog.pin import Pin
from lancewood.engine.landing import find_landing
from lancewood.engine.new_files import lost_staged_file
from lancewood.engine.sameness import same_content
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.transactions import load_transaction
from lancewood.engine.versions import load_manifest
from lancewood.errors import NotFoundError
from lancewood.format.manifest_digest import content_digest
from lancewood.model.ids import Version
from lancewood.model.operations import Clone
from lancewood.repo.grounds import Grounds


def landed_version(grounds: Grounds, pin: Pin) -> Snapshot | None:
    """The version of the pin's branch that has its content; None where it has not landed, or landed
    together with something else.

    Raises NotFoundError and IntegrityError for a version that was pinned where it stood, and is not
    there any more.
    """
    if pin.landing is None:
        return grounds.open(pin)
    place = grounds.place(pin)
    state = find_landing(place, pin.landing)
    if not state.versions:
        return None
    try:
        found = load_snapshot(place, version=state.versions[-1])
    except NotFoundError:
        return None
    return found if content_digest(found.manifest.message) == pin.content else None


def pinned_state(grounds: Grounds, pin: Pin) -> Snapshot:
    """The version that landed, or the state beside the history that was pinned.

    Raises NotFoundError, also for a state whose files are gone, and IntegrityError.
    """
    return landed_version(grounds, pin) or _whole(grounds.open(pin), pin)


def _whole(state: Snapshot, pin: Pin) -> Snapshot:
    """A state that is beside the history, once its own files were looked for."""
    before = None
    if pin.landing is not None and pin.landing.base:
        with contextlib.suppress(NotFoundError):
            before = load_manifest(state.place.store, pin.landing.base, state.scheme)
    lost = lost_staged_file(state.place, before, state.manifest)
    if lost is not None:
        raise NotFoundError(
            f"{lost} of {state.place.uri}, which version {pin.version} needs that the commit pins, "
            "is gone. Another program's cleanup removed it before the commit landed; bring it back "
            "from a copy, or use another commit",
            uri=state.place.uri,
            version=pin.version,
            file=lost,
        )
    return state


def is_beginning(head: Snapshot, branch: str | None, version: Version) -> bool:
    """Whether a branch of a table begins, or began anew, at a version of another one, and was not
    written since."""
    made = load_transaction(head.place.store, head.manifest).operations[0]
    return isinstance(made, Clone) and (made.ref_name, made.ref_version) == (branch, version)


def same_table(grounds: Grounds, one: Pin, other: Pin) -> bool:
    """Whether two pins are of the same rows and columns of one table, on whatever branches."""
    if one.uri != other.uri:
        return False
    if one.branch == other.branch and one.content == other.content:
        return True
    if (one.rows, one.fragments, one.schema) != (other.rows, other.fragments, other.schema):
        return False
    return same_content(grounds.open(one), grounds.open(other))
