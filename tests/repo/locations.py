"""Where the repository of a test is: on this disk, or in a bucket of moto's server.

``everywhere`` asks for both. The bucket's part runs in ``make campaigns``, and every day where
``every_day`` says so: a request to moto costs milliseconds, and a commit makes dozens.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import pytest
from tests.breadth import EVERY_CASE

from lancewood.git.names import RepositoryRoot
from lancewood.store.base import is_in_the_making
from lancewood.store.locate import open_store

T = TypeVar("T", bound=Callable[..., Any])

DISK, S3 = "disk", "s3"
in_a_bucket = pytest.mark.parametrize("kind", [S3], indirect=True)
everywhere = pytest.mark.parametrize("kind", [DISK, S3], indirect=True)
PATIENCE = 3600
"""Seconds for a test in a bucket: all steps of a verb, one after the other, take minutes."""
_EVERY_DAY = "runs_in_a_bucket_every_day"


def every_day(test: T) -> T:
    """Of the tests that run everywhere, one that runs in a bucket every day too."""
    setattr(test, _EVERY_DAY, True)
    return test


def is_for_campaigns(item: pytest.Item) -> bool:
    """Whether a test waits for ``make campaigns``."""
    return not EVERY_CASE and is_in_a_bucket(item) and not hasattr(item.obj, _EVERY_DAY)


def is_in_a_bucket(item: pytest.Item) -> TypeGuard[pytest.Function]:
    """Whether the repository of a test is in a bucket."""
    if not isinstance(item, pytest.Function) or not hasattr(item, "callspec"):
        return False
    return bool(item.callspec.params.get("kind") == S3)


@dataclass(frozen=True)
class Where:
    """A place for a repository, and what is needed to reach it."""

    root: RepositoryRoot
    options: Mapping[str, str] | None = field(default=None, repr=False)

    @property
    def is_on_disk(self) -> bool:
        return isinstance(self.root, Path)

    def beside(self, name: str) -> Where:
        """Another place near by."""
        if isinstance(self.root, Path):
            return Where(self.root.with_name(name))
        return Where(f"{self.root.rpartition('/')[0]}/{name}", self.options)

    def copy(self, to: Where) -> None:
        """Make another place a copy of this one, whatever is there."""
        if isinstance(self.root, Path) and isinstance(to.root, Path):
            shutil.rmtree(to.root, ignore_errors=True)
            shutil.copytree(self.root, to.root)
            return
        target = open_store(to.root, storage_options=to.options)
        target.delete([each.key for each in target.list()])
        source = open_store(self.root, storage_options=self.options)
        for each in source.list():
            target.put(each.key, source.get(each.key))

    def download(self, to: Path) -> bool:
        """Bring every object to a directory, as any tool does it; whether there were any."""
        store = open_store(self.root, storage_options=self.options)
        found = [*store.list()]
        for each in found:
            file = to / each.key
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(store.get(each.key))
        return bool(found)

    def upload(self, source: Path) -> None:
        """Bring every file of a directory here, but for the badges of those who work there."""
        store = open_store(self.root, storage_options=self.options)
        for each in sorted(source.rglob("*")):
            if each.is_file() and not is_in_the_making(each.name):
                store.put(each.relative_to(source).as_posix(), each.read_bytes())
