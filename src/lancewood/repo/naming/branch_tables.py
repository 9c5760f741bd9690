"""The branches of tables that go with a branch of the repository.

    1  a note says which branch is to go, and which commit it was at
    2  the ref goes: from here on its commits count only if something else leads to them
    3  the branches of the tables go, each unless somebody needs it; then the note

Cut off after 1 the branch may be there still, after 2 it is gone: whoever deletes it again goes on
from there. A branch of a table goes only if this repository made it, no commit that can be reached
pins it, and no tag or branch of the table rests on it; what stays is for ``gc`` to look at again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from lancewood.catalog.membership import repositories_of
from lancewood.catalog.pin import Pin
from lancewood.engine.refs import load_branch, load_refs
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import TREE_DIR
from lancewood.git.hashes import Hash
from lancewood.jobs.naming.deletion import delete_branch
from lancewood.jobs.naming.intent import load_standing
from lancewood.model.refs import BranchName
from lancewood.repo.gc.needed import Needs
from lancewood.repo.grounds import Grounds
from lancewood.repo.notes.leaving_notes import forget_leaving, leave_leaving, load_leaving
from lancewood.repo.notes.merged_notes import forget_merged
from lancewood.repo.notes.reset_notes import forget_all
from lancewood.repo.ref_names import lance_branch
from lancewood.repo.writing.writable import is_ours


def note_tables(grounds: Grounds, branch: str, tip: Hash) -> None:
    """The first step: say that a branch is to go with those of its tables."""
    leave_leaving(grounds, branch, tip)


def delete_noted_tables(grounds: Grounds, branch: str) -> bool:
    """The third step, if somebody took the first; whether somebody did.

    Raises what keeps a table from being read; the note stays then, and it can be done again.
    """
    tip = load_leaving(grounds, branch)
    if tip is None:
        return False
    wanted = lance_branch(branch)
    assert wanted is not None, "main does not go"
    with suppress(NotFoundError):  # the commit is gone, with all that it could tell
        _Deletion(grounds, branch, wanted, tip).run()
    forget_merged(grounds, branch)
    forget_all(grounds, branch)
    forget_leaving(grounds, branch)
    return True


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A table with a branch of that name."""

    pin: Pin
    main: Snapshot
    made: int
    """When the branch was made, in seconds; 0 where only files of it are left."""


@dataclass
class _Deletion:
    grounds: Grounds
    branch: str
    wanted: BranchName
    tip: Hash

    def run(self) -> None:
        found = [*filter(None, map(self._doomed, self._pins()))]
        if not found:
            return
        # Commits that pin a branch were made after it.
        self.needs = Needs(self.grounds, since=min(each.made for each in found) or None)
        for each in found:
            with suppress(NotFoundError, InvalidInputError):  # gone, or somebody needs it
                self.needs.watch(each.pin.uri, repositories_of(each.main))
                self._check(each)
                delete_branch(each.main, self.branch, force=True, check=partial(self._check, each))

    def _pins(self) -> list[Pin]:
        tree = self.grounds.tree(self.tip)
        return [tree.pin(name) for name in tree.names()]

    def _doomed(self, pin: Pin) -> _Doomed | None:
        place = self.grounds.place(pin.on(None))
        record = load_branch(place.store, self.wanted)
        if record is not None and not is_ours(self.grounds, record):
            return None
        if record is None:
            standing = load_standing(place.store.at(f"{TREE_DIR}/{self.wanted}"))
            if standing is None or standing.intent.verb != "delete":
                return None
        try:
            main = load_snapshot(place)
        except NotFoundError:
            return None
        return _Doomed(pin, main, 0 if record is None else record.created_at_seconds)

    def _check(self, doomed: _Doomed) -> None:
        """Raise InvalidInputError if somebody needs the branch of a table."""
        if self.grounds.git.refs.head().branch == self.branch or self.grounds.tip(self.branch):
            raise InvalidInputError("the repository has a branch of that name")
        self.needs.look()
        if self.needs.needs_branch(doomed.pin.uri, self.wanted):
            raise InvalidInputError("a commit pins it")
        tags = load_refs(doomed.main.place.store).tags
        if any(each.branch == self.wanted for each in tags):
            raise InvalidInputError("a tag is on it")
