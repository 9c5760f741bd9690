"""The roots that may share files: a table's main root, and its branches below ``tree/``.

A branch reads files of the root it came from, and keeps its data files there. Reads names, opens no
manifest, changes nothing. Clones elsewhere are not seen here, except by the tags that they leave.
"""

from __future__ import annotations

from dataclasses import dataclass

from lancewood.engine.refs import Refs, is_recorded
from lancewood.engine.revisions import main_place
from lancewood.engine.roots import branch_roots
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError
from lancewood.format.layout import TREE_DIR, VERSIONS_DIR, ManifestName, parse_manifest_name
from lancewood.model.refs import BranchName
from lancewood.store.base import Store


@dataclass(frozen=True)
class Family:
    """One root of a table, ``own``, and those it may share files with."""

    main: Store
    own: Store
    branch: BranchName | None
    """The branch that ``own`` is the root of; None for main."""

    @property
    def own_root(self) -> str:
        return "" if self.branch is None else f"{TREE_DIR}/{self.branch}"

    def store(self, root: str) -> Store:
        if root == self.own_root:
            return self.own
        return self.main.at(root) if root else self.main

    def roots(self, refs: Refs) -> list[str]:
        """Every root of the family, with or without a ref.

        Raises FormatError for a branch whose root holds no version: what it needs is not known.
        """
        found = ["", *branch_roots(self.main)]
        known = set(found)
        for each in refs.branches:
            if f"{TREE_DIR}/{each.name}" not in known and is_recorded(self.main, each.name):
                raise FormatError(
                    f"branch {each.name} of {self.main.uri} is recorded, but {TREE_DIR}/"
                    f"{each.name} holds no version: which files it needs is not known. Bring its "
                    "files back, or delete the branch",
                    branch=str(each.name),
                )
        return found


def find_family(snapshot: Snapshot) -> Family:
    """The family that a version belongs to; raises InvalidInputError for a branch elsewhere."""
    own, head = snapshot.place.store, snapshot.manifest
    if head.branch is None:
        return Family(own, own, None)
    return Family(main_place(snapshot).store, own, BranchName.found(head.branch))


def manifest_names(store: Store) -> dict[str, ManifestName]:
    """The manifests of a root by the bare names of their files, detached ones included."""
    return {
        name: found for name in store.names(VERSIONS_DIR) if (found := parse_manifest_name(name))
    }
