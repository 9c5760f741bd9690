"""Answers that may be long go through a pager on a terminal, as git's do: ``PAGER``, or less."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

from lancewood.cli.output import Output

_STDOUT = 1
_LESS = {"LESS": "FRX", "LV": "-c"}
"""What git says to a pager: leave if all fits on the screen, and let colours through."""


@contextlib.contextmanager
def paged(output: Output, *, is_text: bool = True) -> Iterator[None]:
    """Send what is printed in the block through a pager, if it is text that a person reads."""
    command = _pager() if is_text and output.is_read_by_a_person else None
    if command is None:
        yield
        return
    sys.stdout.flush()
    terminal = os.dup(_STDOUT)
    with subprocess.Popen(
        command, shell=True, stdin=subprocess.PIPE, env={**_LESS, **os.environ}
    ) as pager:
        assert pager.stdin is not None
        os.dup2(pager.stdin.fileno(), _STDOUT)
        pager.stdin.close()
        try:
            yield
            sys.stdout.flush()
        finally:
            os.dup2(terminal, _STDOUT)
            os.close(terminal)


def _pager() -> str | None:
    """The command that pages; None if there is none, or it is told to do nothing."""
    chosen = os.environ.get("PAGER", "less" if shutil.which("less") else "").strip()
    return None if chosen in ("", "cat") else chosen
