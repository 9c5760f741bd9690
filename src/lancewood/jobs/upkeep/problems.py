"""What can be wrong with a table, as values, and the checks of what is around its rows.

A check collects problems and goes on, so that it reports all of them. The manifest itself, indices,
refs and the list of versions are checked here, as a part of ``verify``: that opens no data file,
and of indices only looks whether their files are there. A repair answers with proposals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from lancewood.engine.location import Location
from lancewood.engine.snapshot import Family, Snapshot, find_family, manifest_names
from lancewood.engine.versions import list_versions, load_manifest, load_transaction, read_refs
from lancewood.errors import FormatError, InvalidInputError, LancewoodError, UnsupportedError
from lancewood.format.layout import TREE_DIR, VERSIONS_DIR, manifest_name
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR
from lancewood.model.index import SYSTEM_INDICES, Index
from lancewood.model.manifest import Manifest
from lancewood.model.refs import Branch, Tag
from lancewood.model.transaction import MissingTransaction


class ProblemKind(StrEnum):
    """The kind of a problem."""

    MANIFEST = "manifest"
    NAMES = "manifest names"
    REF = "ref"
    SCHEMA = "schema"
    TRANSACTION = "transaction"
    FRAGMENT_IDS = "fragment ids"
    FRAGMENT_ORDER = "fragment order"
    INDEX = "index"
    INDEX_FILE = "index file"
    DATA_FILE = "data file"
    ROW_COUNT = "row count"
    DELETION_FILE = "deletion file"
    DELETED_COUNT = "deleted count"
    EMPTY_DELETION_FILE = "empty deletion file"
    ROW_IDS = "row ids"
    ROW_VERSIONS = "row versions"
    PAGE = "page"
    OUT_OF_REACH = "out of reach"
    """Not checked: unknown to this reader, or not accessible."""


_ADVICE = {
    ProblemKind.MANIFEST: "repair() proposes to set it aside; older versions open by number",
    ProblemKind.NAMES: "run lw table migrate-names, or repair()",
    ProblemKind.REF: "delete the ref, or make it anew on a version that exists",
    ProblemKind.SCHEMA: "restore a version that verifies: repair() looks for one",
    ProblemKind.TRANSACTION: "reading is not affected; commits that began before must be run again",
    ProblemKind.FRAGMENT_IDS: "restore a version that verifies: repair() looks for one",
    ProblemKind.FRAGMENT_ORDER: "reading is not affected; pylance sorts them with its next commit",
    ProblemKind.INDEX: "drop the index and create it anew; repair() drops it",
    ProblemKind.INDEX_FILE: "drop the index and create it anew; repair() drops it",
    ProblemKind.DATA_FILE: "bring the file back from a copy, or restore a version that verifies: "
    "repair() looks for one",
    ProblemKind.ROW_COUNT: "reading is not affected; pylance records it with its next commit, and "
    "until then no row of it can be deleted here",
    ProblemKind.DELETION_FILE: "bring the file back from a copy, or restore a version that "
    "verifies: repair() looks for one",
    ProblemKind.DELETED_COUNT: "repair() counts the rows and records them",
    ProblemKind.EMPTY_DELETION_FILE: "reading is not affected; a delete in this fragment by "
    "Lancewood replaces it, one by pylance fails until then",
    ProblemKind.ROW_IDS: "restore a version that verifies: repair() looks for one",
    ProblemKind.ROW_VERSIONS: "reading rows is not affected; changes() may tell wrong versions",
    ProblemKind.PAGE: "bring the file back from a copy, or restore a version that does not need it",
    ProblemKind.OUT_OF_REACH: "use the writer that made it, or allow the place; nothing is known "
    "to be damaged",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a table."""

    kind: ProblemKind
    where: str
    """The file, the ref, the index or the fragment."""
    text: str
    """What was expected, and what was found."""
    fragment: int | None = None
    """The fragment with the problem, if any."""

    @property
    def advice(self) -> str:
        """What to do about the problem."""
        return _ADVICE[self.kind]

    def __str__(self) -> str:
        return f"{self.kind} {self.where}: {self.text}"


def kind_of(error: LancewoodError, damage: ProblemKind) -> ProblemKind:
    """``damage``, or OUT_OF_REACH for an error that is about this reader, not the table."""
    unknown = isinstance(error, UnsupportedError | InvalidInputError)
    return ProblemKind.OUT_OF_REACH if unknown else damage


@dataclass(frozen=True, slots=True)
class Proposal:
    """One step of a repair, for people."""

    action: str
    """The step in a few words, such as ``set the manifest aside``."""
    where: str
    finding: str
    """What is wrong."""
    effect: str
    """What changes when the step is done."""


