"""What became of the files of commits, to be done to those of a branch as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lancewood.catalog.file_merging import crossed_paths, merge_entries
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
    crossing: tuple[Hash, ...] = ()
    """Commits that are as good a beginning as ``before``: the two were merged crosswise."""

    def applied(self, now: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """The entries of a tree with the change.

        Raises IncompatibleConflictError naming the files that were changed here as well, into
        something else; and those that are not the same in all commits where it could begin.
        """
        tree, objects = self.grounds.tree, self.grounds.git.objects
        before, after = tree(self.before).files, tree(self.after).files
        if self.crossing:
            bases = [before, *(tree(each).files for each in self.crossing)]
            self._check(
                crossed_paths(objects, bases, after, now),
                "The two were merged crosswise before, and which side took back what cannot be "
                "told of the files",
            )
        found, twice = merge_entries(objects, before, after, now)
        self._check(twice, "Files that are something else here:")
        return found

    def _check(self, files: list[str], why: str) -> None:
        if not files:
            return
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        raise IncompatibleConflictError(
            f"{self.refused}, and nothing has changed. {why} "
            f"{', '.join(map(repr, files[:_MOST_NAMED]))}{more}; make them the same on one side "
            "with snapshot(), and do it again",
            files=files,
        )
