"""The versions of a branch as a stream walks through them: where it begins, how far it has read.

Knows what kind of thing each version did, from its transaction alone, and loads a version when
someone needs it. Reads no rows, changes nothing.

Spark keeps offsets in its checkpoint: small maps of numbers. What comes back from there is input
from outside, and is checked. A version is read as the rows that it brought, the first one perhaps
as the whole table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum
from functools import cached_property, partial
from typing import Any, TypeAlias

from lancewood.engine.base import in_order
from lancewood.engine.snapshot import Descent, Snapshot, main_location, open_revision
from lancewood.engine.versions import list_versions, load_as_of, newest_version
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.model.ids import Version
from lancewood.model.refs import called
from lancewood.model.transaction import (
    Append,
    Clone,
    CreateIndex,
    MissingTransaction,
    Operation,
    Project,
    ReserveFragments,
    Rewrite,
    Transaction,
    UnknownOperation,
    Update,
    UpdateBases,
    UpdateConfig,
    UpdateMemWalState,
    operation_name,
)
from lancewood.spark.streaming.options import StreamOptions

OffsetMap: TypeAlias = dict[str, Any]
"""What Spark writes down as JSON."""

_BEGINNING = {"begin": True}
_KEYS = {"version", "index", "after", "origin", "whole"}
_MOST = (1 << 63) - 1
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a stream began. Every offset carries it: asked again after a crash, "the newest
    version" would be another one."""

    version: Version
    is_whole: bool
    """Whether the first version is read as the whole table, not as what it brought."""


@dataclass(frozen=True, slots=True)
class Offset:
    """All versions before ``version`` are read, and ``index`` rows of it."""

    version: Version
    index: int
    origin: Origin
    after: str = ""
    """The identity of the newest version that was read from, by which a table is known again;
    empty for a stream that has read none, or where a version has no identity."""

    @classmethod
    def start(cls, origin: Origin) -> Offset:
        return cls(origin.version, 0, origin)

    @property
    def newest_read(self) -> Version:
        """The version that ``after`` is of."""
        return self.version if self.index else Version(self.version - 1)

    @property
    def is_in_whole(self) -> bool:
        """Whether the rows of ``version`` are those of the whole table."""
        return self.origin.is_whole and self.version == self.origin.version

    def within(self, index: int, uuid: str) -> Offset:
        """The offset after ``index`` rows of the version, which that transaction made."""
        return replace(self, index=index, after=uuid)

    def past(self, uuid: str) -> Offset:
        """The offset after all rows of the version, which that transaction made."""
        return Offset(Version(self.version + 1), 0, self.origin, uuid)

    def is_before(self, other: Offset) -> bool:
        return (self.version, self.index) < (other.version, other.index)

    def encode(self) -> OffsetMap:
        return {
            "version": self.version,
            "index": self.index,
            "after": self.after,
            "origin": self.origin.version,
            "whole": self.origin.is_whole,
        }


def beginning() -> OffsetMap:
    """The offset before a stream's first: it names no version yet."""
    return dict(_BEGINNING)


def decode_offset(found: object) -> Offset | None:
    """The offset that a map spells; None for the beginning.

    Raises InvalidInputError for what is no offset of ours.
    """
    if found == _BEGINNING:
        return None
    if not isinstance(found, Mapping) or set(found) != _KEYS:
        raise _odd(found, f"it is not made of {', '.join(sorted(_KEYS))}")
    for name, least in (("version", 1), ("index", 0), ("origin", 1)):
        if type(found[name]) is not int or not least <= found[name] <= _MOST:
            raise _odd(found, f"{name} is not a whole number from {least}")
    if type(found["whole"]) is not bool:
        raise _odd(found, "whole is neither true nor false")
    if not isinstance(found["after"], str) or len(found["after"]) > _LONGEST:
        raise _odd(found, "after is no identity")
    if found["version"] < found["origin"]:
        raise _odd(found, "it lies before its origin")
    origin = Origin(Version(found["origin"]), found["whole"])
    return Offset(Version(found["version"]), found["index"], origin, found["after"])


