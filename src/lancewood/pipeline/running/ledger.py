"""What commits say of runs: of published ones, so that none is published twice, and of unfinished
ones, so that they can continue.

Published runs are in two places, because neither is enough. The tree of a published commit has
``pipelines/<name>.json`` with the run and the state of incremental sources: it becomes visible with
the rows, in one step. A ref ``refs/lancewood/runs/<name>/<run>`` names the commit for later, but
comes after it. So whoever replaces the file first makes sure that the run which it names has its
ref. Neither is the truth: a run is published if the history of its branch holds the commit, and
nothing there has reverted it. A reset takes it away, and its ref then waits for it to be published
again.

Each loaded target becomes a commit on the run's branch, whose message carries the progress so far:
it is there together with the rows, or not at all. A run that was cut off continues after the last
such commit if everything else is as before: the commit it started from, the definition, parameters,
the Python beside the file and, unless everything was loaded, what incremental sources have to
offer. Uncommitted writes are dropped. A run that ended and failed starts anew, since the data may
be the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lancewood.errors import AlreadyExistsError, FormatError, NotFoundError
from lancewood.pipeline.report.facts import QuarantineFacts, SourceFacts, TargetFacts, from_json
from lancewood.repo import HEADS, Commit, Hash, Repository, View, decode_object

_FORMAT = 1
_MOST_BYTES = 16 << 20
_KEY = "Lancewood-Progress: "
_MOST_COMMITS = 10_000
"""Number of commits on a run's branch that are read; a target makes a few."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One published run, as its commit records it. Without secrets."""

    pipeline: str
    run: str
    digest: str
    """The digest of the definition."""
    started: str
    """ISO 8601, UTC."""
    branch: str | None = None
    """The one that it was published into; not known of runs of an older Lancewood."""
    tag: str | None = None
    """The tag that the commit is to have."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, Any] = field(default_factory=dict)
    """How far incremental sources were read, by name."""


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A run that was published, and the commit that did it."""

    entry: LedgerEntry
    commit: Hash
    reverted_by: Hash | None = None


def entry_file(pipeline: str) -> str:
    """The path of a pipeline's entry in a commit."""
    return f"pipelines/{pipeline}.json"


def encode_entry(entry: LedgerEntry) -> bytes:
    """The bytes of an entry: one fact on a line, in the order of their names."""
    document = {"format": _FORMAT, **asdict(entry)}
    document["sources"] = document.pop("states")
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def decode_entry(data: bytes, name: str) -> LedgerEntry:
    """What such bytes say; raises FormatError that names the file."""
    document = decode_object(data, name=name, most=_MOST_BYTES)
    if document.get("format") != _FORMAT:
        raise FormatError(
            f"{name}: has format {document.get('format')!r:.40}, and this Lancewood knows "
            f"{_FORMAT}; use a newer one",
            file=name,
        )
    needed = ("pipeline", "run", "digest", "started")
    texts: dict[str, Any] = {}
    for key in (*needed, "branch", "tag"):
        texts[key] = value = document.get(key)
        if not isinstance(value, str) and (key in needed or value is not None):
            raise FormatError(f"{name}: {key} is {value!r:.80}, not a text", file=name)
    parameters, states = document.get("parameters"), document.get("sources")
    if not isinstance(parameters, dict) or not isinstance(states, dict):
        raise FormatError(f"{name}: parameters and sources are objects of JSON", file=name)
    if not all(isinstance(each, str) for each in parameters.values()):
        raise FormatError(f"{name}: a parameter is not a text", file=name)
    return LedgerEntry(**texts, parameters=parameters, states=states)


def entry_at(view: View | None, pipeline: str) -> LedgerEntry | None:
    """What a commit says about a pipeline; None where it says nothing. Raises FormatError."""
    data = entry_bytes(view, pipeline)
    return None if data is None else decode_entry(data, entry_file(pipeline))


def entry_bytes(view: View | None, pipeline: str) -> bytes | None:
    """The text of an entry as it stands in a commit."""
    if view is None:
        return None
    try:
        return view.read(entry_file(pipeline))
    except NotFoundError:
        return None


