"""Who reads which frame: what targets need, directly or through steps, and how often.

Pure. Knows names and SQL, no frames.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lancewood.pipeline.definition.model import Pipeline, Source, Step
from lancewood.pipeline.definition.wiring import frames_in


@dataclass(frozen=True)
class Uses:
    """The frames of a pipeline and what they are made of."""

    inputs: Mapping[str, Sequence[str]]
    """Of every source and step the frames that it reads, each as often as it does."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How often a frame is read on the way to a target; those that no target needs are not here."""
    in_steps: frozenset[str] = frozenset()
    """Those that some other frame of these reads, and perhaps not all of its rows."""

    @classmethod
    def of(cls, pipeline: Pipeline) -> Uses:
        """That all names lead to frames, and none back to itself, was seen when the file was
        read."""
        names = [each.name for each in pipeline.sources] + [each.name for each in pipeline.steps]
        inputs = {each.name: _inputs(each, names) for each in pipeline.sources}
        inputs.update({each.name: _inputs(each, names) for each in pipeline.steps})
        counts: Counter[str] = Counter()
        for target in pipeline.targets:
            if target.source is not None:
                # Rows that delete and rows that upsert are told apart in two passes.
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
