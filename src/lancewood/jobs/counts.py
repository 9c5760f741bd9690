"""What the verbs of a table did, or would do in a dry run: one class for each kind of job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

    from lancewood.engine.upkeep import ClonePin, Unpinned


@dataclass(frozen=True, slots=True)
class RowCounts:
    """How many rows of the table were changed, and how."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    unchanged: int = 0
    """Matched by a merge, and left as they were."""
    fragments: int = field(default=0, compare=False, repr=False)
    """Number of fragments in which these rows were, or are if they are new; a plan does not know
    those of new rows."""


@dataclass(frozen=True, slots=True)
class ColumnCounts:
    """Which columns were added, changed or removed, and how much was written for them."""

    columns: tuple[pa.Field, ...] = ()
    """The columns as they are afterwards, removed ones as they were; fields of structs under their
    dotted names. None if there was nothing to do."""
    fragments: int = 0
    """Number of fragments for which a file is written."""
    rows: int = 0
    """Live rows that get values."""


@dataclass(frozen=True, slots=True)
class CompactionCounts:
    """What a compaction replaced. Files are data files and deletion files."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0
    uncovered_indices: tuple[str, ...] = ()
    """Indices that name rows by where they were, and no longer cover them: extend them."""
    uncovered_rows: int = 0
    """How many rows one of them no longer covers."""
    blocking_indices: tuple[str, ...] = ()
    """Where nothing was gained: indices of which other segments, or none, cover the neighbours of
    small fragments, so that these cannot be joined. Optimizing the indices changes that."""


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """What was built for indices, and what it replaced. Rows are live ones."""

    names: tuple[str, ...] = ()
    """The indices that changed."""
    segments_added: int = 0
    """A plan says one for each index; where segments cannot be merged there may be more."""
    segments_removed: int = 0
    fragments: int = 0
    """Number of fragments from which segments were built, each counted once for all indices."""
    rows: int = 0
    bytes: int = 0
    """Bytes of the new segments; a plan does not know them."""


@dataclass(frozen=True, slots=True)
class MoveCounts:
    """What was moved to another root. Files are data files; bytes of blobs are included."""

    fragments: int = 0
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ShallowClone:
    """The traces that a shallow clone left at its sources."""

    pins: tuple[ClonePin, ...] = ()
    unpinned: tuple[Unpinned, ...] = ()
    """Tables without a pin: their cleanup may remove files that the clone needs."""


@dataclass(frozen=True, slots=True)
class DeepClone:
    """What a deep clone copied."""

    files: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class DetachCounts:
    """What was copied in, and the outcome for the pins at the sources."""

    fragments: int = 0
    files: int = 0
    """Data files, deletion files, files of indices and of blobs."""
    bytes: int = 0
    unpinned: tuple[ClonePin, ...] = ()
    """Removed pins."""
    still_pinned: tuple[Unpinned, ...] = ()
    """Tables that still have a pin, and why: usually an older version reads from them."""

    def __add__(self, other: DetachCounts) -> DetachCounts:
        return DetachCounts(
            self.fragments + other.fragments, self.files + other.files, self.bytes + other.bytes
        )


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing a branch did."""

    branch: str
    branch_version: int
    """The published version of the branch."""
    is_fast_forward: bool
    """The target had not moved since the fork: all ids are the branch's."""
    adopted_files: int
    """Files linked or copied into the target."""
    left_out_indices: tuple[str, ...] = ()
    """Indices of the branch whose row ids mean other rows on the target: build or optimise them
    there."""
    is_new: bool = True
    """False: there was nothing to publish, or it was published before."""
    is_dry_run: bool = False
    """True: this is what would have been done."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left to do, as sentences: indices that stayed on the branch, with the way out."""
        return left_out_note(self.left_out_indices)


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge of a branch did."""

    branch: str
    branch_version: int
    """The version of the branch that was merged."""
    bases: tuple[str, ...] = ()
    """The versions that both come from, as ``main:7``; several after merges in both directions."""
    inserted: int = 0
    updated: int = 0
    """Rows that ours had and that came with other cells."""
    deleted: int = 0
    joined: int = 0
    """Updated rows that have cells of both sides."""
    resolved: int = 0
    """Rows in conflict that a rule or a decision decided."""
    adopted_files: int = 0
    """Files linked, copied or written beside the merged rows."""
    written_rows: int = 0
    """Rows that were written anew; all others came with the files that they are in."""
    uncovered_indices: tuple[str, ...] = ()
    """Indices of the target that do not cover what came: extend them."""
    left_out_indices: tuple[str, ...] = ()
    """Indices that the branch built or extended, and that name its own rows: build or extend them
    in the target."""
    stale: int = 0
    """Decisions on conflicts that are not there; of a repository, those that were kept for it."""
    is_fast_forward: bool = False
    """The target had not moved since the base."""
    is_new: bool = True
    """False: the target held the branch already."""
    is_dry_run: bool = False
    """True: this is what would have been done."""
    rewritten: int = 0
    """Rows with a column that the branch wrote anew in place, and that ours left alone: it came as
    the file that it is in. Which of the rows have other values is not known, since these are not
    read."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is left to do or to know, as sentences: decisions that did not apply, and indices
        that cover less than before, with the way out."""
        return (
            *stale_note(self.stale),
            *uncovered_note(self.uncovered_indices),
            *left_out_note(self.left_out_indices),
        )


def stale_note(count: int) -> tuple[str, ...]:
    """A note that ``count`` decisions are on conflicts that are not there; nothing for none."""
    whose = "its conflict is" if count == 1 else "their conflicts are"
    decisions = f"{count:,} decision{'' if count == 1 else 's'}"
    return (f"{decisions} did not apply: {whose} not there any more",) if count else ()


def uncovered_note(names: Sequence[str], table: str | None = None) -> tuple[str, ...]:
    """Which indices do not cover what came, and the way out; nothing for none."""
    of, listed = _of(table), ", ".join(names)
    said = f"indices{of} that do not cover what came: {listed}: indices.extend() does it"
    return (said,) if names else ()


def left_out_note(names: Sequence[str], table: str | None = None) -> tuple[str, ...]:
    """Which indices, or parts of them, stayed on their branch; nothing for none."""
    said = (
        f"indices{_of(table)} whose parts did not come: {', '.join(names)}: indices.extend() "
        "covers the rows by an index that is here, indices.create() builds another one"
    )
    return (said,) if names else ()


def _of(table: str | None) -> str:
    return "" if table is None else f" of {table}"


Counts: TypeAlias = (
    RowCounts
    | ColumnCounts
    | CompactionCounts
    | IndexCounts
    | MoveCounts
    | ShallowClone
    | DeepClone
    | DetachCounts
    | Published
    | Merged
    | None
)
"""What a write did, or would do; None if it counts nothing."""
