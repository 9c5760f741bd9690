"""What is raised when a run fails: the error itself, without secrets, and with the run's facts."""

from __future__ import annotations

from lancewood.errors import LancewoodError, RunFailedError
from lancewood.pipeline.definition.hiding import hide
from lancewood.pipeline.definition.model import Pipeline
from lancewood.pipeline.frames.refusals import failed, spark_errors
from lancewood.pipeline.report.facts import RunFacts

FACTS = "run_facts"
"""The key of ``error.facts`` that has the facts of the run."""
_MOST_CHARACTERS = 2_000
_DEEPEST = 20


def shown(pipeline: Pipeline, error: BaseException) -> str:
    """What may be said of an error: its text without secrets and Java's stacks."""
    return _told(pipeline, error).message[:_MOST_CHARACTERS]


def failure(pipeline: Pipeline, error: Exception, facts: RunFacts) -> LancewoodError:
    """The error to raise in place of another one: errors of ours keep their class, others, Spark's
    among them, become a RunFailedError.

    Where a text held a secret, what caused the error is left out: it would tell.
    """
    found = _told(pipeline, error)
    kind = RunFailedError if type(found) is LancewoodError else type(found)
    made = kind(found.message, **{**found.facts, FACTS: facts})
    for note in getattr(found, "__notes__", ()):
        made.add_note(hide(pipeline, note))
    made.add_note(f"run {facts.run} of {facts.pipeline}: {facts.folder or facts.repository}")
    made.__cause__ = None if _holds_secrets(pipeline, error) else error
    return made


def _told(pipeline: Pipeline, error: BaseException) -> LancewoodError:
    if isinstance(error, LancewoodError):
        return type(error)(hide(pipeline, error.message), **error.facts)
    if isinstance(error, spark_errors()):
        return failed(pipeline, error, "the run")
    text = hide(pipeline, str(error)) or "it says nothing else"
    return LancewoodError(f"the run failed: {type(error).__name__}: {text}")


def _holds_secrets(pipeline: Pipeline, error: BaseException) -> bool:
    """Whether an error, or what led to it, tells a secret; in doubt it does."""
    at: BaseException | None = error
    for _ in range(_DEEPEST):
        if at is None:
            return False
        text = f"{at} {at!r}"
        if hide(pipeline, text) != text:
            return True
        at = at.__cause__ or at.__context__
    return True
