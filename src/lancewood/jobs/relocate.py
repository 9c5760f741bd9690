"""Writing the present place of a moved table into its manifests, so that others find its files.

Lancewood reads a table wherever its directory was brought to (``engine.location``); readers that
believe base paths look for what branches inherit at the old place. So every manifest of every root,
detached ones included, gets the present paths of those base paths that were found to have moved,
and nothing else changes. Each manifest is replaced as a whole, by compare-and-swap: no version is
ever absent, and both implementations read whatever a crash leaves. Running again does the rest.

A writer who reads back an unanswered commit must find the bytes that he wrote, so nobody may be
writing meanwhile. Touches manifests below the present root only; refs keep the sizes they record,
which are hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lancewood.engine.location import Location, moved_bases
from lancewood.engine.snapshot import manifest_names
from lancewood.engine.versions import branch_manifests, load_version
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedError,
)
from lancewood.format.layout import TRANSACTIONS_DIR, VERSIONS_DIR
from lancewood.format.manifest import decode_manifest_file
from lancewood.format.moved import relocated_manifest
from lancewood.jobs.job import shares
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.retention import COMMITTING
from lancewood.model.table_config import ANY_REPOSITORY
from lancewood.rules.features import check_readable, check_writable
from lancewood.store.base import ReplaceOutcome, Store
from lancewood.store.clock import time_by
from lancewood.store.retry import LOST_RACES

_AT_ONCE = 1_000
"""Manifests in one task at most."""


@dataclass(frozen=True, slots=True)
class MovedBase:
    """A base path that leads to the place where the table was."""

    path: str
    now: str
    """The root that the base path stands for today."""


@dataclass(frozen=True, slots=True)
class LeftManifest:
    """A manifest that cannot be read, and stays as it is."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class RelocationReport:
    """What was rewritten, or with ``dry_run`` what would be."""

    dry_run: bool
    bases: tuple[MovedBase, ...]
    manifests: int
    roots: tuple[str, ...]
    """Where: ``""`` is the main root, ``tree/exp`` a branch."""
    left: tuple[LeftManifest, ...]


