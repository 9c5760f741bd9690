"""Files in a commit, for repositories whose trees hold those instead of tables, or beside them.

A snapshot is the whole set of files: what it leaves out is gone from the branch. Tables stay as
they are pinned, for a history that has both would otherwise lose its tables by recording a file.
The same files are the same tree, whoever commits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lancewood.catalog.files import put_files
from lancewood.catalog.tables import TableTree
from lancewood.errors import RetryableConflictError
from lancewood.git.hashes import Hash
from lancewood.git.objects import TreeEntry
from lancewood.repo.context import RepoContext


@dataclass
class FileSet:
    """A proposal to commit files; their paths are checked."""

    context: RepoContext
    branch: str
    files: Mapping[str, bytes]
    _seen: list[Mapping[str, TreeEntry]] = field(default_factory=list)
    """What the branch had when it was begun."""

    def tree(self, tip: Hash | None) -> TableTree | None:
        """The files, with the tables of ``tip``; None if the branch has exactly these already.

        Raises RetryableConflictError if another commit changed the files meanwhile.
        """
        before = self.context.tree(tip)
        now = before.files
        if self._seen and self._seen[0] != now:
            raise RetryableConflictError(
                f"another commit changed the files of branch {self.branch!r} meanwhile; look at "
                "them, and make the snapshot again",
                branch=self.branch,
            )
        self._seen.append(now)
        found = before.with_files(put_files(self.context.git.objects, self.files))
        return None if tip is not None and found.files == now else found
