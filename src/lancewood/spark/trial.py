"""Asking another process to try a session: what its workers run, and one table that they write
and read.

The process is one of its own (``trial_run``), so that neither a session of this one nor its
environment is touched. It is asked and answers in JSON. Knows nothing of what is good or bad:
``doctor`` says that.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from lancewood.errors import UnsupportedError
from lancewood.spark.session import without_token

_PATIENCE = 300
_LAST_WORDS = 600
_LEAST_SECRET = 4
"""Shorter texts are in many words, and are no tokens."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What to try: a master, its settings, and a place for a table that is removed again.

    Without a place, a local session uses a temporary directory and a cluster writes nothing.
    """

    master: str = "local[2]"
    place: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


def run_trial(trial: Trial, environ: Mapping[str, str]) -> dict[str, Any]:
    """What the session said: versions of driver and workers, and what became of the table.

    Raises UnsupportedError with the reason if it did not get there, or took five minutes.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lancewood.spark.trial_run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(environ),
        start_new_session=True,
    )
    try:
        answer, words = process.communicate(json.dumps(asdict(trial)), timeout=_PATIENCE)
    except subprocess.TimeoutExpired as late:
        raise UnsupportedError(
            f"the session on {without_token(trial.master)} did not answer within {_PATIENCE} s: "
            "are there free executors, and can they reach this machine?"
        ) from late
    finally:
        _end(process)
    lines = answer.strip().splitlines()
    report = _report_in(lines[-1]) if process.returncode == 0 and lines else None
    if report is None:
        report = {"error": words or answer}
    if "error" in report:
        why = _last(_without_secret(report["error"], trial.master))
        raise UnsupportedError(f"trial on {without_token(trial.master)}: {why}")
    return report


def _report_in(line: str) -> dict[str, Any] | None:
    """The report that a line is; None if it is something else that was printed."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _without_secret(words: str, master: str) -> str:
    """The words without what stands after the host of a master, whoever repeats it."""
    secret = master.removeprefix(without_token(master)).strip("/;")
    for each in (secret, *(part.partition("=")[2] for part in secret.split(";"))):
        if len(each) >= _LEAST_SECRET:
            words = words.replace(each, "…")
    return words


def _last(words: str) -> str:
    text = words.strip()
    return text if len(text) <= _LAST_WORDS else f"… {text[-_LAST_WORDS:]}"


def _end(process: subprocess.Popen[str]) -> None:
    """End the process and the Java that it started, if they are still there."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
