"""Names of the repository's own for commits, below ``refs/lancewood``: neither branches nor tags.

Whoever has something to remember of a commit gives it one: it stays where it is until its giver
moves it, and keeps the commit as any ref does. Knows nothing of what the names mean.
"""

from __future__ import annotations

from lancewood.errors import AlreadyExistsError
from lancewood.git.hashes import Hash
from lancewood.git.names import checked_ref
from lancewood.repo.grounds import Grounds
from lancewood.repo.identity import author_of

_OURS = "refs/lancewood/"


class Marks:
    """Commits by such names. Made by ``Repository.marks``."""

    def __init__(self, grounds: Grounds) -> None:
        self._grounds = grounds

    def get(self, name: str) -> Hash | None:
        """The commit of a name; None where there is none."""
        return self._grounds.git.refs.read(checked_ref(_OURS + name))

    def list(self, prefix: str = "") -> dict[str, Hash]:
        """Every name that begins so, and its commit, sorted by name."""
        found = self._grounds.git.refs.names(_OURS + prefix)
        return {name.removeprefix(_OURS): found[name] for name in sorted(found)}

    def set(self, name: str, commit: Hash, *, why: str, instead_of: Hash | None = None) -> bool:
        """Give a commit a name, which ``instead_of`` loses; False if it has that already.

        Raises AlreadyExistsError if another commit has it.
        """
        ref, refs = checked_ref(_OURS + name), self._grounds.git.refs
        if refs.move(ref, instead_of, commit, why=why, by=author_of(self._grounds.git)):
            return True
        found = refs.read(ref)
        if found != commit:
            raise AlreadyExistsError(
                f"{ref} is commit {str(found)[:12]} already, and cannot be {commit[:12]} as well",
                ref=ref,
            )
        return False

    def __repr__(self) -> str:
        return f"<marks of {self._grounds.home}>"
