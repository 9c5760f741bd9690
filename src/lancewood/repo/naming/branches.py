"""``Repository.branches``: lines of commits, each a ref that moves."""

from __future__ import annotations

from collections.abc import Iterator

from lancewood.errors import (
    AlreadyExistsError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.git.hashes import Hash
from lancewood.git.history import is_ancestor
from lancewood.git.names import HEADS
from lancewood.git.objects import Signature
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of
from lancewood.repo.naming.branch_tables import delete_noted_tables, note_tables
from lancewood.repo.notes.leaving_notes import leaving_branches
from lancewood.repo.ref_names import branch_ref


class Branches:
    """The branches of a repository, by name. Made by ``Repository.branches``.

    A new branch costs one small file. Tables get a branch of the same name when they are first
    written on it.
    """

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """Every branch whose name begins so, and the commit it is at, sorted by name."""
        found = self._grounds.git.refs.names(HEADS + prefix)
        return {name.removeprefix(HEADS): found[name] for name in sorted(found)}

    def create(self, name: str, at: str | None = "HEAD") -> Hash:
        """A new branch at a revision, and the commit that is; raises AlreadyExistsError.

        ``at`` None is for a repository without commits: the branch begins with an empty one.
        """
        ref = branch_ref(name)
        by = author_of(self._grounds.git)
        commit = self._first(by) if at is None else self._grounds.commit(at)
        why = f"branch: Created from {'nothing' if at is None else at}"
        if not self._grounds.git.refs.move(ref, None, commit, why=why, by=by):
            raise AlreadyExistsError(
                f"there is a branch {name!r} already, at "
                f"{str(self._grounds.git.refs.read(ref))[:12]}; delete it first, or reset() it",
                branch=name,
            )
        return commit

    def delete(self, name: str, *, force: bool = False, tables: bool = False) -> None:
        """Remove a branch; its commits stay as long as something else leads to them.

        Refuses the current branch, and one whose commits are in no other branch, unless
        ``force``. Branches of tables stay until ``gc``; ``tables`` removes at once those of that
        name which this repository made, and which no commit pins any more and nobody else needs.
        A deletion with ``tables`` that was cut off is finished by the next one. Raises
        NotFoundError.
        """
        refs = self._grounds.git.refs
        ref = branch_ref(name)
        if refs.head().branch == name:
            raise InvalidInputError(
                f"branch {name!r} is the current one: switch to another before deleting it",
                branch=name,
            )
        tip = refs.read(ref)
        if tip is None:
            if tables and delete_noted_tables(self._grounds, name):
                return
            raise NotFoundError(f"there is no branch {name!r}", branch=name)
        if not force and not self._is_elsewhere(name, tip):
            raise IncompatibleConflictError(
                f"branch {name!r} has commits that no other branch has: merge it first, or give "
                "them up with force=True",
                branch=name,
            )
        if tables:
            note_tables(self._grounds, name, tip)
        if not refs.move(ref, tip, None, why="branch: deleted", by=author_of(self._grounds.git)):
            raise RetryableConflictError(
                f"branch {name!r} moved while it was to be deleted; look at it again", branch=name
            )
        if tables:
            delete_noted_tables(self._grounds, name)

    def delete_from_tables(self, name: str, at: str) -> None:
        """Remove what a branch that is gone left in the tables of a revision: their branches of
        that name, as ``delete`` does with ``tables``. Raises AlreadyExistsError if it is there."""
        if self._grounds.git.refs.read(branch_ref(name)) is not None:
            raise AlreadyExistsError(
                f"there is a branch {name!r}: delete it with tables=True", branch=name
            )
        note_tables(self._grounds, name, self._grounds.commit(at))
        delete_noted_tables(self._grounds, name)

    def leaving(self) -> tuple[str, ...]:
        """The branches whose deletion with ``tables`` was begun and not finished; another one
        finishes it, or begins it again."""
        return tuple(leaving_branches(self._grounds))

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.list()

    def __len__(self) -> int:
        return len(self.list())

    def __repr__(self) -> str:
        return f"<branches of {self._grounds.home}>"

    def _first(self, by: Signature) -> Hash:
        return self._grounds.git.objects.put_commit(self._grounds.tree(None).put(), (), by, "begin")

    def _is_elsewhere(self, name: str, tip: Hash) -> bool:
        objects = self._grounds.git.objects
        others = (each for branch, each in self.list().items() if branch != name)
        return any(each == tip or is_ancestor(objects, tip, each) for each in others)
