"""Blame: which version wrote what is there, for each row or each cell.

``history`` knows the versions, ``tracing`` follows rows back through them, ``lines`` from one line
of history to another where they were merged, and ``rows`` makes batches.
"""

from __future__ import annotations

from lancewood.jobs.blame.history import History, Writer
from lancewood.jobs.blame.lines import Line
from lancewood.jobs.blame.rows import BlameRows

__all__ = ["BlameRows", "History", "Line", "Writer"]
