"""Tags that say: somebody reads these files. They are made and removed with what they stand for."""

from __future__ import annotations

from lancewood.catalog.tag_names import is_repository_tag
from lancewood.engine.pins import CLONE_PIN
from lancewood.errors import InvalidInputError

PUBLISH_GUARD = "lw.publish."
"""A tag whose name begins so says that another branch reads files of this one."""
_GUARDS = (CLONE_PIN, PUBLISH_GUARD)


def is_guard(tag: str) -> bool:
    """Whether a tag guards files, and is none that somebody has made for reading."""
    return tag.startswith(_GUARDS) or is_repository_tag(tag)


def check_no_guard(tag: str, what: str, *, force: bool) -> None:
    """Raises InvalidInputError for a guard that somebody would make or remove by hand."""
    if is_guard(tag) and not force:
        raise InvalidInputError(
            f"tag {tag!r} cannot be {what}: names that begin with {' or '.join(_GUARDS)}, and "
            "those that repositories give, say that a clone, another branch or a repository needs "
            "the files of a version, and go when that does; force=True does it all the same",
            tag=tag,
        )
