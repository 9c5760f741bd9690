"""The settings of a repository in a bucket: git's ``config``, replaced by conditional puts.

Knows when what was read is still so: as long as the etag is. Does not know what settings mean.
"""

from __future__ import annotations

import random
import time

from lancewood.errors import (
    CommitUnknownError,
    FormatError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lancewood.git.config import SeenSettings, Settings, parse_settings
from lancewood.store.base import ReplaceOutcome, Store
from lancewood.store.retry import pause_before

CONFIG = "config"
_ATTEMPTS = 10


class BucketConfig(Settings):
    """``config`` of the repository at a store, and below it the user's and the machine's."""

    def __init__(self, store: Store) -> None:
        super().__init__(f"{store.uri}/{CONFIG}")
        self._store = store

    def set(self, section: str, key: str, value: str) -> None:
        """Write a setting. Raises CommitUnknownError where the store did not say whether it did,
        RetryableConflictError where others were always faster."""
        unclear: StorageError | None = None
        for attempt in range(1, _ATTEMPTS + 1):
            etag, data = self._fetch()
            after = self._changed(data, section, key, value)
            if after == data:
                return
            try:
                if self._store.replace(CONFIG, after, etag) is ReplaceOutcome.REPLACED:
                    return
                unclear = None
            except StorageError as error:
                if error.facts.get("final"):
                    raise
                unclear = error
            time.sleep(pause_before(attempt, 0.02, 1.0, random.random))
        if unclear is not None:
            raise CommitUnknownError(
                f"whether {section}.{key} was written to {self.file} is unknown: {unclear}; write "
                "it again, which does no harm"
            ) from unclear
        raise RetryableConflictError(
            f"{self.file} was changed by others {_ATTEMPTS} times while {section}.{key} was to be "
            "written; try again"
        )

    def _look(self) -> SeenSettings:
        """What is kept under an etag was read between two looks that both found it."""
        try:
            stamp = self._store.head(CONFIG).etag
            seen = self._seen
            if seen is not None and seen.stamp == stamp:
                return seen
            _, data = self._fetch()
            found = SeenSettings(stamp, parse_settings(data))
            if self._store.head(CONFIG).etag == stamp:
                self._seen = found
        except NotFoundError as cause:
            raise FormatError(f"{self.file} is missing", file=self.file) from cause
        except ValueError as cause:
            raise FormatError(f"{self.file}: {cause}", file=self.file) from cause
        return found

    def _fetch(self) -> tuple[str, bytes]:
        try:
            return self._store.head(CONFIG).etag, self._store.get(CONFIG)
        except NotFoundError as cause:
            raise FormatError(f"{self.file} is missing", file=self.file) from cause
