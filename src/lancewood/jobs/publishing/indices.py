"""The indices of the target after the work of a branch: fork, branch and target become one.

An index that was made before the fork stays, and answers for what it answers for on both sides. One
that was made on the branch comes along, unless what it holds names fragments or rows by ids that
are others' on the target. Taking those out of its bitmap would not do: tried with pylance 14, two
segments of one index are not told apart, and the older one then answers for rows of the younger.
Pure but for what ``adopt`` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lancewood.jobs.publishing.numbering import Numbering
from lancewood.jobs.publishing.work import Work
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.index import Index
from lancewood.model.manifest import Manifest
from lancewood.model.operations import CreateIndex, FieldMessages
from lancewood.proto import table_pb2
from lancewood.rules.indices import changed_fields, on_live_fields, uncovered, with_relatives
from lancewood.rules.numbering import next_fragment_id

_Pairs = Iterable[tuple[Fragment, Fragment]]
"""Fragments of one id before and after a change."""


@dataclass(frozen=True)
class IndexMerge:
    """The target's indices, and what became of the branch's."""

    indices: tuple[Index, ...]
    added: tuple[Index, ...] = ()
    removed: tuple[Index, ...] = ()
    left_out: tuple[str, ...] = ()
    """Indices of the branch that the target cannot use."""


@dataclass
class Indices:
    """What is known of the indices of all sides."""

    work: Work
    newest: Manifest
    fields: FieldMessages
    """Those of the target's next version."""
    numbering: Numbering
    changed: Sequence[tuple[Fragment, Fragment]]
    """What the branch changed."""
    changed_there: Callable[[], _Pairs]
    """What the target changed of columns, asked where an index comes along."""
    adopt: Callable[[Index], Index | None]
    _grouped: Mapping[frozenset[FieldId], list[FragmentId]] | None = field(default=None)

    def merged(self) -> IndexMerge:
        fork = _by_uuid(self.work.first.manifest.indices)
        head = _by_uuid(self.work.head.manifest.indices)
        fresh = [each for key, each in head.items() if key not in fork]
        taken = [(each, self._adopted(each)) for each in fresh]
        left_out = {each.name for each, done in taken if done is None}
        added = tuple(done for _, done in taken if done is not None)
        kept, removed = [], []
        for each in self.newest.indices:
            key = each.message.uuid.uuid
            if key in fork and key not in head and each.name not in left_out:
                removed.append(each)
            elif key in fork and key in head:
                kept.append(self._patched(each, fork[key], head[key]))
            else:
                kept.append(self._uncovered(each))
        live = frozenset(FieldId(each.id) for each in self.fields)
        indices = on_live_fields((*kept, *added), live)
        return IndexMerge(indices, added, tuple(removed), tuple(sorted(left_out)))

    def _patched(self, now: Index, fork: Index, head: Index) -> Index:
        """The target's index with the changes of the branch to what it covers."""
        if fork.message.fragment_bitmap == head.message.fragment_bitmap:
            return now
        before, after, here = fork.fragments, head.fragments, now.fragments
        covered = (here - (before - after)) | self.numbering.covered(after - before)
        return now if covered == here else now.covering(covered)

    def _uncovered(self, now: Index) -> Index:
        """An index that the branch does not know, without fragments whose columns it wrote anew."""
        if self._grouped is None:
            self._grouped = _by_fields(self.changed)
        return _without(now, self._grouped, self.fields)

    def _adopted(self, index: Index) -> Index | None:
        if self.numbering.is_shifted and not self._holds_only_old_rows(index):
            return None
        found = self.adopt(index)
        if found is None:
            return None
        found = _without(found, _by_fields(self.changed_there()), self.fields)
        message = table_pb2.IndexMetadata()
        message.CopyFrom(found.covering(self.numbering.covered(found.fragments)).message)
        if message.dataset_version > self.numbering.fork:
            message.dataset_version = self.newest.version
        return Index(message)

    def _holds_only_old_rows(self, index: Index) -> bool:
        """Whether all that the index was made of is from before the fork. What it covers now does
        not tell: what it once held, it still holds."""
        born = next_fragment_id(self.work.first.manifest)
        for each in self.work.steps:
            operation = each.operation
            if not isinstance(operation, CreateIndex):
                continue
            for made in operation.new_indices:
                if made.message.uuid.uuid == index.message.uuid.uuid:
                    made_of = made.fragments
                    return not made_of or made_of.max() < born
        return False


def _without(
    index: Index, grouped: Mapping[frozenset[FieldId], list[FragmentId]], fields: FieldMessages
) -> Index:
    for written, fragments in grouped.items():
        (index,) = uncovered((index,), fragments, with_relatives(fields, written))
    return index


def _by_fields(pairs: _Pairs) -> Mapping[frozenset[FieldId], list[FragmentId]]:
    """Fragments by the columns that come from other files now."""
    found: dict[frozenset[FieldId], list[FragmentId]] = {}
    for before, after in pairs:
        written = changed_fields(before, after)
        if written:
            found.setdefault(written, []).append(after.id)
    return found


def _by_uuid(indices: Iterable[Index]) -> dict[bytes, Index]:
    return {each.message.uuid.uuid: each for each in indices}
