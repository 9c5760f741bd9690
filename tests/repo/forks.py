"""Many processes at once: forked from one that has everything loaded, and has used nothing yet.

Run as a program by ``run``: it takes jobs as JSON, forks a process for each, and tells how each
ended. A job may be mortal: it dies by SIGKILL at its n-th step, a step being a file that is opened,
linked, renamed or synced, or a call to a bucket.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lancewood.store.objects import ObjectStore

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Job:
    """What one process does: a function of ``tests.repo.jobs`` and what it is given."""

    name: str
    given: dict[str, Any] = field(default_factory=dict)
    dies_at: int = 0
    """The step at which it dies; 0 is never."""


def run(jobs: list[Job], timeout: float = 120) -> list[int]:
    """How each ended: 0 is well, -9 is killed."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.repo.forks"],
        input=json.dumps([asdict(each) for each in jobs]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LANCEWOOD_FSYNC": "0", "PYTHONWARNINGS": "ignore"},
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ends: list[int] = json.loads(done.stdout)
    assert set(ends) <= {0, -signal.SIGKILL}, done.stderr
    return ends


def _main() -> None:
    import lance.file  # noqa: F401  (loaded once for all)
    from tests.repo import jobs as known

    jobs = [Job(**each) for each in json.load(sys.stdin)]
    started = []
    for each in jobs:
        pid = os.fork()
        if pid == 0:
            try:
                if each.dies_at:
                    _make_mortal(each.dies_at)
                warnings.simplefilter("ignore")
                getattr(known, each.name)(**each.given)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        started.append(pid)
    ends = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in started]
    print(json.dumps(ends))


def _make_mortal(at: int) -> None:
    left = at

    def mortal(real: Any) -> Any:
        def act(*given: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*given, **options)

        return act

    for name in ("open", "link", "rename", "replace", "unlink", "fsync"):
        setattr(os, name, mortal(getattr(os, name)))
    for name in ("get", "get_range", "head", "put", "put_new", "replace", "delete"):
        setattr(ObjectStore, name, mortal(getattr(ObjectStore, name)))


if __name__ == "__main__":
    _main()
