"""A table through pylance's own dataset class: for people who ask for it, and for the engine that
builds and searches indices. No other table operation is built on it, and it never commits for us.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lancewood.data.codec import StorageOptions, Translated, not_imported
from lancewood.errors import LancewoodError, NotFoundError, StorageError
from lancewood.model.ids import Version

if TYPE_CHECKING:
    import lance


@dataclass(frozen=True)
class DatasetAddress:
    """Where pylance finds one version of a table. Small, and pickles."""

    uri: str
    """The root of main."""
    version: Version
    branch: str | None = None
    """None: main."""
    storage_options: StorageOptions = field(default=None, repr=False)
    base_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict, repr=False)
    """Storage options by base path, where they differ from the table's."""

    def open(self, session: lance.Session | None = None) -> lance.LanceDataset:
        """pylance's dataset at exactly this version.

        Raises NotFoundError where pylance finds no such version, StorageError where it fails
        otherwise, UnsupportedError where there is no pylance.
        """
        options: dict[str, Any] = {
            "storage_options": dict(self.storage_options) if self.storage_options else None,
            "session": session,
        }
        if self.base_options:
            options["base_store_params"] = {
                path: dict(each) for path, each in self.base_options.items()
            }
        with Translated(self._judge):
            import lance

            if self.branch is None:
                return lance.dataset(self.uri, version=int(self.version), **options)
            found = lance.dataset(self.uri, **options)
            return found.checkout_version((self.branch, int(self.version)))

    def _judge(self, text: str, cause: BaseException) -> LancewoodError:
        if isinstance(cause, ImportError):
            return not_imported(f"cannot open {self}", text, uri=self.uri)
        if "not found" in text.lower():
            return NotFoundError(f"{self} not found by pylance: {text}", uri=self.uri)
        return StorageError(f"pylance cannot open {self}: {text}", uri=self.uri)

    def __str__(self) -> str:
        on = f" on branch {self.branch!r}" if self.branch else ""
        return f"version {self.version} of {self.uri}{on}"
