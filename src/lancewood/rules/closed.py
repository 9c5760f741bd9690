"""Whether a version may be followed by another: not after its branch was published. Pure.

A later version would be neither in the published work nor in what follows a reset of the branch.
"""

from __future__ import annotations

from lancewood.errors import IncompatibleConflictError
from lancewood.model.manifest import ManifestHead
from lancewood.model.refs import MAIN
from lancewood.model.table_config import PUBLISHED_KEY, RENAMED_KEY


def is_closed(head: ManifestHead) -> bool:
    """Whether the version's branch was published. On main, the mark comes from a branch that
    pylance cloned, and does not count."""
    return PUBLISHED_KEY in head.message.config and head.branch is not None


def check_open(head: ManifestHead) -> None:
    """Raise IncompatibleConflictError for a version that nothing may follow."""
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
