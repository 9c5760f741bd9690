"""May somebody write after this version? Not after a branch was published. Pure.

What came after it would be neither in the published work nor in anything that begins anew.
"""

from __future__ import annotations

from lancewood.errors import IncompatibleConflictError
from lancewood.model.closing import PUBLISHED_KEY, RENAMED_KEY
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import MAIN


def is_closed(head: ManifestHead) -> bool:
    """Whether the version says that its branch was published. A mark on main is that of a branch of
    which pylance made a clone."""
    return PUBLISHED_KEY in head.message.config and head.branch is not None


def check_open(head: ManifestHead) -> None:
    """Raises IncompatibleConflictError for a version that nothing may follow."""
    name = head.branch or MAIN
    if RENAMED_KEY in head.message.config:
        renamed = head.message.config[RENAMED_KEY]
        raise IncompatibleConflictError(
            f"branch {name!r} was renamed to {renamed!r}; open it by that name, and run it again",
            branch=name,
            renamed=renamed,
        )
    if not is_closed(head):
        return
    raise IncompatibleConflictError(
        f"branch {name!r} is closed at version {head.version}: it was published. Reset it to "
        f"begin anew (branches.reset({name!r})), or make another branch",
        branch=name,
        version=head.version,
    )
