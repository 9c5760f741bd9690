"""Which target, step or Python function is to blame for an error while rows are on their way.

A traceback tells which step a function belongs to: the functions of a file travel to executors by
value and keep their place in the source. If two steps may have called it, both are named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lancewood.errors import InvalidInputError, LancewoodError, RunFailedError
from lancewood.pipeline.definition.load import frames_in
from lancewood.pipeline.definition.model import Pipeline, Source, Step, Target
from lancewood.pipeline.frames.refusals import failed, spark_errors
from lancewood.spark.running.failures import CALLS, TracebackFrame


@dataclass(frozen=True)
class Uses:
    """The frames of a pipeline and what they read."""

    inputs: Mapping[str, Sequence[str]]
    """The frames that every source and step reads, as often as it does."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How often a frame is read on the way to targets; frames that no target needs are missing."""
    in_steps: frozenset[str] = frozenset()
    """Frames that another frame reads, perhaps not all of their rows."""

    @classmethod
    def of(cls, pipeline: Pipeline) -> Uses:
        """The file was checked when it was read: all names lead to frames, and none to itself."""
        frames: list[Source | Step] = [*pipeline.sources, *pipeline.steps]
        names = [each.name for each in frames]
        inputs = {each.name: _inputs(each, names) for each in frames}
        counts: Counter[str] = Counter()
        for target in pipeline.targets:
            if target.source is not None:
                # Rows that delete and rows that upsert are separated in two passes.
                counts[target.source] += 1 if target.deleted is None else 2
        needed, in_steps = list(counts), set[str]()
        for name in needed:
            for each in inputs.get(name, ()):
                if each not in counts:
                    needed.append(each)
                counts[each] += 1
                in_steps.add(each)
        return cls(inputs, dict(counts), frozenset(in_steps))


def _inputs(origin: Source | Step, names: Iterable[str]) -> tuple[str, ...]:
    if origin.sql is not None:
        return frames_in(origin.sql, names)
    return origin.inputs if isinstance(origin, Step) else ()


def blamed(
    pipeline: Pipeline, error: Exception, what: str, target: Target | None = None
) -> Exception:
    """The error to raise in place of another one: if rows or functions caused it, it says at which
    target and in which step. Any other error is returned unchanged."""
    found = failed(pipeline, error, what) if isinstance(error, spark_errors()) else error
    if not isinstance(found, LancewoodError):
        return error
    if type(found) not in (InvalidInputError, RunFailedError, LancewoodError):
        return error
    text = found.message
    if target is None or target.source is not None:
        source = None if target is None else target.source
        steps = steps_to_blame(pipeline, found.facts.get(CALLS, ()), source)
        text += f", in step {' or '.join(steps)}" if steps else ""
    spot = None if target is None else target.spot
    if spot and not text.startswith((f"{spot.file}: ", f"{spot.file} line ")):
        text = f"{spot}: {text}"
    kind = RunFailedError if type(found) is LancewoodError else type(found)
    return kind(text, **found.facts)


def steps_to_blame(
    pipeline: Pipeline, calls: Sequence[TracebackFrame], source: str | None
) -> list[str]:
    """The steps on the way to a frame, or all if ``source`` is None, whose Python is among the
    calls: those whose SQL calls one of the functions, else those with Python of the same module."""
    known = _on_the_way(pipeline, source)
    steps = [each for each in pipeline.steps if each.name in known]
    functions = [each.name for each in pipeline.functions if _is_called(each.python, calls)]
    by_sql = [each.name for each in steps if any(_names(each, name) for name in functions)]
    by_module = [each.name for each in steps if each.python and any(_calls_in(each.python, calls))]
    return by_sql or by_module


def _on_the_way(pipeline: Pipeline, source: str | None) -> Collection[str]:
    uses = Uses.of(pipeline)
    if source is None:
        return uses.counts.keys()
    found = [source]
    for name in found:
        found += [each for each in uses.inputs.get(name, ()) if each not in found]
    return found


def _is_called(named: str, calls: Sequence[TracebackFrame]) -> bool:
    function = named.rpartition(":")[2].rpartition(".")[2]
    return any(each.function == function for each in _calls_in(named, calls))


def _calls_in(named: str, calls: Sequence[TracebackFrame]) -> Iterator[TracebackFrame]:
    """The calls in the module of ``module:function``."""
    path = named.partition(":")[0].replace(".", "/")
    for each in calls:
        if each.file.replace("\\", "/").endswith((f"/{path}.py", f"/{path}/__init__.py")):
            yield each


def _names(step: Step, function: str) -> bool:
    call = re.compile(rf"\b{re.escape(function)}`?\s*\(", re.IGNORECASE)
    texts = (step.sql or "", *(each.where for each in step.rejects))
    return any(call.search(each) for each in texts)
