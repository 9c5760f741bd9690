"""A table through pylance's own dataset class, for vector and text search, which Lancewood does not
do itself. Nothing in Lancewood builds on the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lancewood.data.codec import StorageOptions
from lancewood.errors import NotFoundError, StorageError
from lancewood.model.ids import Version

if TYPE_CHECKING:
    import lance


def open_with_pylance(
    uri: str,
    version: Version,
    branch: str | None = None,
    storage_options: StorageOptions = None,
    base_options: Mapping[str, Mapping[str, str]] | None = None,
) -> lance.LanceDataset:
    """pylance's dataset at exactly this version of this branch (None: main).

    ``uri`` is the root of main; ``base_options`` are storage options by base path, where they
    differ from the table's. Raises NotFoundError where pylance finds no such version, StorageError
    where it fails otherwise.
    """
    import lance

    options: dict[str, Any] = {
        "storage_options": dict(storage_options) if storage_options else None
    }
    if base_options:
        options["base_store_params"] = {path: dict(each) for path, each in base_options.items()}
    where = f"version {version} of {uri}" + (f" on branch {branch!r}" if branch else "")
    try:
        if branch is None:
            return lance.dataset(uri, version=int(version), **options)
        return lance.dataset(uri, **options).checkout_version((branch, int(version)))
    except Exception as cause:
        text = str(cause)
        if "not found" in text.lower():
            raise NotFoundError(f"{where} not found by pylance: {text}", uri=uri) from cause
        raise StorageError(f"pylance cannot open {where}: {text}", uri=uri) from cause
