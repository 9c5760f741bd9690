"""The tags that a repository leaves at its tables, by their names.

Pure. ``lw.repo.<id>`` says that the table belongs to a repository elsewhere, ``lw.<digest>`` keeps
a version that a tag of the repository pins: tags are what every cleanup honours, pylance's too.
"""

from __future__ import annotations

import hashlib
import re

from lancewood.errors import InvalidInputError
from lancewood.model.refs import TagName

MEMBER_TAG = "lw.repo."
"""A tag whose name begins so says that commits of a repository elsewhere pin this table."""
REPOSITORY_ID = "lancewood.repository"
"""The key in the metadata of a tag, or of a branch, under which the identity of the repository
stands that made it."""
REPOSITORY_PATH = "lancewood.repository.path"
"""Where the repository was when the tag was written."""
TABLE_NAMES = "lancewood.repository.tables"
"""The names that the repository has for the table, with spaces between."""
PROTECTED_REF = "lancewood.repository.ref"
"""The full name of the ref whose commit a tag protects."""

_DIGITS = 12
_is_repository_tag = re.compile(rf"lw\.(?:repo\.)?[0-9a-f]{{{_DIGITS}}}").fullmatch


def member_tag(repository_id: str) -> TagName:
    """The tag of a repository; raises InvalidInputError for an identity that is none."""
    digits = repository_id.replace("-", "").lower()[:_DIGITS]
    if not re.fullmatch(rf"[0-9a-f]{{{_DIGITS}}}", digits):
        raise InvalidInputError(
            f"the identity of a repository is a uuid, got {repository_id!r}; lancewood.id in its "
            "config says it"
        )
    return TagName(MEMBER_TAG + digits)


def copy_tag(repository_id: str, path: str) -> TagName:
    """The tag of a copy of a repository: it has the identity of the first, and another place."""
    told = f"{repository_id}\n{path}".encode(errors="surrogateescape")
    return TagName(MEMBER_TAG + hashlib.sha256(told).hexdigest()[:_DIGITS])


def protection_tag(ref: str) -> TagName:
    """The tag that protects what a ref pins; ``ref`` is its full name, as refs/tags/v1."""
    return TagName(f"lw.{hashlib.sha256(ref.encode()).hexdigest()[:_DIGITS]}")


def is_repository_tag(tag: str) -> bool:
    """Whether a name is one that only repositories give."""
    return _is_repository_tag(tag) is not None
