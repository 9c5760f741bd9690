"""What became of the files of commits, to be done to those of a branch as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lancewood.catalog.file_merging import merge_entries
from lancewood.errors import IncompatibleConflictError
from lancewood.git.hashes import Hash
from lancewood.git.objects import Entry
from lancewood.repo.grounds import Grounds

_MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class FileChange:
    """From the files of one commit to those of another; None has none."""

    grounds: Grounds
    before: Hash | None
    after: Hash | None
    refused: str
    """What is refused, if files are in the way."""

    def applied(self, now: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """The entries of a tree with the change.

        Raises IncompatibleConflictError naming the files that were changed here as well, into
        something else.
        """
        tree, objects = self.grounds.tree, self.grounds.git.objects
        before, after = tree(self.before).files, tree(self.after).files
        found, twice = merge_entries(objects, before, after, now)
        if twice:
            more = f" and {len(twice) - _MOST_NAMED} more" if len(twice) > _MOST_NAMED else ""
            raise IncompatibleConflictError(
                f"{self.refused}, and nothing has changed. Files that are something else here: "
                f"{', '.join(map(repr, twice[:_MOST_NAMED]))}{more}; make them the same on one "
                "side with snapshot(), and do it again",
                files=twice,
            )
        return found
