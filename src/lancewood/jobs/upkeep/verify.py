"""Whether a version is whole, and whether the table around it is.

Reads manifests, refs, listings and the ends of files; with ``deep`` every page of every column as
well. Changes nothing. Whatever is wrong with content comes back as a ``Problem``; only a store
that fails raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError
from lancewood.format.layout import DATA_DIR, data_key
from lancewood.jobs.job import TASKS_PER_SLOT, pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.jobs.upkeep.check_fragments import FragmentTask, check_fragments, twice_problem
from lancewood.jobs.upkeep.check_table import check_history, check_index, check_manifest, check_refs
from lancewood.jobs.upkeep.problems import Problem, ProblemKind
from lancewood.model.fragment import Fragment
from lancewood.model.rowids import IdRanges, union

_WORTH_A_LISTING = 1_000
"""Number of data files from which on a listing of all is cheaper than asking for each."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What was checked of a table, and what is wrong."""

    version: int
    deep: bool
    problems: tuple[Problem, ...]
    fragments: int
    data_files: int
    deletion_files: int
    indices: int
    refs: int

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(snapshot: Snapshot, runner: Runner, *, deep: bool = False) -> VerifyReport:
    """Check a version, and the versions and refs around it."""
    refs = [*check_refs(snapshot)]
    problems = [*check_history(snapshot.location, snapshot.manifest)]
    problems += [each for each in refs if each is not None]
    return verify_version(snapshot, runner, deep=deep, problems=problems, refs=len(refs))


def verify_version(
    snapshot: Snapshot,
    runner: Runner,
    *,
    deep: bool = False,
    problems: list[Problem] | None = None,
    refs: int = 0,
) -> VerifyReport:
    """Check a version alone; ``problems`` and ``refs`` are what is known of the rest."""
    manifest = snapshot.manifest
    found = [*(problems or ())]
    data_files = deletion_files = indices = fragments = 0
    try:
        fragments = len(manifest.fragments)
        found += check_manifest(snapshot)
        for index in manifest.indices:
            found += check_index(snapshot, index)
            indices += 1
    except FormatError as error:
        found.append(Problem(ProblemKind.MANIFEST, manifest.name, str(error)))
        return VerifyReport(manifest.version, deep, tuple(found), 0, 0, 0, indices, refs)
    ids: list[IdRanges] = []
    work = partial(check_fragments, snapshot.bare(), deep)
    # Each task of a deep check starts a process, so there are no more than can run at once.
    slots = runner.slots // TASKS_PER_SLOT if deep else runner.slots
    for each in runner.run(work, [*_tasks(snapshot, slots)], what="checking fragments"):
        found += each.problems
        data_files += each.data_files
        deletion_files += each.deletion_files
        if each.live_ids is not None:
            ids.append(each.live_ids)
    _, twice = union(ids)
    if twice is not None:
        found.append(twice_problem(twice, None))
    return VerifyReport(
        manifest.version, deep, tuple(found), fragments, data_files, deletion_files, indices, refs
    )


def _tasks(snapshot: Snapshot, slots: int) -> Iterator[FragmentTask]:
    groups = [*pack_fragments(snapshot.manifest.fragments, slots)]
    sizes = _sizes(snapshot, groups)
    for group in groups:
        if sizes is None:
            yield FragmentTask(group)
        else:
            keys = (key for each in group for key in _own_keys(each))
            yield FragmentTask(group, {key: sizes[key] for key in keys if key in sizes})


def _sizes(snapshot: Snapshot, groups: list[tuple[Fragment, ...]]) -> dict[str, int] | None:
    """The sizes of the data files below the own root; None where asking for each is cheaper."""
    wanted = {key for group in groups for each in group for key in _own_keys(each)}
    if len(wanted) < _WORTH_A_LISTING:
        return None
    listed = snapshot.location.store.list(DATA_DIR)
    return {each.key: each.size for each in listed if each.key in wanted}


def _own_keys(fragment: Fragment) -> Iterator[str]:
    for file in fragment.files:
        if file.base_id is None:
            yield data_key(file.path)
