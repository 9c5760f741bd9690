"""``Repository.tags``: names for commits that stay where they are.

A tag of the repository also becomes a tag of every table it pins, so that no cleanup, ours or
pylance's, takes the versions for garbage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from lancewood.errors import AlreadyExistsError, NotFoundError, RetryableConflictError
from lancewood.git.hashes import Hash
from lancewood.git.names import TAGS
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.naming.protecting import protect, unprotect
from lancewood.repo.ref_names import tag_ref


class Tags:
    """The tags of a repository, by name. Made by ``Repository.tags``."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def list(self) -> dict[str, Hash]:
        """Every tag and the commit that it names, sorted by name; annotated ones are peeled.

        Those that git set on something else are left out. Raises NotFoundError, naming the tag,
        where what it names is gone.
        """
        found = self._grounds.git.refs.names(TAGS)
        peeled = {name: self._commit_of(name, found[name]) for name in sorted(found)}
        return {name.removeprefix(TAGS): at for name, at in peeled.items() if at is not None}

    def create(self, name: str, at: str = "HEAD") -> Hash:
        """A new tag at a revision, and the commit that is; raises AlreadyExistsError.

        The tables are tagged first: a tag that is there protects.
        """
        ref = tag_ref(name)
        refs = self._grounds.git.refs
        commit = self._grounds.commit(at)
        if refs.read(ref) is not None:
            raise self._taken(name)
        protect(self._grounds, ref, commit)
        by = author_of(self._grounds.git)
        if not refs.move(ref, None, commit, why=f"tag: tagging {commit[:12]}", by=by):
            self._protect_again(ref)
            raise self._taken(name)
        return commit

    def delete(self, name: str) -> None:
        """Remove a tag, and those that it became in the tables; raises NotFoundError."""
        ref = tag_ref(name)
        refs = self._grounds.git.refs
        found = refs.read(ref)
        if found is None:
            raise NotFoundError(f"there is no tag {name!r}", tag=name)
        if not refs.move(ref, found, None, why="tag: deleted", by=author_of(self._grounds.git)):
            raise RetryableConflictError(f"tag {name!r} was changed meanwhile", tag=name)
        commit = None
        with suppress(NotFoundError):  # which tables a commit had that is gone, nobody knows
            commit = self._commit_of(ref, found)
        if commit is not None:
            unprotect(self._grounds, ref, commit)
        self._protect_again(ref)

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.list()

    def __len__(self) -> int:
        return len(self.list())

    def __repr__(self) -> str:
        return f"<tags of {self._grounds.home}>"

    def _commit_of(self, ref: str, found: Hash) -> Hash | None:
        """The commit that a tag leads to; None where it leads to something else."""
        try:
            return self._grounds.git.objects.peel(found)
        except NotFoundError as gone:
            if "hash" not in gone.facts:
                return None
            raise NotFoundError(
                f"{ref} of {self._grounds.home} leads nowhere: {gone.message}; bring the object "
                "back from a copy, or delete the tag",
                **gone.facts,
            ) from gone

    def _protect_again(self, ref: str) -> None:
        """Somebody may have made the tag while our own tags were in the tables."""
        found = self._grounds.git.refs.read(ref)
        if found is not None:
            protect(self._grounds, ref, self._grounds.git.objects.peel(found))

    def _taken(self, name: str) -> AlreadyExistsError:
        return AlreadyExistsError(
            f"there is a tag {name!r} already: a tag stays where it is; delete it first",
            tag=name,
        )
