"""Bringing the files of a branch from one root to another, for whoever renames it.

Each step may be done twice, and by two at once: it writes what is there already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lancewood.format.layout import TRANSACTIONS_DIR, TREE_DIR, parse_manifest_name
from lancewood.format.renamed import is_same_manifest, renamed_manifest, renamed_transaction
from lancewood.jobs.naming.branch_root import root_of
from lancewood.model.refs import BranchName
from lancewood.store.base import PutOutcome, Store
from lancewood.store.readback import put_new_settled


@dataclass(frozen=True)
class Copying:
    """What a task needs to know to bring files from one root to the other."""

    main: Store
    old: BranchName
    new: BranchName
    own_paths: frozenset[str]

    def copy(self, keys: Sequence[str]) -> None:
        """Bring files that are never rewritten; transactions are looked into."""
        source, target = root_of(self.main, self.old), root_of(self.main, self.new)
        for key in keys:
            if key.startswith(f"{TRANSACTIONS_DIR}/") and key.endswith(".txn"):
                name = f"{source.uri}/{key}"
                target.put(key, renamed_transaction(source.get(key), self.old, self.new, name))
            else:
                self.main.copy(f"{TREE_DIR}/{self.old}/{key}", f"{TREE_DIR}/{self.new}/{key}")

    def rewrite(self, keys: Sequence[str]) -> list[str]:
        """Bring manifests; those for which the new root has another one already."""
        source, target = root_of(self.main, self.old), root_of(self.main, self.new)
        taken = []
        for key in keys:
            data = renamed_manifest(
                source.get(key),
                self.old,
                self.new,
                self.own_paths,
                target.uri,
                f"{source.uri}/{key}",
            )
            if data is None or put_new_settled(target, key, data) is PutOutcome.CREATED:
                continue
            if not is_same_manifest(target.get(key), data, f"{target.uri}/{key}"):
                taken.append(key)
        return taken


def version_of(key: str) -> int:
    """The version of a manifest by its key; detached ones count as the first."""
    found = parse_manifest_name(key.rpartition("/")[2])
    return 0 if found is None else 1 if found.detached else found.version