def relocate(
    location: Location,
    runner: Runner,
    *,
    dry_run: bool = False,
    in_flight: timedelta = COMMITTING,
    now: datetime | None = None,
) -> RelocationReport:
    """Write present base paths into the manifests of the table whose main root this is.

    Raises InvalidInputError for another root, RetryableConflictError where a version is younger
    than ``in_flight`` or appears meanwhile; NotFoundError where there is no table.
    """
    if not isinstance(in_flight, timedelta) or in_flight < timedelta(0):
        raise InvalidInputError(
            f"in_flight takes a timedelta that is not negative, got {in_flight!r}"
        )
    newest, _ = load_version(location.store)
    if newest.branch is not None:
        main = location.main(newest)
        raise InvalidInputError(
            f"relocate takes a whole table, and {location.uri} is its branch {newest.branch!r}"
            + ("" if main is None else f"; give {main.uri}"),
            branch=newest.branch,
        )
    job = _Relocation(location, runner)
    listed = job.manifests()
    surveys = job.survey(listed)
    moved: dict[str, str] = {}
    for _, survey in surveys:
        for path, root in survey.moved.items():
            moved.setdefault(path, root)
    stale = job.stale(surveys, moved)
    if stale and not dry_run:
        _check_quiet(location, surveys, stale, in_flight, now)
        job.rewrite(stale, moved)
        job.check_no_newer(listed)
    return RelocationReport(
        dry_run=dry_run,
        bases=tuple(MovedBase(path, moved[path]) for path in sorted(moved)),
        manifests=sum(map(len, stale.values())),
        roots=tuple(stale),
        left=tuple(each for _, survey in surveys for each in survey.left),
    )


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """Manifests of one root, to be looked at."""

    location: Location
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    """What the manifests of a task say."""

    moved: Mapping[str, str]
    """Base paths that lead elsewhere by now, and where they are today."""
    paths: Mapping[str, tuple[str, ...]]
    """The base paths of each manifest that has any, by the name of its file."""
    newest_ns: int
    """When the youngest of these manifests was committed."""
    left: tuple[LeftManifest, ...]


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Manifests of one root, to be rewritten."""

    store: Store
    names: tuple[str, ...]
    moved: Mapping[str, str]


_Listed = dict[str, list[str]]
"""The names of manifest files in each root."""


@dataclass(frozen=True)
class _Relocation:
    location: Location
    runner: Runner

    def manifests(self) -> _Listed:
        found = {"": list(manifest_names(self.location.store))}
        for root, name in branch_manifests(self.location.store):
            found.setdefault(root, []).append(name)
        return {root: sorted(names) for root, names in found.items()}

    def survey(self, listed: _Listed) -> list[tuple[str, Survey]]:
        tasks, roots = [], []
        for root, names in listed.items():
            file_root = self.location.at(self._store(root)) if root else self.location
            for some in self._shares(names):
                tasks.append(SurveyTask(file_root, some))
                roots.append(root)
        done = self.runner.run(survey_manifests, tasks, what="reading manifests")
        return list(zip(roots, done, strict=True))

    def stale(
        self, surveys: Sequence[tuple[str, Survey]], moved: Mapping[str, str]
    ) -> dict[str, list[str]]:
        """The manifests of each root that name a base path which has moved."""
        found: dict[str, list[str]] = {}
        for root, survey in surveys:
            for name, paths in survey.paths.items():
                if not moved.keys().isdisjoint(paths):
                    found.setdefault(root, []).append(name)
        return found

    def rewrite(self, stale: Mapping[str, Sequence[str]], moved: Mapping[str, str]) -> None:
        tasks = [
            RewriteTask(self._store(root), some, moved)
            for root, names in stale.items()
            for some in self._shares(names)
        ]
        for _ in self.runner.run(rewrite_manifests, tasks, what="rewriting manifests"):
            pass

    def check_no_newer(self, listed: _Listed) -> None:
        for root, names in self.manifests().items():
            newer = set(names).difference(listed.get(root, ()))
            if newer:
                raise RetryableConflictError(
                    f"{len(newer)} new versions appeared in {self._store(root).uri} meanwhile, for "
                    f"example {min(newer)}: somebody writes there. All others are relocated and "
                    "every version can be read; stop the writers and run it again",
                    uri=self._store(root).uri,
                )

    def _store(self, root: str) -> Store:
        return self.location.store.at(root) if root else self.location.store

    def _shares(self, names: Sequence[str]) -> list[tuple[str, ...]]:
        return shares(names, self.runner.slots, _AT_ONCE)


def survey_manifests(task: SurveyTask) -> Survey:
    """Read manifests and find out which of their base paths have moved."""
    moved: dict[str, str] = {}
    paths: dict[str, tuple[str, ...]] = {}
    newest_ns = 0
    left = []
    for name in task.names:
        key = f"{VERSIONS_DIR}/{name}"
        file = f"{task.location.uri}/{key}"
        try:
            manifest = decode_manifest_file(task.location.store.get(key), name=file)
            check_readable(manifest)
            check_writable(manifest, ANY_REPOSITORY)
        except NotFoundError:
            continue  # cleaned up since the listing
        except (FormatError, UnsupportedError) as error:
            left.append(LeftManifest(file, str(error)))
            continue
        newest_ns = max(newest_ns, manifest.timestamp_ns)
        if manifest.base_paths:
            paths[name] = tuple(each.path for each in manifest.base_paths)
            moved.update(moved_bases(task.location, manifest, also_relative=True))
    return Survey(moved, paths, newest_ns, tuple(left))


def rewrite_manifests(task: RewriteTask) -> None:
    """Give manifests the present base paths; those that have them already stay as they are."""
    for name in task.names:
        _rewrite(task.store, f"{VERSIONS_DIR}/{name}", task.moved)


def _rewrite(store: Store, key: str, moved: Mapping[str, str]) -> None:
    failure: StorageError | None = None
    for _ in LOST_RACES:
        try:
            found = store.head(key)
            old = store.get(key)
        except NotFoundError:
            return  # cleaned up since it was read
        new = relocated_manifest(old, moved, name=f"{store.uri}/{key}")
        if new == old:
            if failure is not None:
                store.sync([key])  # ours, by its bytes; the lost answer may have been about that
            return
        try:
            if store.replace(key, new, found.etag) is ReplaceOutcome.REPLACED:
                return
        except StorageError as error:
            failure = error
    if failure is not None:
        raise failure
    raise RetryableConflictError(
        f"{store.uri}/{key} is changed by somebody else again and again; run it when nobody else "
        "does",
        uri=store.uri,
    )


def _check_quiet(
    location: Location,
    surveys: Sequence[tuple[str, Survey]],
    stale: Mapping[str, Sequence[str]],
    in_flight: timedelta,
    now: datetime | None,
) -> None:
    if not in_flight:
        return
    now = now or time_by(location.store, TRANSACTIONS_DIR)
    for root, survey in surveys:
        age = abs(now.timestamp() - survey.newest_ns / 1e9)
        if root in stale and age < in_flight.total_seconds():
            raise RetryableConflictError(
                f"a version of {location.uri}{root and '/' + root} was committed {age:.0f} s ago, "
                "so somebody may be writing; nothing was changed. Run it again when nobody has "
                f"written for {in_flight}, or say with in_flight=timedelta(0) that nobody does",
                uri=location.uri,
            )
