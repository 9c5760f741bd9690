"""What is said where a branch, a tag or a version of one is asked for and not there.

Each error names what there is instead, or where the version is that was meant. Tags that Lancewood
keeps for itself are not offered. Reads names and records, opens no manifest.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from lancewood.engine.refs import is_recorded, load_branch
from lancewood.engine.versions import newest_version, require_newest
from lancewood.errors import FormatError, NotFoundError
from lancewood.format.layout import TREE_DIR
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, ref_name
from lancewood.model.ids import Version
from lancewood.model.refs import BranchName, Tag, TagName, called
from lancewood.model.revision import TAG_PREFIX, OnBranch
from lancewood.store.base import Store

_SHOWN = 5
"""Names that an error lists."""
_KEPT = "lw."
"""What the names of our own tags begin with."""


def no_branch(main: Store, branch: BranchName) -> NotFoundError:
    """For a branch that is not recorded; raises NotFoundError where there is no table."""
    require_newest(main)
    root = main.at(f"{TREE_DIR}/{branch}")
    if newest_version(root) is not None:
        return NotFoundError(
            f"branch {str(branch)!r} of {main.uri} is not recorded, but {root.uri} holds versions: "
            "its creation or deletion was cut off. Create it again to finish it, or open it by "
            "that path",
            branch=str(branch),
        )
    return NotFoundError(
        f"branch {str(branch)!r} of {main.uri} not found: {_branches(main, branch)}",
        branch=str(branch),
    )


def no_tag(main: Store, tag: TagName) -> NotFoundError:
    """For a tag that is not there; raises NotFoundError where there is no table."""
    require_newest(main)
    hint = ""
    if tag.isdigit() and is_recorded(main, BranchName.found(TAG_PREFIX)):
        hint = f"; for a version of the branch 'tag' give branch='tag', version={tag}"
    return NotFoundError(
        f"tag {str(tag)!r} of {main.uri} not found: {_tags(main, tag)}{hint}", tag=str(tag)
    )


def no_ref(main: Store, name: str) -> NotFoundError:
    """For a name that neither a branch nor a tag has; raises NotFoundError without a table."""
    require_newest(main)
    nothing = f"{main.uri} has no tag or branch called {name!r}"
    if name.isascii() and name.isdigit():
        return NotFoundError(
            f"{nothing}; version {name} is asked for with the number {name} on the branch at hand, "
            f"or with ':{name}' on main",
            name=name,
        )
    return NotFoundError(f"{nothing}: {_branches(main, name)}, {_tags(main, name)}", name=name)


def gone_version(main: Store, tag: Tag, cause: NotFoundError) -> NotFoundError:
    """For a tag on a version that is not there."""
    return NotFoundError(
        f"tag {str(tag.name)!r} of {main.uri} names version {tag.version} of "
        f"{called(tag.branch)}, which is gone: {cause}. Move the tag to a version that is there, "
        "or delete it",
        tag=str(tag.name),
        branch=tag.branch,
        version=tag.version,
    )


def before_the_fork(main: Store, branch: BranchName, version: int) -> str | None:
    """Where a version is that a branch has not because it was made later; None for any other."""
    try:
        made = load_branch(main, branch)
    except FormatError:
        return None
    if made is None or made.parent_version <= version:
        return None
    meant = OnBranch(made.parent_branch, Version(version))
    return (
        f"branch {str(branch)!r} left {called(made.parent_branch)} at version "
        f"{made.parent_version}: ask for {str(meant)!r}"
    )


def _branches(main: Store, asked: str) -> str:
    return listed("branch", "branches", asked, _names(main, BRANCHES_DIR))


def _tags(main: Store, asked: str) -> str:
    return listed("tag", "tags", asked, _names(main, TAGS_DIR))


def listed(one: str, many: str, asked: str, known: Sequence[str]) -> str:
    """What there is instead: names like the one that was asked for, else the first few."""
    if not known:
        return f"there is no {one}"
    shown = get_close_matches(asked, known, _SHOWN) or known[:_SHOWN]
    more = ", …" if len(known) > len(shown) else ""
    told = f"are {many}" if len(known) > 1 else f"is {one}"
    return f"there {told} {', '.join(map(repr, shown))}{more}"


def _names(main: Store, directory: str) -> list[str]:
    """The refs in a directory by name; what is no ref is passed over."""
    found = []
    for each in main.names(directory):
        try:
            name = ref_name(each)
        except FormatError:
            continue
        if name is not None and not (directory == TAGS_DIR and name.startswith(_KEPT)):
            found.append(name)
    return sorted(found)
