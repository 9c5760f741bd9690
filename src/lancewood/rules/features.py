"""What a version says of who may read it, and of who may write after it. Pure.

Feature flags: may we read this manifest, may we write after it, which flags does the next need.
They are derived from content at every commit. What only a look at every fragment could decide (does
any still have a deletion file?) is carried over: a flag too many is allowed.

A version whose branch was published is followed by none: a later one would be neither in the
published work nor in what follows a reset of the branch. A batch of rows that the version holds is
not loaded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lancewood.errors import (
    BatchAppliedError,
    FormatError,
    IncompatibleConflictError,
    UnsupportedError,
)
from lancewood.model.fragment import READABLE_FILE_VERSIONS, Fragment, version_name
from lancewood.model.index import MEM_WAL
from lancewood.model.manifest import (
    FLAG_BASE_PATHS,
    FLAG_CONFIG,
    FLAG_COVERING_INDEX,
    FLAG_DELETION_FILES,
    FLAG_EXCLUSIVE,
    FLAG_FIELD_IDS_NOT_REUSED,
    FLAG_MANAGED_BLOBS,
    FLAG_MIXED_FILE_VERSIONS,
    FLAG_NO_TRANSACTION_FILE,
    FLAG_SPILLED_LINEAGE,
    FLAG_STABLE_ROW_IDS,
    FLAG_TAGGED_FRAGMENT_REUSE,
    FLAG_V2_FILES,
    ManifestHead,
)
from lancewood.model.refs import MAIN
from lancewood.model.table_config import (
    ANY_REPOSITORY,
    APPLIED_PREFIX,
    EXCLUSIVE_KEY,
    LATEST,
    MOST_APPS,
    PUBLISHED_KEY,
    RENAMED_KEY,
    AppliedBatch,
    Mark,
    keeper_of,
    marks,
    newest_batch,
)
from lancewood.model.transaction import HeadChanges

_BASIC = (
    FLAG_DELETION_FILES
    | FLAG_STABLE_ROW_IDS
    | FLAG_V2_FILES
    | FLAG_CONFIG
    | FLAG_BASE_PATHS
    | FLAG_NO_TRANSACTION_FILE
    | FLAG_MIXED_FILE_VERSIONS
)
READABLE = _BASIC | FLAG_COVERING_INDEX | FLAG_TAGGED_FRAGMENT_REUSE | FLAG_SPILLED_LINEAGE
"""Covering columns and fragment reuse concern indices, which a scan does not use."""
WRITABLE = _BASIC | FLAG_FIELD_IDS_NOT_REUSED
PAIRED = (FLAG_MIXED_FILE_VERSIONS, FLAG_TAGGED_FRAGMENT_REUSE, FLAG_MANAGED_BLOBS)
"""Flags that must be set in both words or in neither."""

_NAMES = {
    64: "data overlay files",
    FLAG_COVERING_INDEX: "covering index metadata",
    FLAG_MIXED_FILE_VERSIONS: "mixed file versions",
    512: "fragment reuse with stable row ids",
    FLAG_TAGGED_FRAGMENT_REUSE: "tagged fragment reuse index",
    FLAG_SPILLED_LINEAGE: "spilled row lineage",
    FLAG_MANAGED_BLOBS: "managed blobs",
    FLAG_FIELD_IDS_NOT_REUSED: "field ids that are not reused",
}


def check_readable(head: ManifestHead) -> None:
    """Raise UnsupportedError for what we cannot read, FormatError for contradictory flags."""
    reader, writer = head.reader_flags, head.writer_flags
    for flag in PAIRED:
        if bool(reader & flag) != bool(writer & flag):
            raise FormatError(
                f"{head.name}: feature flag {flag} ({_NAMES[flag]}) "
                "is set in one of the two words only"
            )
    if reader & FLAG_FIELD_IDS_NOT_REUSED:
        raise FormatError(f"{head.name}: writer flag 32768 stands among the reader flags")
    has_mark = head.message.HasField("max_allocated_field_id")
    if bool(writer & FLAG_FIELD_IDS_NOT_REUSED) != has_mark:
        raise FormatError(f"{head.name}: flag 32768 and max_allocated_field_id do not agree")
    _refuse(head, reader & ~READABLE, "reading")
    if head.file_version == "0.1":
        raise UnsupportedError(
            f"{head.name}: data file version 0.1 (legacy) is not supported; "
            "rewrite the table with a recent pylance first"
        )
    if head.file_version and head.file_version not in READABLE_FILE_VERSIONS:
        raise UnsupportedError(
            f"{head.name}: data file version {head.file_version!r} is not known; "
            f"Lancewood knows {', '.join(READABLE_FILE_VERSIONS)}"
        )


def known_writer_flags(head: ManifestHead) -> int:
    """The writer flags that we understand in this table; the exclusive flag only where the
    repository that set it is named."""
    return WRITABLE if keeper_of(head) is None else WRITABLE | FLAG_EXCLUSIVE


def check_writable(head: ManifestHead, repository: str | None = None) -> None:
    """Raise UnsupportedError if the table requires something of writers that we do not do, or
    belongs to a repository that lets nobody else write; ``repository`` is the one that asks."""
    keeper = keeper_of(head)
    if keeper is not None and repository not in (keeper, ANY_REPOSITORY):
        raise UnsupportedError(
            f"{head.name}: the table belongs to repository {keeper}, which lets nobody else write "
            "to it: write in a transaction of it (repo.transaction), or open it to all with "
            "repo.exclusive(False). If it is gone for good, "
            f"set_config({{{EXCLUSIVE_KEY!r}: None}}) frees the table",
            repository=keeper,
        )
    known = known_writer_flags(head)
    _refuse(head, (head.writer_flags & ~known) | (head.reader_flags & ~WRITABLE), "writing")
    if any(each.name == MEM_WAL for each in head.indices):
        raise UnsupportedError(
            f"{head.name}: the table has a write-ahead log ({MEM_WAL}) with rows that are not "
            "merged yet; writing beside it would lose them. Let pylance merge the log first"
        )


def _refuse(head: ManifestHead, unknown: int, doing: str) -> None:
    if unknown:
        bits = [1 << n for n in range(unknown.bit_length()) if unknown >> n & 1]
        names = ", ".join(f"{bit} ({_NAMES[bit]})" if bit in _NAMES else str(bit) for bit in bits)
        raise UnsupportedError(
            f"{head.name}: {doing} needs feature flag {names}, which this Lancewood does not know; "
            "use a newer one, or the writer that set it",
            flags=unknown,
        )


def next_flags(
    source: ManifestHead, changes: HeadChanges, fragments: Iterable[Fragment], *, keep: bool
) -> tuple[int, int]:
    """The flags after ``changes`` to ``source`` and these new or changed fragments."""
    both = source.reader_flags & FLAG_STABLE_ROW_IDS
    if keep:
        both |= source.reader_flags & (FLAG_DELETION_FILES | FLAG_MIXED_FILE_VERSIONS)
    file_version = changes.file_version or source.file_version
    for fragment in fragments:
        if fragment.deletion_file is not None:
            both |= FLAG_DELETION_FILES
        if any(version_name(file.version) != file_version for file in fragment.files):
            both |= FLAG_MIXED_FILE_VERSIONS
    bases = source.base_paths if changes.base_paths is None else changes.base_paths
    if bases:
        both |= FLAG_BASE_PATHS
    indices = source.indices if changes.indices is None else changes.indices
    if any(each.message.covering_fields for each in indices):
        both |= FLAG_COVERING_INDEX
    writer = both | source.writer_flags & FLAG_FIELD_IDS_NOT_REUSED
    config = source.config if changes.config is None else changes.config
    if config:
        writer |= FLAG_CONFIG
    if EXCLUSIVE_KEY in config:
        writer |= FLAG_EXCLUSIVE
    return both, writer


def is_closed(head: ManifestHead) -> bool:
    """Whether the version's branch was published. On main, the mark comes from a branch that
    pylance cloned, and does not count."""
    return PUBLISHED_KEY in head.message.config and head.branch is not None


def check_open(head: ManifestHead) -> None:
    """Raise IncompatibleConflictError for a version that nothing may follow."""
    name = head.branch or MAIN
    if RENAMED_KEY in head.message.config:
        renamed = head.message.config[RENAMED_KEY]
        raise IncompatibleConflictError(
            f"branch {name!r} was renamed to {renamed!r}; open it by that name, and run it again",
            branch=name,
            renamed=renamed,
        )
    if not is_closed(head):
        return
    raise IncompatibleConflictError(
        f"branch {name!r} is closed at version {head.version}: it was published. Reset it to "
        f"begin anew (branches.reset({name!r})), or make another branch",
        branch=name,
        version=head.version,
    )


def check_new(config: Mapping[str, str], wanted: AppliedBatch | None) -> None:
    """Raise BatchAppliedError for a batch that is there already, and for an earlier one."""
    if wanted is None:
        return
    found = newest_batch(config, wanted.app)
    if found is not None and found >= wanted.batch:
        what = "is there already" if found == wanted.batch else f"comes after batch {found}"
        raise BatchAppliedError(
            f"batch {wanted.batch} of {wanted.app!r} {what}; nothing was written. Give the next "
            "batch a higher number",
            app=wanted.app,
            batch=wanted.batch,
            applied=found,
        )


def is_applied(config: Mapping[str, str], wanted: AppliedBatch | None) -> bool:
    """Whether a batch, or a later one, is there already; no batch is never there."""
    try:
        check_new(config, wanted)
    except BatchAppliedError:
        return True
    return False


def with_mark(
    config: Mapping[str, str], applied: AppliedBatch, uuid: str, at: int
) -> dict[str, str]:
    """The configuration that also records the batch.

    Beyond the maximum number of applications, those that loaded longest ago are dropped. A clock
    that is behind does no harm: no mark is older than those recorded before it.
    """
    others = [(mark.at, app) for app, mark in marks(config) if app != applied.app]
    at = max([at, *(min(before + 1, LATEST) for before, _ in others)])
    marked = {**config, applied.key: Mark(applied.batch, uuid, at).encode()}
    for _, app in sorted(others)[: max(0, len(others) - (MOST_APPS - 1))]:
        del marked[APPLIED_PREFIX + app]
    return marked


def marks_of(config: Mapping[str, str]) -> dict[str, str]:
    """The part of a configuration that records what was loaded."""
    return {key: value for key, value in config.items() if key.startswith(APPLIED_PREFIX)}
