"""Proposing what would make a damaged table whole again, and doing it when told so.

Knows two layers. What stands around the versions: manifests that cannot be read, names of two
schemes, files that writers left half-made, a hint that misleads. And the newest version itself,
which is mended by committing another: an index without its files is dropped, since a scan gives the
same rows; deleted rows are counted in the file that lists them. A version whose data is lost cannot
be mended, so the newest older one that is whole is restored.

Bytes that may still be worth something are set aside, never removed; rows that are lost are not
made up. Every step may be done twice.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from lancewood.engine.location import Location, new_deletion_files, write_deletions
from lancewood.engine.snapshot import Snapshot, load_snapshot, manifest_names
from lancewood.engine.upkeep import migrate_names
from lancewood.engine.versions import list_versions
from lancewood.errors import (
    FormatError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.external.store import ExternalStore
from lancewood.format.layout import (
    DATA_DIR,
    DELETIONS_DIR,
    HINT_KEY,
    TRANSACTIONS_DIR,
    VERSIONS_DIR,
    ManifestName,
    NamingScheme,
)
from lancewood.format.manifest import MAGIC, decode_manifest_file
from lancewood.jobs.job import Change, CommitOptions, execute
from lancewood.jobs.runner import LocalRunner, Runner
from lancewood.jobs.upkeep.cleanup import names_in
from lancewood.jobs.upkeep.problems import (
    Problem,
    ProblemKind,
    Proposal,
    RepairReport,
    RepairStep,
    check_index,
)
from lancewood.jobs.upkeep.retention import IN_FLIGHT
from lancewood.jobs.upkeep.verify import read_deleted, verify_version
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.index import SYSTEM_INDICES, Index
from lancewood.model.manifest import Manifest
from lancewood.model.transaction import CreateIndex, Delete, Restore
from lancewood.rules.features import check_readable
from lancewood.store.base import Store

_FATAL = frozenset(
    {
        ProblemKind.DATA_FILE,
        ProblemKind.DELETION_FILE,
        ProblemKind.SCHEMA,
        ProblemKind.FRAGMENT_IDS,
        ProblemKind.ROW_IDS,
    }
)
"""What makes rows of a version wrong or unreadable."""
_NOT_WHOLE = _FATAL | {ProblemKind.OUT_OF_REACH, ProblemKind.MANIFEST}
"""What keeps a version from being one to come back to."""
_OF_INDICES = frozenset({ProblemKind.INDEX, ProblemKind.INDEX_FILE})


def mend_version(snapshot: Snapshot, runner: Runner) -> tuple[list[RepairStep], list[Problem]]:
    """The steps that mend the newest version, and the problems that none of them solves."""
    problems = verify_version(snapshot, runner).problems
    fatal = [each for each in problems if each.kind in _FATAL]
    if fatal:
        whole = _newest_whole(snapshot, runner, fatal)
        if whole is None:
            return [], [*problems]
        return [_restore(snapshot, whole, fatal)], []
    steps: list[RepairStep] = []
    counted: list[Problem] = []
    remaining: list[Problem] = []
    # Where the number of rows is not known, no deletion file can be written.
    unknown = {each.fragment for each in problems if each.kind is ProblemKind.ROW_COUNT}
    for each in problems:
        countable = each.kind is ProblemKind.DELETED_COUNT and each.fragment not in unknown
        (counted if countable else remaining).append(each)
    if counted:
        steps.append(_count(snapshot, counted))
    if any(each.kind in _OF_INDICES for each in problems):
        for index in snapshot.manifest.indices:
            found = [each for each in check_index(snapshot, index) if each.kind in _OF_INDICES]
            if found and index.name not in SYSTEM_INDICES:
                steps.append(_drop_index(snapshot, index, found))
                remaining = [each for each in remaining if each not in found]
    return steps, remaining


def _commit_options(message: str, *, serializable: bool = False) -> CommitOptions:
    return CommitOptions(f"repair: {message}", serializable=serializable)


def _drop_index(snapshot: Snapshot, index: Index, found: list[Problem]) -> RepairStep:
    def prepare(newest: Snapshot) -> Change[None]:
        same = [each for each in newest.manifest.indices if each.uuid == index.uuid]
        return Change(CreateIndex((), tuple(same)) if same else None, None)

    def do() -> None:
        execute(
            load_snapshot(snapshot.location), prepare, _commit_options(f"drop index {index.name}")
        )

    return RepairStep(
        Proposal(
            "drop the index",
            f"index {index.name}",
            "; ".join(each.text for each in found),
            f"a new version without this segment ({index.uuid}): queries give the same rows by "
            "scanning; create the index anew",
        ),
        do,
    )


def _count(snapshot: Snapshot, problems: list[Problem]) -> RepairStep:
    wanted = {each.fragment for each in problems}

    def prepare(newest: Snapshot) -> Change[None]:
        updated: list[Fragment] = []
        removed: list[FragmentId] = []
        for fragment in newest.manifest.fragments:
            if fragment.id not in wanted or fragment.deletion_file is None:
                continue
            deleted = read_deleted(newest, fragment)
            if len(deleted) == fragment.num_deleted_rows:
                continue
            store, version = newest.location.store, newest.manifest.version
            made = write_deletions(store, version, fragment, deleted)
            if made is None:
                removed.append(fragment.id)
            else:
                updated.append(made)
        if not updated and not removed:
            return Change(None, None)
        return Change(Delete(tuple(updated), tuple(removed)), None, new_deletion_files(updated))

    def do() -> None:
        execute(load_snapshot(snapshot.location), prepare, _commit_options("count deleted rows"))

    return RepairStep(
        Proposal(
            "record how many rows are deleted",
            f"{len(wanted)} fragments, {problems[0].where} first",
            problems[0].text,
            "a new version whose deletion files list the same rows, with their true number",
        ),
        do,
    )


def _restore(snapshot: Snapshot, whole: Snapshot, fatal: list[Problem]) -> RepairStep:
    lost, version = snapshot.manifest.version, whole.manifest.version

    def do() -> None:
        newest = load_snapshot(snapshot.location)
        if newest.manifest.version != lost:
            return
        message = f"restore version {version}, the newest that is whole"
        commit_options = _commit_options(message, serializable=True)
        execute(newest, lambda _: Change(Restore(version), None), commit_options)

    more = f" and {len(fatal) - 1} more" if len(fatal) > 1 else ""
    return RepairStep(
        Proposal(
            f"restore version {version}",
            f"version {lost}",
            f"{fatal[0]}{more}",
            f"a new version with the rows of {version}, the newest that is whole; what versions "
            f"{version + 1} to {lost} changed is not in it. They stay, and can be opened by number",
        ),
        do,
    )


def _newest_whole(snapshot: Snapshot, runner: Runner, fatal: Iterable[Problem]) -> Snapshot | None:
    """The newest older version that nothing fatal is wrong with.

    One that needs a file that is known to be bad is passed over without looking at its others.
    """
    bad = {*_bad_names(fatal)}
    for version in list_versions(snapshot.location.store).versions:
        if version >= snapshot.manifest.version:
            continue
        try:
            older = load_snapshot(snapshot.location, version=version)
            if bad and not bad.isdisjoint(names_in(older.manifest)):
                continue
        except StorageError:
            raise
        except LancewoodError:
            continue  # gone, damaged, or not for us to read
        found = [each for each in verify_version(older, runner).problems if each.kind in _NOT_WHOLE]
        if not found:
            return older
        bad.update(_bad_names(found))
    return None


def _bad_names(problems: Iterable[Problem]) -> Iterator[str]:
    """The files that problems are about, as ``names_in`` tells them."""
    for each in problems:
        name = each.where.rpartition("/")[2]
        if each.kind is ProblemKind.DATA_FILE:
            yield f"{DATA_DIR}/{name.removesuffix('.lance')}"
        elif each.kind is ProblemKind.DELETION_FILE:
            yield f"{DELETIONS_DIR}/{name}"


_ROUNDS = 5
_FOOTER = 16
_LEFT_BEHIND = re.compile(r"\.tmp.+|.+\.manifest#\d+")


def repair(location: Location, runner: Runner, *, dry_run: bool = True) -> RepairReport:
    """Propose, and unless it is a dry run do, what makes the table at this place whole.

    Raises NotFoundError where there is no table. A branch is repaired at its own root.
    """
    done: list[Proposal] = []
    for _ in range(_ROUNDS):
        steps, remaining = _plan(location, runner)
        done += [each.proposal for each in steps]
        if dry_run or not steps:
            return RepairReport(dry_run, tuple(done), tuple(remaining))
        for each in steps:
            each.do()
    return RepairReport(dry_run, tuple(done), tuple(_plan(location, runner)[1]))


def _plan(location: Location, runner: Runner) -> tuple[list[RepairStep], list[Problem]]:
    """What can be done now, and what cannot; more may show when that is done."""
    store = location.store
    lost = [*_lost(store)]
    if lost:
        return lost, []
    manifests = manifest_names(store)
    if not manifests:
        raise NotFoundError(
            f"no table at {store.uri}: it has no {VERSIONS_DIR} with a manifest", table=store.uri
        )
    damaged = _damaged(store, manifests)
    newest = _newest(manifests, damaged.keys())
    if newest is None:
        problems = [
            Problem(ProblemKind.MANIFEST, f"{store.uri}/{VERSIONS_DIR}/{name}", str(error))
            for name, error in damaged.items()
        ]
        return [], problems
    version = manifests[newest].version
    steps = [_set_aside(store, name, damaged[name], version) for name in sorted(damaged)]
    steps += [*_one_scheme(store, manifests), *_hint(store, version), *_left_behind(store)]
    try:
        manifest = _load(store, newest)
    except (FormatError, UnsupportedError) as error:
        where = f"{store.uri}/{VERSIONS_DIR}/{newest}"
        return steps, [Problem(ProblemKind.MANIFEST, where, str(error))]
    snapshot = Snapshot(location, manifest, manifests[newest].scheme)
    if len({each.scheme for each in manifests.values() if not each.detached}) > 1:
        return steps, []  # the version is looked at when the names are in order
    mending, remaining = mend_version(snapshot, runner)
    return steps + mending, remaining


def _lost(store: Store) -> Iterator[RepairStep]:
    """A newest version that only a manifest store knows; until it is forgotten nobody reads."""
    version = store.lost_version() if isinstance(store, ExternalStore) else None
    if version is None or not isinstance(store, ExternalStore):
        return
    yield RepairStep(
        Proposal(
            "forget what is lost",
            f"{store.uri}/{VERSIONS_DIR}",
            f"the manifest store knows version {version}, and its manifest is gone",
            "the newest version whose manifest is there is the newest again; where there is none, "
            "no table is",
        ),
        store.forget_lost,
    )


def _newest(manifests: dict[str, ManifestName], damaged: object) -> str | None:
    whole = [
        (each.version, name)
        for name, each in manifests.items()
        if not each.detached and name not in damaged  # type: ignore[operator]
    ]
    return max(whole)[1] if whole else None


def _load(store: Store, name: str) -> Manifest:
    key = f"{VERSIONS_DIR}/{name}"
    manifest = decode_manifest_file(store.get(key), name=f"{store.uri}/{key}")
    check_readable(manifest)
    return manifest


# Manifests that cannot be read


def _damaged(store: Store, manifests: dict[str, ManifestName]) -> dict[str, FormatError]:
    """The manifests that are none, and why.

    The newest ones are decoded, down to the first that can be; of the others the last bytes are
    looked at, which is where a write that was cut off shows.
    """
    found: dict[str, FormatError] = {}
    attached = [name for name, each in manifests.items() if not each.detached]
    newest_first = sorted(attached, key=lambda name: manifests[name].version, reverse=True)
    for name in newest_first:
        error = _damage(store, name)
        if error is None:
            break
        found[name] = error
    sizes = {
        each.key.removeprefix(f"{VERSIONS_DIR}/"): each.size for each in store.list(VERSIONS_DIR)
    }
    others = [(name, sizes[name]) for name in manifests if name not in found and name in sizes]

    def look(each: tuple[str, int]) -> str | None:
        return None if _ends_well(store, *each) else each[0]

    for suspect in LocalRunner().run(look, others, what="looking at manifests"):
        error = None if suspect is None else _damage(store, suspect)
        if suspect is not None and error is not None:
            found[suspect] = error
    return found


def _ends_well(store: Store, name: str, size: int) -> bool:
    try:
        end = store.get_range(f"{VERSIONS_DIR}/{name}", max(0, size - _FOOTER), _FOOTER)
    except NotFoundError:
        return True
    return len(end) == _FOOTER and end.endswith(MAGIC)


def _damage(store: Store, name: str) -> FormatError | None:
    """Why the bytes are no manifest; None if they are one, or one that we do not know."""
    key = f"{VERSIONS_DIR}/{name}"
    try:
        manifest = decode_manifest_file(store.get(key), name=f"{store.uri}/{key}")
        _ = manifest.fragments
    except FormatError as error:
        return error
    except (NotFoundError, UnsupportedError):
        return None
    return None


def _set_aside(store: Store, name: str, damage: FormatError, newest: Version) -> RepairStep:
    key = f"{VERSIONS_DIR}/{name}"
    data = store.get(key)
    target = f"{key}.damaged-{hashlib.sha256(data).hexdigest()[:12]}"

    def do() -> None:
        if _damage(store, name) is not None:
            store.copy(key, target)
            store.delete([key])

    return RepairStep(
        Proposal(
            "set the manifest aside",
            f"{store.uri}/{key}",
            str(damage),
            f"its bytes stay as {target}, which no reader lists; the newest version is then "
            f"{newest}. Files that only the damaged one names go with a later cleanup",
        ),
        do,
    )


# What stands beside the manifests


def _one_scheme(store: Store, manifests: dict[str, ManifestName]) -> Iterator[RepairStep]:
    old = [
        name
        for name, each in manifests.items()
        if each.scheme is NamingScheme.V1 and not each.detached
    ]
    attached = [each for each in manifests.values() if not each.detached]
    if not old or len(old) == len(attached):
        return
    yield RepairStep(
        Proposal(
            "rename manifests to scheme V2",
            f"{store.uri}/{VERSIONS_DIR}",
            f"{len(old)} of {len(attached)} manifests have names of scheme V1, the others of V2; "
            "nobody opens such a table",
            "every version has a V2 name, and the table opens; stop all writers first",
        ),
        lambda: migrate_names(store),
    )


def _hint(store: Store, newest: Version) -> Iterator[RepairStep]:
    try:
        data = store.get(HINT_KEY)
    except NotFoundError:
        return
    try:
        version = json.loads(data)["version"]
    except (ValueError, KeyError, TypeError):
        version = None
    if isinstance(version, int) and not isinstance(version, bool) and 0 < version <= newest:
        return
    told = "no version" if version is None else f"version {version!r}"
    yield RepairStep(
        Proposal(
            "delete the hint",
            f"{store.uri}/{HINT_KEY}",
            f"it names {told}, the newest is {newest}",
            "readers find the newest version by listing",
        ),
        lambda: store.delete([HINT_KEY]),
    )


def _is_left_behind(store: Store, name: str) -> bool:
    if isinstance(store, ExternalStore) and store.is_abandoned(name):
        return True
    return _LEFT_BEHIND.fullmatch(name) is not None


def _left_behind(store: Store) -> Iterator[RepairStep]:
    """Files in the making that nobody finished; young ones may still be in somebody's hands."""
    stale = datetime.now(UTC) - IN_FLIGHT
    keys = [
        each.key
        for directory in (VERSIONS_DIR, TRANSACTIONS_DIR)
        for each in store.list(directory)
        if each.modified < stale and _is_left_behind(store, each.key.removeprefix(f"{directory}/"))
    ]
    if keys:
        yield RepairStep(
            Proposal(
                "delete unfinished files",
                f"{store.uri}/{keys[0]}" + (f" and {len(keys) - 1} more" if keys[1:] else ""),
                f"writers left {len(keys)} files half-made, more than {IN_FLIGHT.days} days ago",
                "nothing but the space they take: no reader looks at them",
            ),
            lambda: store.delete(keys),
        )