def tip_of(repository: Repository, branch: str) -> View | None:
    """The commit of a branch; None before its first."""
    try:
        return repository.at(HEADS + branch)
    except NotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Ledger:
    """The published runs of one pipeline."""

    repository: Repository
    pipeline: str
    branch: str
    """The branch that runs are published into."""

    def find(self, run: str) -> PublishedRun | None:
        """A run that the history of the branch holds, reverted or not; None if it does not.

        Raises AlreadyExistsError for one that another branch holds: an id is published once.
        """
        noted, tip = self.noted(run), self.tip()
        if tip is None:
            return None
        entry = entry_at(tip, self.pipeline)
        is_newest = entry is not None and entry.run == run
        held = {} if noted is None else self.repository.held([noted], tip.hash)
        if noted is not None and noted in held:
            return PublishedRun(self._entry(noted, run), noted, None if is_newest else held[noted])
        if entry is not None and is_newest:
            return PublishedRun(entry, self._first_with_it(tip))
        if noted is not None and not self.is_lost(noted, run):
            branch = self._entry(noted, run).branch
            raise AlreadyExistsError(
                f"run {run!r} of {self.pipeline!r} is published into branch {branch!r}, by "
                f"{noted[:12]}, and branch {self.branch!r} does not have that: merge {branch!r}, "
                "or choose another run id",
                run=run,
            )
        return None

    def noted(self, run: str) -> Hash | None:
        """The commit that the ref of a run names, also if a reset has taken it away since."""
        return self.repository.marks.find(self._mark(run))

    def all_noted(self, prefix: str) -> dict[str, Hash]:
        """The commits that refs name for all runs whose ids begin with ``prefix``, by id."""
        found = self.repository.marks.list(self._mark(prefix))
        return {name.removeprefix(self._mark("")): commit for name, commit in found.items()}

    def note(self, published: PublishedRun) -> None:
        """Give a published run its ref, which one that was reset away loses; once more does no
        harm."""
        run = published.entry.run
        before = self.noted(run)
        lost = before if before is not None and self.is_lost(before, run) else None
        why = f"run {run} of {self.pipeline}"
        self.repository.marks.set(self._mark(run), published.commit, why=why, instead_of=lost)

    def is_lost(self, commit: Hash, run: str) -> bool:
        """Whether a commit published a run into a branch that does not hold it any more."""
        entry = entry_at(self.repository.at(commit), self.pipeline)
        if entry is None or entry.run != run:
            return False
        tip = tip_of(self.repository, entry.branch or self.branch)
        return tip is None or commit not in self.repository.held([commit], tip.hash)

    def heal(self, tip: View | None) -> None:
        """Make sure that the run which a commit names has its ref, before another takes its place
        in the file: its own process may have died in between."""
        entry = entry_at(tip, self.pipeline)
        if tip is None or entry is None:
            return
        noted = self.noted(entry.run)
        if noted is None or self.is_lost(noted, entry.run):
            self.note(PublishedRun(entry, self._first_with_it(tip)))

    def tip(self) -> View | None:
        """The commit of the branch; None before its first."""
        return tip_of(self.repository, self.branch)

    def _entry(self, commit: Hash, run: str) -> LedgerEntry:
        entry = entry_at(self.repository.at(commit), self.pipeline)
        if entry is None or entry.run != run:
            raise FormatError(
                f"refs/lancewood/{self._mark(run)} of {self.repository.path} names commit "
                f"{commit[:12]}, which is not of that run; remove the ref if it was set by hand"
            )
        return entry

    def _first_with_it(self, tip: View) -> Hash:
        """The commit that brought the entry of ``tip``: others may have come since, and kept it."""
        wanted, found = entry_bytes(tip, self.pipeline), tip.hash
        for commit in self.repository.log(tip.hash, first_parent=True):
            if entry_bytes(self.repository.at(commit.hash), self.pipeline) != wanted:
                break
            found = commit.hash
        return found

    def _mark(self, run: str) -> str:
        return f"runs/{self.pipeline}/{run}"


@dataclass
class Progress:
    """What a run has done on its branch."""

    pipeline: str
    run: str
    digest: str
    """The digest of the definition."""
    code: str
    """The digest of the Python files beside the definition."""
    base: Hash | None
    started: str
    """ISO 8601, UTC: when the first attempt began."""
    news: str
    """What incremental sources have to offer: which files, which versions of tables."""
    targets: list[TargetFacts] = field(default_factory=list)
    """The loaded ones, in the order of the file."""
    sources: list[SourceFacts] = field(default_factory=list)
    quarantine: QuarantineFacts | None = None


def encode_message(title: str, progress: Progress) -> str:
    """The message of a commit on the run's branch."""
    return f"{title}\n\n{_KEY}{json.dumps(asdict(progress), ensure_ascii=False)}"


def decode_message(message: str) -> Progress | None:
    """The progress in a message; None if there is none that can be understood."""
    # Not ``splitlines``: JSON does not escape all line ends that Unicode knows.
    line = next((each for each in message.split("\n") if each.startswith(_KEY)), None)
    if line is None:
        return None
    try:
        return from_json(Progress, json.loads(line.removeprefix(_KEY)))
    except (ValueError, TypeError, OverflowError):
        return None


def find_progress(commits: Iterable[Commit], base: Hash | None) -> Progress | None:
    """The newest progress in these commits, newest first, down to where the branch began."""
    for _, commit in zip(range(_MOST_COMMITS), commits, strict=False):
        if commit.hash == base:
            return None
        found = decode_message(commit.message)
        if found is not None:
            return found
    return None
