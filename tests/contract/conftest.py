"""Failed assertions of the shipped contract explain themselves as those of a test file do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "lancewood.testing.store_contract",
    "lancewood.testing.store_names",
    "lancewood.testing.store_contract",
)
