"""Which fragments are to be moved: by id, by what their rows are like, by age.

What the manifest tells is asked first. Only a condition on rows reads columns, its own, in
fragments that can hold a row which meets it; the first row that does not ends the look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from lancewood.engine.fanout import in_order
from lancewood.engine.fragment_scan import FragmentScan
from lancewood.engine.limits import as_list, check_number
from lancewood.engine.projection import Parameters, project
from lancewood.engine.row_shape import RowShape
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import NotFoundError
from lancewood.jobs.moving.ages import check_age, old_fragments
from lancewood.jobs.packing import AT_ONCE, pack_fragments
from lancewood.jobs.rows.matching import Matching
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.schema import ROW_ADDRESS


@dataclass(frozen=True)
class FragmentChoice:
    """What a caller wants to be moved: fragments that meet all that is said."""

    ids: frozenset[FragmentId] | None = None
    where: str | None = None
    parameters: Parameters = field(default=None, repr=False)
    older_than: timedelta | None = None

    @classmethod
    def checked(
        cls,
        fragments: Iterable[int] | None,
        where: str | None,
        parameters: Parameters,
        older_than: timedelta | None,
    ) -> FragmentChoice:
        """A caller's wishes; raises InvalidInputError for what is none."""
        check_age(older_than)
        ids = None
        if fragments is not None:
            numbers = as_list("fragments", fragments)
            ids = frozenset(FragmentId(check_number("a fragment id", each)) for each in numbers)
        return cls(ids, where, parameters, older_than)

    def check(self, snapshot: Snapshot) -> None:
        """Raises NotFoundError for a fragment that is not there, InvalidInputError for a condition
        that does not fit the table."""
        manifest = snapshot.manifest
        for each in sorted(self.ids or ()):
            if manifest.position_of(each) is None:
                raise NotFoundError(
                    f"fragment {each} not found in version {manifest.version} of "
                    f"{snapshot.place.uri}; nothing was moved",
                    fragment=each,
                )
        Matching(snapshot, self.where, self.parameters)

    def fragments(self, snapshot: Snapshot, runner: Runner) -> Sequence[Fragment]:
        """The fragments of one version, in its order; one that is gone by now is none of them."""
        chosen = self._by_id(snapshot)
        if self.older_than is not None:
            chosen = old_fragments(snapshot, chosen, self.older_than)
        if self.where is not None:
            chosen = self._by_rows(snapshot, chosen, runner)
        return chosen

    def _by_id(self, snapshot: Snapshot) -> Sequence[Fragment]:
        manifest = snapshot.manifest
        if self.ids is None:
            return manifest.fragments
        manifest.expect_lookups(len(self.ids))
        there = [each for each in sorted(self.ids) if manifest.position_of(each) is not None]
        return [manifest.fragment(each) for each in there]

    def _by_rows(
        self, snapshot: Snapshot, fragments: Sequence[Fragment], runner: Runner
    ) -> Sequence[Fragment]:
        matching = Matching(snapshot, self.where, self.parameters)
        if matching.is_every_row:
            return fragments
        can_match = {each.id for each in matching.fragments()}
        chosen = [each for each in fragments if each.id in can_match]
        tasks = list(pack_fragments(chosen, runner.slots))
        work = partial(wholly_matching, self._others(snapshot))
        found = runner.run(work, tasks, what="finding fragments")
        whole = {each for done in found for each in done}
        return [each for each in chosen if each.id in whole]

    def _others(self, snapshot: Snapshot) -> Matching:
        """The rows that do not meet the condition, those for which it is null included."""
        return Matching(snapshot.bare(), f"({self.where}\n) IS NOT TRUE", self.parameters)


def wholly_matching(others: Matching, fragments: Sequence[Fragment]) -> tuple[FragmentId, ...]:
    """The task: those of the fragments that have none of the other rows."""
    projection = project(others.snapshot.schema, [ROW_ADDRESS])
    shape = RowShape(snapshot=others.snapshot, projection=projection, predicate=others.predicate)
    work = (partial(_if_none, shape, each) for each in fragments)
    return tuple(in_order(work, workers=AT_ONCE))


def _if_none(shape: RowShape, fragment: Fragment) -> Iterator[FragmentId]:
    if not any(FragmentScan(shape, fragment).count()):
        yield fragment.id
