"""The other implementation, which judges ours."""

from __future__ import annotations

from typing import Any

import lance as _lance

lance: Any = _lance
"""pylance, whose types are looser than what it takes and gives."""

MARKS = ["_row_created_at_version", "_row_last_updated_at_version"]
LINEAGE = ["_rowid", *MARKS]
"""What is known of a row besides its values."""


def judged(uri: Any, version: Any = None, **options: Any) -> Any:
    """A table as pylance opens it, in which it finds nothing wrong."""
    dataset = lance.dataset(uri, version, **options)
    dataset.validate()
    return dataset
