"""Which versions may go: what a caller allows, less what somebody needs.

Pure: works on version numbers, the times of manifest files, and reasons to keep a version. The
reasons come from ``engine.versions.refs`` (tags, and branches that begin there; a clone's pin is a
tag, see ``engine.upkeep.pins``), ``commitments`` (commits of repositories) and the caller;
``cleanup`` puts them together, and looks into manifests for their age.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lancewood.errors import InvalidInputError
from lancewood.model.ids import Version

IN_FLIGHT = timedelta(days=7)
"""How long a writer may be at work before a version names its files."""
COMMITTING = timedelta(minutes=10)
"""How long a commit may take from looking for the newest version to taking the next number. If that
number were free again by then, the commit would land in the past and have to withdraw."""
_CLOCKS = timedelta(hours=1)
"""A file this much older than asked settles the age of its version; else its manifest does."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What may go. Without ``older_than`` and ``keep_versions`` no version does."""

    older_than: timedelta | None = None
    keep_versions: int | None = None
    protect: frozenset[int] = frozenset()
    in_flight: timedelta = IN_FLIGHT

    @classmethod
    def checked(
        cls,
        older_than: timedelta | None,
        keep_versions: int | None,
        protect: Iterable[int],
        in_flight: timedelta,
    ) -> Retention:
        """A caller's wishes; raises InvalidInputError for that are not valid."""
        from lancewood.engine.base import as_list, check_number

        if older_than is not None:
            _check_span("older_than", older_than)
        _check_span("in_flight", in_flight)
        if keep_versions is not None:
            keep_versions = check_number("keep_versions", keep_versions, least=1)
        protected = [
            check_number("a protected version", each) for each in as_list("protect", protect)
        ]
        return cls(older_than, keep_versions, frozenset(protected), in_flight)

    def cutoff(self, now: datetime) -> datetime | None:
        """The moment before which versions may go; None: their age does not count."""
        return None if self.older_than is None else _before(now, self.older_than)

    def stale(self, now: datetime) -> datetime:
        """The moment before which files that no version names may go."""
        return _before(now, self.in_flight)

    def settled(self, now: datetime) -> datetime:
        """The moment before which the numbers of versions may become free."""
        wait = min(self.in_flight, COMMITTING)
        return _before(now, wait) if wait else datetime.max.replace(tzinfo=now.tzinfo)

    def surplus(self, versions: Iterable[Version]) -> list[Version]:
        """The versions that are too many, if they are old enough; newest first, never all."""
        if self.older_than is None and self.keep_versions is None:
            return []
        newest_first = sorted(set(versions), reverse=True)
        return newest_first[max(1, self.keep_versions or 0) :]


@dataclass(frozen=True, slots=True)
class Sorted:
    """The versions of a root by what becomes of them."""

    may_go: frozenset[Version]
    """Expired, if what their manifests say about their age allows it."""
    gone: frozenset[Version]
    """Expired, and so old that their manifests need not be read: nothing that they name can
    belong to a writer who is still at work."""
    held: Mapping[Version, str]
    """Too many and too old, but kept, and why."""


def sort_versions(
    retention: Retention,
    modified: Mapping[Version, datetime],
    held: Mapping[Version, str],
    versions: Iterable[Version],
    now: datetime,
) -> Sorted:
    """What becomes of the versions; ``modified`` has the times of those that may go at all."""
    cutoff, stale, settled = retention.cutoff(now), retention.stale(now), retention.settled(now)
    may_go, gone, kept = [], [], {}
    for version in retention.surplus(versions):
        written = modified.get(version)
        if written is None:
            continue
        if version in held:
            if cutoff is None or written <= cutoff:
                kept[version] = held[version]
        elif written > settled:
            if cutoff is None or written <= cutoff:
                kept[version] = (
                    "it is so young that a commit may still be under way; in_flight 0 says that "
                    "nobody writes"
                )
        elif written <= stale and (cutoff is None or written <= cutoff - _CLOCKS):
            gone.append(version)
        else:
            may_go.append(version)
    return Sorted(frozenset(may_go), frozenset(gone), kept)


def _check_span(name: str, value: object) -> None:
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidInputError(f"{name} takes a timedelta that is not negative, got {value!r}")


def _before(now: datetime, span: timedelta) -> datetime:
    try:
        return now - span
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)
