"""Commits: judge what landed meanwhile, build the next version, publish it, verify that it stands.

``commit`` is the one place where a table changes.
"""

from __future__ import annotations

from lancewood.engine.commit.aftermath import PutVersion, find_landed
from lancewood.engine.commit.commit import check_commit, check_in_history, commit, commit_steps
from lancewood.engine.commit.composer import Composer, Composition
from lancewood.engine.commit.drafting import Draft, Drafting
from lancewood.engine.commit.judging import CommitStep, steps_of
from lancewood.engine.commit.new_files import lost_staged_file
from lancewood.engine.commit.publish import (
    CommitPolicy,
    Detached,
    PutIfAbsent,
    check_manifest_store,
    manifest_store_mark,
)
from lancewood.engine.commit.rebase import row_conflict

__all__ = [
    "CommitPolicy",
    "CommitStep",
    "Composer",
    "Composition",
    "Detached",
    "Draft",
    "Drafting",
    "PutIfAbsent",
    "PutVersion",
    "check_commit",
    "check_in_history",
    "check_manifest_store",
    "commit",
    "commit_steps",
    "find_landed",
    "lost_staged_file",
    "manifest_store_mark",
    "row_conflict",
    "steps_of",
]
