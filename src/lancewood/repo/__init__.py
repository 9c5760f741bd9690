"""The repository: a git history over many tables.

Begin at ``repository``, then ``committing.transaction``: stage, swap, land. Words that recur:

    pin         what a commit says about one table: which state of it, on which branch of it
    branch      of the repository: a ref. Each table written on it has a branch of the same name
    tip         the commit that a branch of the repository is at
    stage       the next states of one table, built and not visible yet (``engine.staging``)
    swap        a branch moves from its tip to the new commit, or not at all: the commit point
    land        a state that a commit pins becomes an ordinary version of the table's branch
    diverged    it cannot land: a writer from outside made what does not go together with it
    owe, pay    a branch was moved, and its tables are to follow; whoever writes next sees to it
    cut         where all tables of a branch stand at one moment
    own         a table below the repository, in ``tables/``; other tables are elsewhere
    given up    made by commits that no branch leads to any more, and still in the table
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lancewood.lazy_names import lazy_names

if TYPE_CHECKING:
    from lancewood.catalog.names import own_table_uri
    from lancewood.git.names import HEADS, is_uri
    from lancewood.git.repository import GitRepository
    from lancewood.repo.identity import author_here
    from lancewood.repo.ref_names import tag_ref

__all__ = ["HEADS", "GitRepository", "author_here", "is_uri", "own_table_uri", "tag_ref"]

_MODULES = {
    "GitRepository": "lancewood.git.repository",
    "HEADS": "lancewood.git.names",
    "author_here": "lancewood.repo.identity",
    "is_uri": "lancewood.git.names",
    "own_table_uri": "lancewood.catalog.names",
    "tag_ref": "lancewood.repo.ref_names",
}
__getattr__, __dir__ = lazy_names(globals(), _MODULES)