def _odd(found: object, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"{str(found)[:200]!r} is no offset of a Lance table: {why}. The checkpoint is another "
        "source's, or damaged; bring it back, or start the query with a new checkpointLocation"
    )


_STILL = (CreateIndex, ReserveFragments, UpdateBases, UpdateConfig, UpdateMemWalState)
_AT_ONCE = 16
_MOST_STEPS = 100_000
_MOST_SNAPSHOTS = 4
_INSTANT = timedelta(microseconds=1)


class VersionKind(Enum):
    """What a version means to a stream."""

    APPEND = "new fragments, nothing else"
    STILL = "neither fragments nor columns changed"
    REWRITE = "the same rows in other fragments, or under other columns"
    LOOK = "two versions have to be compared"
    BEGIN = "the branch, or the clone, begins here"


@dataclass(frozen=True, slots=True)
class VersionStep:
    """What one version did, as far as its transaction says."""

    version: Version
    kind: VersionKind
    operation: str
    fragments: int = 0
    """Number of fragments that an append brought."""
    rows: int = 0
    ends: tuple[str, str] = ("", "")
    """The first files of the first and of the last of them."""
    uuid: str = ""
    """The identity of its transaction; empty where it has none."""

    def describe(self) -> str:
        return f"version {self.version} ({self.operation})"


def step_of(version: Version, transaction: Transaction) -> VersionStep:
    """What a transaction means. Raises FormatError for an append that does not count its rows."""
    if len(transaction.operations) != 1:
        return VersionStep(version, VersionKind.LOOK, "several operations", uuid=transaction.uuid)
    return replace(_step(version, transaction.operation), uuid=transaction.uuid)


def _step(version: Version, operation: Operation) -> VersionStep:
    name = operation_name(operation)
    if isinstance(operation, MissingTransaction | UnknownOperation):
        return VersionStep(version, VersionKind.LOOK, "an operation that is not known")
    if isinstance(operation, Append):
        for each in operation.fragments:
            each.check_counted()
        named = [each.files[0].path for each in operation.fragments if each.files]
        ends = (named[0], named[-1]) if len(named) == len(operation.fragments) and named else None
        if ends is None and operation.fragments:
            return VersionStep(version, VersionKind.LOOK, name)
        rows = sum(each.physical_rows for each in operation.fragments)
        return VersionStep(version, VersionKind.APPEND, name, len(named), rows, ends or ("", ""))
    if isinstance(operation, Clone):
        return VersionStep(version, VersionKind.BEGIN, name)
    if isinstance(operation, _STILL):
        return VersionStep(version, VersionKind.STILL, name)
    moves = isinstance(operation, Update) and operation.moves_files
    if moves or isinstance(operation, Rewrite | Project):
        return VersionStep(version, VersionKind.REWRITE, name)
    return VersionStep(version, VersionKind.LOOK, name)


