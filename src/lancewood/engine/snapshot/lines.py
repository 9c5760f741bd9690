"""What a state of a table holds of its lines, and the versions that two states have in common.

A line with an identity says so in its configuration. One without, made by another writer or by an
older Lancewood, is followed to the version that it began from (``descent``). Changes nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lancewood.engine.location import Location
from lancewood.engine.snapshot.descent import Descent, became, landed
from lancewood.engine.snapshot.revisions import branch_location, main_location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import load_refs
from lancewood.errors import FormatError, NotFoundError
from lancewood.model.ids import Version, is_detached
from lancewood.model.lines import MAIN_LINE, Reached, Vector, has_own_ids, held_by, joined, line_of
from lancewood.model.refs import BranchName, called
from lancewood.model.transaction import Clone, Overwrite, Restore


def vector_of(state: Snapshot) -> Vector:
    """What a state holds: what it says itself, and for a line without an identity what the version
    held that it began from. A detached state holds what it was built on."""
    found = landed(state)
    own = held_by(state.manifest)
    if found is None:
        return own
    own = joined(own, held_by(found.manifest))
    begun = None if has_own_ids(found.manifest) else _beginning(found)
    return own if begun is None else joined(own, vector_of(begun))


def has_settled_ids(state: Snapshot) -> bool:
    """Whether the row ids of a state are its line's own, so that a row with one of them is the same
    row anywhere. A detached state gave out ids beside its line, until it became a version."""
    if not has_own_ids(state.manifest):
        return False
    return not is_detached(state.manifest.version) or became(state) is not None


def merge_bases(ours: Snapshot, theirs: Snapshot) -> tuple[Snapshot, ...]:
    """The newest versions that two states of a table both hold, on whatever branches: those that no
    other of them holds. One is the rule, several if each was merged into the other; none if they
    have no line in common.

    Raises NotFoundError for one that is gone.
    """
    found, gone = _Bases(ours, theirs).found()
    for missing in gone.values():
        raise missing
    return found


class Step(NamedTuple):
    """Two versions of a line, one after the other: what the later one took over lies between."""

    before: Snapshot
    after: Snapshot


def remaining_bases(
    ours: Snapshot, theirs: Snapshot
) -> tuple[tuple[Snapshot, ...], tuple[Step, ...]]:
    """The merge bases that are not gone, and the steps in which the sides took over what the gone
    ones had: the merges of a branch that was deleted afterwards. Of both sides, as each may have
    decided otherwise than the branch.

    Raises NotFoundError if there is no base left, or for one of which such steps are not there, or
    took over more than both sides hold.
    """
    bases = _Bases(ours, theirs)
    found, gone = bases.found()
    steps = list[Step]()
    for line, missing in gone.items():
        taken = bases.steps(line) if found else None
        if taken is None:
            raise missing
        steps += taken
    return found, tuple(steps)


class _Bases:
    def __init__(self, ours: Snapshot, theirs: Snapshot) -> None:
        self._sides = ours, theirs
        self._main = main_location(ours)
        self._vectors = vector_of(ours), vector_of(theirs)

    def found(self) -> tuple[tuple[Snapshot, ...], Mapping[str, NotFoundError]]:
        """The bases, and the errors of those that are gone, by line."""
        left = dict(self._candidates())
        bases = dict[str, tuple[Snapshot, Vector]]()
        gone = dict[str, NotFoundError]()
        for line in [*left]:
            if line not in left:
                continue
            try:
                base = self._open(line, left[line])
            except NotFoundError as error:
                gone[line] = error
                continue
            if base is None:
                del left[line]
                continue
            held = vector_of(base)
            for other in [each for each in left if each != line and _holds(held, each, left[each])]:
                del left[other]
                bases.pop(other, None)
            bases[line] = base, held
        found = tuple(base for base, _ in bases.values())
        return found, {line: missing for line, missing in gone.items() if line in left}

    def steps(self, line: str) -> list[Step] | None:
        """The steps in which each side took over a line as far as both hold it, those first that
        took over less; None if they are not to be found."""
        common = dict(self._candidates())
        with contextlib.suppress(NotFoundError):
            found = [step for side in self._sides for step in _steps(side, line, common)]
            return sorted(found, key=lambda each: held_by(each.after.manifest)[line].version)
        return None

    def _candidates(self) -> Iterator[tuple[str, Reached]]:
        """The lines that both hold, up to the lower version; first those that are likely to hold
        others: their own, and main."""
        one, other = self._vectors
        first = [line_of(each.manifest).id for each in reversed(self._sides)]
        for line in dict.fromkeys([*first, MAIN_LINE, *one]):
            if line in one and line in other:
                yield line, min(one[line], other[line], key=lambda each: each.version)

    def _open(self, line: str, reached: Reached) -> Snapshot | None:
        """A version of a line; None for one of another life of a branch without identities."""
        for each in self._sides:
            head = each.manifest
            if line_of(head).id == line and head.version == reached.version:
                return each
        if line == MAIN_LINE:
            return self._load(line, reached, None)
        if line.startswith("/"):
            found = self._load(line, reached, BranchName.found(line[1:]))
            histories = (Descent(each) for each in self._sides)
            return found if all(each.holds(found) for each in histories) else None
        for name in self._names(line):
            with contextlib.suppress(NotFoundError):
                found = load_snapshot(branch_location(self._main, name), version=reached.version)
                if line_of(found.manifest).id == line:
                    return found
        raise _gone(self._main, line, reached)

    def _names(self, line: str) -> Iterator[BranchName]:
        """The branches on which a line may be: where it was, or else any, as it was renamed."""
        for each in dict.fromkeys(each[line].branch for each in self._vectors):
            with contextlib.suppress(FormatError):
                yield BranchName.found(each or "")
        for record in load_refs(self._main.store).branches:
            yield record.name

    def _load(self, line: str, reached: Reached, branch: BranchName | None) -> Snapshot:
        try:
            return load_snapshot(branch_location(self._main, branch), version=reached.version)
        except NotFoundError as cause:
            raise _gone(self._main, line, reached) from cause


def _beginning(head: Snapshot) -> Snapshot | None:
    """The version that a branch began from, in the root of its parent; None where that is unknown
    or gone."""
    history = Descent(head)
    roots = [*history.crossings(history)]
    if len(roots) < 2:
        return None
    location, version = roots[1]
    with contextlib.suppress(NotFoundError):
        return load_snapshot(location, version=version)
    return None


def _steps(side: Snapshot, line: str, common: Vector) -> Iterator[Step]:
    """The steps in which a side took over a line; raises NotFoundError if it took over more in one
    of them than is common to both sides."""
    wanted = common[line].version
    while wanted:
        after = first_holding(side, line, wanted)
        before = load_snapshot(side.location, version=after.manifest.version - 1)
        old, new = held_by(before.manifest), held_by(after.manifest)
        own = line_of(side.manifest).id
        came = {each: new[each] for each in new if each != own and not _holds(old, each, new[each])}
        operations = after.transaction_of(after.manifest.version).operations
        is_merge = not any(isinstance(each, Clone | Restore | Overwrite) for each in operations)
        is_common = all(_holds(common, each, reached) for each, reached in came.items())
        if own not in old or not is_merge or not is_common:
            raise _gone(main_location(side), line, common[line])
        yield Step(before, after)
        wanted = old[line].version if line in old else Version(0)


def first_holding(side: Snapshot, line: str, version: Version) -> Snapshot:
    """The first version of a side's own line that holds so much of another line; those that are
    gone count as if they did not."""
    low, found = line_of(side.manifest).first, side
    while low < found.manifest.version:
        middle = Version((low + found.manifest.version) // 2)
        with contextlib.suppress(NotFoundError):
            earlier = load_snapshot(side.location, version=middle)
            held = held_by(earlier.manifest).get(line)
            if held is not None and held.version >= version:
                found = earlier
                continue
        low = Version(middle + 1)
    return found


def _holds(held: Vector, line: str, reached: Reached) -> bool:
    return line in held and held[line].version >= reached.version


def _gone(main: Location, line: str, reached: Reached) -> NotFoundError:
    return NotFoundError(
        f"version {reached.version} of {called(reached.branch)} of {main.uri}, which both sides "
        f"hold, is gone (line {line}): it was cleaned up, or its branch was deleted, and the "
        "merges that would show what it brought are not there, or brought more. What changed since "
        "cannot be told; bring the rows over with merge() by a key, or with overwrite()",
        branch=reached.branch,
        version=reached.version,
        line=line,
    )
