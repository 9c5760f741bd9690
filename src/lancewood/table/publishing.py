"""Verbs that bring the work on a branch to another branch, and a branch back to it."""

from __future__ import annotations


class PublishVerbs:
    """What ``Table.branches`` can do with the work on a branch."""
