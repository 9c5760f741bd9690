"""The numbers that the work of a branch gets on its target: ids of fragments and rows, versions.

Where the target has handed out ids since the fork, everything that was born on the branch moves
behind them, all by the same distance; ids from before the fork are the same on both sides. Anew on
every attempt. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pyroaring import BitMap

from lancewood.errors import UnsupportedError
from lancewood.model.fragment import Fragment, Lineage
from lancewood.model.ids import FragmentId, Version
from lancewood.model.manifest import ManifestHead
from lancewood.model.rowids import RowVersions
from lancewood.proto import table_pb2
from lancewood.rules.numbering import check_fragment_id, next_fragment_id


@dataclass(frozen=True)
class Numbering:
    """What becomes of numbers that the branch handed out."""

    first: ManifestHead
    """The branch as it began: its marks divide what is common from what was born here."""
    head: ManifestHead
    added: tuple[FragmentId, ...]
    """The new fragments of the branch that are still there."""
    fragment_shift: int
    row_shift: int
    fork: Version
    version: Version
    """The version that the work becomes."""
    strays: dict[FragmentId, FragmentId] = field(default_factory=dict)
    """New fragments under ids from before the fork, which somebody had reserved."""
    _stamped: dict[bytes, bytes] = field(default_factory=dict, repr=False)

    @property
    def is_shifted(self) -> bool:
        """Whether anything that was born on the branch is called differently now."""
        return bool(self.fragment_shift or self.row_shift)

    @property
    def max_fragment_id(self) -> int | None:
        """The mark of fragment ids after the work; None where none was handed out on the branch."""
        last = next_fragment_id(self.head) - 1
        if last < next_fragment_id(self.first) and not self.strays:
            return None
        return check_fragment_id(max(last + self.fragment_shift, *self.strays.values(), 0))

    @property
    def next_row_id(self) -> int | None:
        """The mark of row ids after the work; None on a table that has none."""
        if not self.head.has_stable_row_ids:
            return None
        return self.head.next_row_id + self.row_shift

    def fragment_id(self, number: FragmentId) -> FragmentId:
        """What a new fragment of the branch is called on the target."""
        if number in self.strays:
            return self.strays[number]
        return FragmentId(number + self.fragment_shift)

    def covered(self, fragments: BitMap) -> BitMap:
        """The same fragments by their names on the target. Without those that are gone: there,
        their ids are others'."""
        if not self.fragment_shift:
            return fragments
        born = set(self.added)
        known = next_fragment_id(self.first)
        return BitMap(
            self.fragment_id(FragmentId(each)) if each in born else each
            for each in fragments
            if each in born or each < known
        )

    def lineage(self, fragment: Fragment) -> Fragment:
        """The same fragment, whose rows have their ids and versions on the target."""
        if not self.head.has_stable_row_ids:
            return fragment
        ids = fragment.row_ids if self.row_shift else None
        message = table_pb2.DataFragment()
        message.CopyFrom(fragment.message)
        if ids is not None:
            moved = ids.shifted(self.first.next_row_id, self.row_shift)
            message.inline_row_ids = moved.encode()
        created = self._restamped(fragment, "created_at_versions")
        if created is not None:
            message.inline_created_at_versions = created
        updated = self._restamped(fragment, "last_updated_at_versions")
        if updated is not None:
            message.inline_last_updated_at_versions = updated
        return Fragment(message)

    def _restamped(self, fragment: Fragment, what: Lineage) -> bytes | None:
        """The versions of the rows; fragments of one write have them in the same bytes."""
        known = fragment.lineage(what)
        if known is None:
            return None
        if not isinstance(known, bytes):
            raise UnsupportedError(
                f"fragment {fragment.id} keeps its {what.replace('_', ' ')} outside the manifest, "
                "and cannot be published",
                fragment=fragment.id,
            )
        if known not in self._stamped:
            versions = RowVersions.decode(known, fragment.check_length)
            self._stamped[known] = versions.restamp(self.fork, self.version).encode()
        return self._stamped[known]


def number_work(
    first: ManifestHead,
    head: ManifestHead,
    added: Iterable[Fragment],
    newest: ManifestHead,
    fork: Version,
    least_shift: int = 0,
) -> Numbering:
    """The numbers on ``newest``; fragments move by ``least_shift`` at least, unless nobody else
    handed out an id."""
    shift = next_fragment_id(newest) - next_fragment_id(first)
    shift = max(shift, least_shift) if shift else 0
    born = tuple(each.id for each in added)
    strays = [each for each in born if each < next_fragment_id(first)] if shift else []
    free = next_fragment_id(head) + shift
    return Numbering(
        first,
        head,
        born,
        shift,
        newest.next_row_id - first.next_row_id,
        fork,
        Version(newest.version + 1),
        {each: FragmentId(free + at) for at, each in enumerate(strays)},
    )
