"""Looking whether refs, HEAD and their logs can be read, and lead to commits.

Knows names and what they lead to, and not what is in a commit.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from lancewood.errors import LancewoodError, NotFoundError
from lancewood.git.hashes import ZERO, Hash
from lancewood.git.names import HEAD
from lancewood.repo.fsck.findings import RESTORE, Findings
from lancewood.repo.fsck.problems import Kind
from lancewood.repo.grounds import Grounds

_REFS = "refs/"
_REMOVE = "Move it to a commit that is there, or delete it"


@dataclass
class RefCheck:
    """The refs of a repository."""

    grounds: Grounds
    findings: Findings
    tips: dict[str, Hash] = field(default_factory=dict)
    """The commits that refs lead to, by the names of those."""
    _logged: set[Hash] = field(default_factory=set)

    def run(self) -> None:
        refs, attempt = self.grounds.git.refs, self.findings.attempt
        head = attempt(Kind.REF, HEAD, "switch() to a branch", refs.head)
        if head is not None and head.hash is not None:
            self._check(HEAD, head.hash)
        names = attempt(Kind.REF, "packed-refs", RESTORE, lambda: [*refs.every_name(_REFS)])
        for name in names or ():
            value = attempt(Kind.REF, name, _REMOVE, partial(refs.read, name))
            if value is not None:
                self._check(name, value)
        for name in attempt(Kind.REF, "logs", RESTORE, refs.logged_names) or ():
            if names is not None and name not in names:
                self._check_lost(name)
        for name in (HEAD, *(names or ())):
            way_out = f"Remove logs/{name}: it only tells where the ref was before"
            attempt(Kind.REF, f"log of {name}", way_out, partial(self._read_log, name))

    def logged_commits(self) -> list[Hash]:
        """The commits that logs of moves name, those that git removed left out."""
        found = []
        for each in self._logged - {ZERO}:
            where, peel = f"object {each[:12]}", partial(self._peeled, each)
            commit = self.findings.attempt(Kind.HISTORY, where, RESTORE, peel)
            found += [] if commit is None else [commit]
        return found

    def _check(self, name: str, value: Hash) -> None:
        act = partial(self.grounds.git.objects.peel, value)
        commit = self.findings.attempt(Kind.REF, name, _REMOVE, act)
        if commit is not None:
            self.tips[name] = commit

    def _check_lost(self, name: str) -> None:
        """A ref that moved since it was made, and is not there: who deletes one removes its log.
        One that was about to be made has a log of nothing else."""
        with suppress(LancewoodError):
            moves = [*self.grounds.git.refs.log(name)]
            if any(each.old != ZERO for each in moves):
                why = f"it is gone, and its log says that it was at {moves[0].new}"
                way_out = f"Make it there again, or remove logs/{name}"
                self.findings.tell(Kind.REF, name, why, way_out)

    def _read_log(self, name: str) -> None:
        for each in self.grounds.git.refs.log(name):
            self._logged |= {each.old, each.new}

    def _peeled(self, value: Hash) -> Hash | None:
        with suppress(NotFoundError):
            return self.grounds.git.objects.peel(value)
        return None
