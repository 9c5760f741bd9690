"""How far a run has come, told by the commits of its own branch.

Each target that is loaded becomes a commit there, and its message carries what was done so far: it
is there with the rows, or not at all. After a crash the newest one tells where to go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from lancewood.git.hashes import Hash
from lancewood.git.objects import Commit
from lancewood.pipeline.report.facts import QuarantineFacts, SourceFacts, TargetFacts

_KEY = "Lancewood-Progress: "
_MOST_COMMITS = 10_000
"""Of a run's branch; a target makes a few."""

F = TypeVar("F", SourceFacts, TargetFacts, QuarantineFacts)


@dataclass
class Progress:
    """What a run has done on its branch."""

    pipeline: str
    run: str
    digest: str
    """Of the definition."""
    code: str
    """Of the Python beside it."""
    base: Hash | None
    started: str
    """ISO 8601, UTC: of the attempt that began it."""
    news: str
    """Of what incremental sources have to give: which files, which versions of tables."""
    targets: list[TargetFacts] = field(default_factory=list)
    """Those that are loaded, in the order of the file."""
    sources: list[SourceFacts] = field(default_factory=list)
    quarantine: QuarantineFacts | None = None


def encode_message(title: str, progress: Progress) -> str:
    """The message of a commit that brought a run so far."""
    return f"{title}\n\n{_KEY}{json.dumps(asdict(progress), ensure_ascii=False)}"


def decode_message(message: str) -> Progress | None:
    """What a message tells of a run; None where it tells nothing that can be understood."""
    # Not ``splitlines``: JSON leaves some ends of lines as they are that Unicode knows.
    line = next((each for each in message.split("\n") if each.startswith(_KEY)), None)
    if line is None:
        return None
    try:
        found = json.loads(line.removeprefix(_KEY))
        quarantine = found["quarantine"]
        return Progress(
            pipeline=found["pipeline"],
            run=found["run"],
            digest=found["digest"],
            code=found["code"],
            base=found["base"],
            started=found["started"],
            news=found["news"],
            targets=[_facts(TargetFacts, each) for each in found["targets"]],
            sources=[_facts(SourceFacts, each) for each in found["sources"]],
            quarantine=None if quarantine is None else _facts(QuarantineFacts, quarantine),
        )
    except (ValueError, LookupError, TypeError):
        return None


def find_progress(commits: Iterable[Commit], base: Hash | None) -> Progress | None:
    """The newest that is told by commits, the newest first, down to where the branch began."""
    for _, commit in zip(range(_MOST_COMMITS), commits, strict=False):
        if commit.hash == base:
            return None
        found = decode_message(commit.message)
        if found is not None:
            return found
    return None


def _facts(kind: type[F], found: dict[str, Any]) -> F:
    known = {each.name for each in fields(kind)}
    return kind(**{name: _plain(value) for name, value in found.items() if name in known})


def _plain(value: Any) -> Any:
    """As it was before it went through JSON: what are lists there are tuples in facts."""
    return tuple(map(_plain, value)) if isinstance(value, list) else value
