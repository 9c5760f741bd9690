"""Names in a repository: what git allows, and what each becomes in the tables.

A branch of the repository is a branch of every table that is written on it, so its name keeps to
the rules of both. A tag becomes tags of its own making in the tables: git's rules are enough.
"""

from __future__ import annotations

from collections.abc import Container

from lancewood.errors import InvalidInputError
from lancewood.git.names import HEAD, HEADS, TAGS, checked_branch, checked_tag
from lancewood.model.refs import MAIN, BranchName

PROTECTED = "refs/lancewood/protected/"
"""How the names begin under which commits are protected that no tag names."""


def branch_ref(name: str) -> str:
    """The full ref name of a branch; raises InvalidInputError, which says which rule it breaks."""
    checked_branch(name)
    if name != MAIN:
        try:
            BranchName(name)
        except InvalidInputError as refused:
            raise InvalidInputError(
                f"{refused.message} (tables get a branch of the same name when they are written)",
                **refused.facts,
            ) from refused
    return HEADS + name


def tag_ref(name: str) -> str:
    """The full ref name of a tag; raises InvalidInputError, which says which rule it breaks."""
    checked_tag(name)
    return TAGS + name


def lance_branch(branch: str) -> BranchName | None:
    """The branch of the tables that belongs to a branch of the repository; None is main."""
    return None if branch == MAIN else BranchName(branch)


def full_ref(known: Container[str], text: str) -> str:
    """HEAD, a full ref name, or that of the branch or tag which is called so."""
    if text == HEAD or text.startswith("refs/"):
        return text
    return TAGS + text if HEADS + text not in known and TAGS + text in known else HEADS + text
