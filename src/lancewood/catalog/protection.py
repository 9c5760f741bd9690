"""Keeping versions that a ref of the repository pins from every cleanup: tags in the tables.

The tag ``lw.<12 digits>`` is named for the ref, and is on an ordinary version: a tag keeps no
detached one, for pylance's cleanup takes the files that only those name. Whoever protects a state
of a transaction gives the version that it landed as.
"""

from __future__ import annotations

from lancewood.catalog.marks import remove_mark, set_mark
from lancewood.catalog.tag_names import PROTECTED_REF, REPOSITORY_ID, protection_tag
from lancewood.engine.pins import new_tag
from lancewood.engine.place import Place
from lancewood.engine.revisions import main_place
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import InvalidInputError
from lancewood.format.layout import manifest_key
from lancewood.model.ids import is_detached
from lancewood.model.refs import BranchName


def protect(snapshot: Snapshot, ref: str, repository_id: str) -> bool:
    """Keep a version for a ref, by its full name; whether anything had to be done.

    A version that was kept for the same ref before is no longer. Raises AlreadyExistsError if the
    tag is another repository's or somebody else's, NotFoundError if the version is gone,
    RetryableConflictError if a cleanup is removing it.
    """
    head = snapshot.manifest
    if is_detached(head.version):
        raise InvalidInputError(
            f"version {head.version} of {snapshot.place.uri} is detached, and a tag would not keep "
            "its files; protect the version that it landed as"
        )
    mark = new_tag(
        protection_tag(ref),
        None if head.branch is None else BranchName.found(head.branch),
        head.version,
        head.size,
        {REPOSITORY_ID: repository_id, PROTECTED_REF: ref},
    )
    manifest = snapshot.place.store, manifest_key(head.version, snapshot.scheme)
    return set_mark(main_place(snapshot).store, mark.name, repository_id, lambda _: mark, manifest)


def unprotect(main: Place, ref: str, repository_id: str) -> bool:
    """Whether a version was kept for the ref until now; ``main`` is the table's main root.

    A tag that is not this repository's stays.
    """
    return remove_mark(main.store, protection_tag(ref), repository_id)
