"""Mending one version by committing another: the content half of ``repair``.

Only what can be proven is done: an index that has lost its files is dropped, since a scan gives the
same rows; deleted rows are counted in the file that lists them. A version whose data is lost cannot
be mended, so the newest older one that is whole is restored. No file is changed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lancewood.engine.commit import CommitPolicy
from lancewood.engine.location import new_deletion_files, write_deletions
from lancewood.engine.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions import list_versions
from lancewood.errors import LancewoodError, StorageError
from lancewood.format.layout import DATA_DIR, DELETIONS_DIR
from lancewood.jobs.job import Change, CommitOptions, execute
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.check_fragments import read_deleted
from lancewood.jobs.upkeep.check_table import check_index
from lancewood.jobs.upkeep.problems import Problem, ProblemKind, Proposal, RepairStep
from lancewood.jobs.upkeep.reachable import names_in
from lancewood.jobs.upkeep.verify import verify_version
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId
from lancewood.model.index import SYSTEM_INDICES, Index
from lancewood.model.transaction import CreateIndex, Delete, Restore, commit_properties

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
    return CommitOptions(
        properties=commit_properties(f"repair: {message}", None),
        policy=CommitPolicy(serializable=serializable),
    )


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
