"""The commits that plain snapshots become: one file each, and the history that the log tells.

A commit says of which snapshot it is, in a trailer. Puts objects into whatever takes them; moves
no ref.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from lancewood.catalog.files import Putting, put_entries
from lancewood.git.hashes import Hash
from lancewood.git.signature import Signature
from lancewood.repo.plain.layout import LOG, Plain
from lancewood.repo.plain.log import LogLine

SNAPSHOT = "Plain-Snapshot"


class PuttingCommits(Putting, Protocol):
    """Where objects go."""

    def put_commit(
        self,
        tree: Hash,
        parents: Sequence[Hash],
        author: Signature,
        message: str,
        committer: Signature | None = None,
    ) -> Hash: ...


def snapshot_of(message: str) -> str | None:
    """The plain snapshot that a commit was made from; None for any other commit."""
    for line in reversed(message.rstrip().split("\n")):
        key, colon, value = line.partition(": ")
        if colon and key == SNAPSHOT:
            return value.strip()
    return None


@dataclass
class PlainCommits:
    """Makes commits of the snapshots of one plain repository; each object is read once."""

    plain: Plain
    into: PuttingCommits
    by: Signature
    name: str
    """What the file of a snapshot is called in its commit."""
    blobs: dict[str, Hash] = field(default_factory=dict)
    _at: dict[str, tuple[str, Hash]] = field(default_factory=dict)
    """Refs, as far as the log goes: the snapshot and its commit."""
    _last: dict[str, Hash] = field(default_factory=dict)
    """The last commit of each snapshot."""

    def put_all(self) -> None:
        """Put the bytes of every snapshot; raises IntegrityError for one that is damaged."""
        for hash, each in self.plain.objects.items():
            self.blobs[hash] = self.into.put_blob(each.read())

    def follow(self, lines: Iterable[LogLine]) -> None:
        """Make the commits that the log tells of. What it says of snapshots that are not there is
        passed over: nobody could tell what they were."""
        for line in lines:
            if line.hash not in self.blobs:
                continue
            if line.op == "branch":
                self._at[line.ref] = line.hash, self.commit(line.hash)
                continue
            parents = []
            if line.parent is not None and line.parent in self.blobs:
                known = self._at.get(line.ref)
                is_ours = known is not None and known[0] == line.parent
                parents = [known[1] if known and is_ours else self.commit(line.parent)]
            made = self._put(line.hash, parents, line.seconds, line.label)
            self._at[line.ref] = line.hash, made
            self._last[line.hash] = made

    def of_ref(self, ref: str, hash: str) -> Hash:
        """The commit that a ref is at."""
        known = self._at.get(ref)
        return known[1] if known is not None and known[0] == hash else self.commit(hash)

    def commit(self, hash: str) -> Hash:
        """The commit of a snapshot, made without parents where the log tells of none."""
        if hash not in self._last:
            self._last[hash] = self._put(hash, [], None, None)
        return self._last[hash]

    def on_top(self, hash: str, parent: Hash) -> Hash:
        """A commit of a snapshot that follows another one."""
        return self._put(hash, [parent], None, None)

    def archive(self, log: bytes | None) -> Hash:
        """The tree that holds every snapshot under its own name, and the log."""
        files: dict[str, Hash] = {
            f"objects/{hash[:2]}/{hash[2:]}": blob for hash, blob in self.blobs.items()
        }
        if log is not None:
            files[LOG] = self.into.put_blob(log)
        return self.into.put_tree(put_entries(self.into, files))

    def put_archive(self, tree: Hash, parents: Sequence[Hash]) -> Hash:
        return self.into.put_commit(tree, parents, self.by, "every snapshot of the plain layout")

    def _put(
        self, hash: str, parents: Sequence[Hash], seconds: int | None, label: str | None
    ) -> Hash:
        when = self.plain.objects[hash].seconds if seconds is None else seconds
        author = replace(self.by, seconds=when, offset_minutes=0)
        entries = put_entries(self.into, {self.name: self.blobs[hash]})
        text = f"{label or f'snapshot {hash[:12]}'}\n\n{SNAPSHOT}: {hash}"
        return self.into.put_commit(self.into.put_tree(entries), parents, author, text)
