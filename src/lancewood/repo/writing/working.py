"""Where a table stands on a branch of the repository, beside what the branch pins of it.

As the work tree does in git. Reads, and changes nothing; what the next commit is made of is for
``cut`` to say.
"""

from __future__ import annotations

from lancewood.catalog.opening import content_of
from lancewood.catalog.pin import Pin
from lancewood.engine.place import Place
from lancewood.engine.refs import load_branch
from lancewood.engine.revisions import branch_place
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.model.ids import Version
from lancewood.repo.grounds import Grounds
from lancewood.repo.landing.landed import is_beginning
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.writable import goes_on, is_ours


def working_place(grounds: Grounds, branch: str, pin: Pin, *, adopt: bool = False) -> Place | None:
    """The root where the table is written on a branch of the repository.

    None: it was never written there since it was pinned, and the pin is of another branch.
    """
    wanted = lance_branch(branch)
    place = grounds.place(pin)
    if pin.branch == wanted:
        return place
    main = grounds.place(pin.on(None))
    if wanted is None:
        return main
    record = load_branch(main.store, wanted)
    if record is None:
        return None
    found = branch_place(main, wanted)
    is_begun_here = is_ours(grounds, record) and goes_on(found, pin.branch, pin.exact_version)
    return found if adopt or is_begun_here else None


def changed_head(
    pin: Pin, place: Place, newest: Version, *, is_pinned_branch: bool
) -> Snapshot | None:
    """The newest version of a table, if its content is not the pin's.

    ``is_pinned_branch``: the place is that of the branch that the pin speaks of.
    """
    if is_pinned_branch and pin.landing is None and pin.version == newest:
        return None
    head = load_snapshot(place, version=newest)
    if is_pinned_branch and content_of(head) == pin.content:
        return None
    if not is_pinned_branch and is_beginning(head, pin.branch, pin.exact_version):
        return None
    return head