@dataclass
class History:
    """The history that a stream reads. ``opened`` is the version whose schema it has."""

    opened: Snapshot
    _steps: OrderedDict[Version, VersionStep] = field(default_factory=OrderedDict)
    _snapshots: OrderedDict[Version, Snapshot] = field(default_factory=OrderedDict)

    @cached_property
    def _descent(self) -> Descent:
        return Descent(self.opened)

    @property
    def uri(self) -> str:
        return self.opened.location.uri

    def newest(self) -> Version:
        """The newest version there is now; one listing, no manifest."""
        found = newest_version(self.opened.location.store)
        if found is None:
            raise NotFoundError(f"the table at {self.uri} is gone: it was dropped or moved")
        return found.version

    def steps(self, versions: Sequence[Version]) -> Iterator[VersionStep]:
        """What each version did; several are looked at in advance.

        Raises NotFoundError at one that was cleaned up.
        """
        tasks = (partial(self._look, each) for each in versions)
        for step in in_order(tasks, workers=_AT_ONCE):
            self._steps[step.version] = step
            while len(self._steps) > _MOST_STEPS:
                self._steps.popitem(last=False)
            yield step

    def step(self, version: Version) -> VersionStep:
        return next(self.steps((version,)))

    def identity(self, version: Version) -> str:
        """The identity of a version as it is now, whatever is remembered; empty where there is
        none, as of one that was cleaned up."""
        try:
            return self._descent.transaction(version).uuid
        except NotFoundError:
            return ""

    def load(self, version: Version) -> Snapshot:
        """A version of this history; raises NotFoundError at one that was cleaned up."""
        if version == self.opened.manifest.version:
            return self.opened
        known = self._snapshots.pop(version, None)
        if known is None:
            try:
                known = self._descent.load(version)
            except NotFoundError as cause:
                raise self._gone(version) from cause
        self._snapshots[version] = known
        while len(self._snapshots) > _MOST_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return known

    def before(self, version: Version) -> Snapshot:
        """The version before one that has to be compared with it."""
        try:
            return self.load(Version(version - 1))
        except NotFoundError as gone:
            raise NotFoundError(
                f"what version {version} of {self.uri} did to rows can only be told from version "
                f"{version - 1} as well. {gone.message}",
                **gone.facts,
            ) from gone

    def origin(self, options: StreamOptions) -> Origin:
        """Where the stream begins, as things are now.

        Without a word about it that is the version that was opened, whole, so that whoever follows
        the stream has the table. A version, a tag and a moment name the first version whose own
        rows come. Raises NotFoundError or InvalidInputError.
        """
        if options.is_from_latest:
            return Origin(Version(self.newest() + 1), False)
        if options.is_from_earliest:
            return Origin(self._oldest(), True)
        if options.starting_version is not None:
            return self._from(Version(options.starting_version))
        if options.starting_tag is not None:
            return self._from(self._tagged(options.starting_tag))
        if options.starting_timestamp is not None:
            return self._since(options)
        return Origin(self.opened.manifest.version, True)

    def _from(self, version: Version) -> Origin:
        newest = self.newest()
        if version > newest + 1:
            raise InvalidInputError(
                f"the stream is to begin at version {version} of {self.uri}, but the newest is "
                f"{newest}; begin at {newest + 1}, or at 'latest', for what comes next",
                version=version,
                newest=newest,
            )
        if version == newest + 1:
            return Origin(version, False)
        step = self.step(version)
        return Origin(version, version == 1 or step.kind is VersionKind.BEGIN)

    def _tagged(self, tag: str) -> Version:
        found = open_revision(main_location(self.opened), tag=tag).manifest
        if found.branch != self.opened.manifest.branch:
            raise InvalidInputError(
                f"tag {tag!r} is on {called(found.branch)}, and the stream reads "
                f"{called(self.opened.manifest.branch)}; give the branch by option branch",
                tag=tag,
            )
        return found.version

    def _since(self, options: StreamOptions) -> Origin:
        moment = options.starting_timestamp
        assert moment is not None
        store = self.opened.location.store
        try:
            before, _ = load_as_of(store, moment - _INSTANT)
        except NotFoundError:
            oldest = self._oldest()
            origin = self._from(oldest)
            if not origin.is_whole:
                raise NotFoundError(
                    f"the oldest version of {self.uri} that is there, {oldest}, is younger than "
                    f"{moment.isoformat()}, and those before it were cleaned up: begin with it by "
                    f"startingVersion {oldest}, or with the whole of it by 'earliest'",
                    version=oldest,
                ) from None
            return origin
        return self._from(Version(before.version + 1))

    def _oldest(self) -> Version:
        versions = list_versions(self.opened.location.store).versions
        if not versions:
            raise NotFoundError(f"the table at {self.uri} is gone: it was dropped or moved")
        return versions[-1]

    def _look(self, version: Version) -> Iterator[VersionStep]:
        known = self._steps.get(version)
        if known is None:
            made = self._descent.transaction(version)
            if any(isinstance(each, MissingTransaction) for each in made.operations):
                self.load(version)  # raises if it is the version that is missing
            known = step_of(version, made)
        yield known

    def _gone(self, version: Version) -> NotFoundError:
        oldest = self._oldest()
        return NotFoundError(
            f"version {version} of {self.uri} was cleaned up before the stream had read it; the "
            f"oldest that is there is {oldest}. Rows may be missing: start the query with a new "
            "checkpointLocation, which begins with the whole table, and let cleanup keep versions "
            "for longer than the stream may stand still",
            version=version,
            oldest=oldest,
        )