@dataclass(frozen=True, slots=True)
class RepairStep:
    """A proposal and how to carry it out, which is idempotent."""

    proposal: Proposal
    do: Callable[[], object]


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair did, or with ``dry_run`` would do."""

    dry_run: bool
    proposals: tuple[Proposal, ...]
    remaining: tuple[Problem, ...]
    """Problems that the proposals do not solve."""

    @property
    def ok(self) -> bool:
        """Whether there is nothing to do, and nothing wrong."""
        return not self.proposals and not self.remaining


_BAD_CONTENT = (FormatError, UnsupportedError, InvalidInputError)
"""Indices that may live in the manifest alone."""


def check_manifest(snapshot: Snapshot) -> Iterator[Problem]:
    """The schema, the ids of the fragments, and the transaction of a version."""
    manifest = snapshot.manifest
    try:
        _ = snapshot.arrow_schema
    except _BAD_CONTENT as error:
        yield Problem(kind_of(error, ProblemKind.SCHEMA), manifest.name, str(error))
    ids = [each.id for each in manifest.fragments]
    if any(a == b for a, b in pairwise(sorted(ids))):
        twice = next(a for a, b in pairwise(sorted(ids)) if a == b)
        yield Problem(
            ProblemKind.FRAGMENT_IDS, manifest.name, f"fragment {twice} is there twice", twice
        )
    elif any(a > b for a, b in pairwise(ids)):
        yield Problem(
            ProblemKind.FRAGMENT_ORDER, manifest.name, "the fragments are not sorted by id"
        )
    mark = manifest.max_fragment_id
    if ids and (mark is None or max(ids) > mark):
        text = f"fragment {max(ids)} is beyond {mark}, the highest id that was handed out"
        yield Problem(ProblemKind.FRAGMENT_IDS, manifest.name, text, max(ids))
    if manifest.transaction_section is not None or manifest.transaction_file is not None:
        found = load_transaction(snapshot.location.store, manifest).operation
        if isinstance(found, MissingTransaction):
            yield Problem(ProblemKind.TRANSACTION, manifest.name, found.why)


def check_index(snapshot: Snapshot, index: Index) -> Iterator[Problem]:
    """One index: its fields, what it covers, and whether its files are there."""
    where = f"index {index.name}"
    manifest = snapshot.manifest
    known = {each.id for each in manifest.fields}
    strange = sorted(set(index.fields) - known)
    if strange:
        text = f"it is on fields {strange}, which are not in the schema"
        yield Problem(ProblemKind.INDEX, where, text)
    try:
        covered = index.fragments
        mark = -1 if manifest.max_fragment_id is None else manifest.max_fragment_id
        if covered and covered.max() > mark:
            text = f"it covers fragment {covered.max()}, the highest id handed out is {mark}"
            yield Problem(ProblemKind.INDEX, where, text)
        store, directory = snapshot.location.index_directory(manifest, index)
    except _BAD_CONTENT as error:
        yield Problem(kind_of(error, ProblemKind.INDEX), where, str(error))
        return
    sizes = {each.key: each.size for each in store.list(directory)}
    for file in index.message.files:
        key = f"{directory}/{file.path}"
        path = f"{store.uri}/{key}"
        if key not in sizes:
            yield Problem(ProblemKind.INDEX_FILE, where, f"{path} is missing")
        elif file.size_bytes and sizes[key] != file.size_bytes:
            text = f"{path} has {sizes[key]} bytes, the manifest says {file.size_bytes}"
            yield Problem(ProblemKind.INDEX_FILE, where, text)
    if not index.message.files and not sizes and index.name not in SYSTEM_INDICES:
        yield Problem(ProblemKind.INDEX_FILE, where, f"{store.uri}/{directory} holds no files")


def check_history(location: Location, manifest: Manifest) -> Iterator[Problem]:
    """Whether the newest version can be read, and manifest names are of one scheme."""
    where = f"{location.uri}/{VERSIONS_DIR}"
    try:
        found = list_versions(location.store)
    except FormatError as error:
        yield Problem(ProblemKind.NAMES, where, str(error))
        return
    if found.newest is None or found.newest == manifest.version:
        return
    try:
        load_manifest(location.store, found.newest, found.scheme)
    except _BAD_CONTENT as error:
        where += f"/{manifest_name(found.newest, found.scheme)}"
        kind = kind_of(error, ProblemKind.MANIFEST)
        yield Problem(kind, where, f"the newest version cannot be read: {error}")


def check_refs(snapshot: Snapshot) -> Iterator[Problem | None]:
    """Every ref: None, or what is wrong with it."""
    try:
        family = find_family(snapshot)
    except _BAD_CONTENT as error:
        yield Problem(ProblemKind.REF, snapshot.location.uri, str(error))
        return
    versions = _Versions(family)
    for directory in (TAGS_DIR, BRANCHES_DIR):
        for file, found in read_refs(family.main, directory):
            where = f"{directory}/{file}"
            if isinstance(found, Exception):
                yield Problem(ProblemKind.REF, where, str(found))
            else:
                text = versions.missing(found)
                yield None if text is None else Problem(ProblemKind.REF, where, text)


class _Versions:
    """Which versions the roots of a family have, each listed when it is asked for."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._known: dict[str, set[int]] = {}

    def missing(self, ref: Tag | Branch) -> str | None:
        """What a ref needs and does not find."""
        if isinstance(ref, Tag):
            if ref.version in self._of(ref.branch):
                return None
            return f"it names version {ref.version} of {ref.branch or 'main'}, which is not there"
        if not self._of(ref.name):
            return f"{TREE_DIR}/{ref.name} holds no version of the branch"
        if ref.parent_version in self._of(ref.parent_branch):
            return None
        parent = ref.parent_branch or "main"
        return f"it begins at version {ref.parent_version} of {parent}, which is not there"

    def _of(self, branch: str | None) -> set[int]:
        root = "" if branch is None else f"{TREE_DIR}/{branch}"
        if root not in self._known:
            names = manifest_names(self._family.store(root))
            self._known[root] = {each.version for each in names.values()}
        return self._known[root]
