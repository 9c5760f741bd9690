"""Pins for tests that need no table behind them."""

from __future__ import annotations

from typing import Any

from lancewood.catalog.pin import Pin
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.model.ids import DETACHED_BIT, Version
from lancewood.model.lines import Landing

UUID = "0b5c7f5e-6f4e-4d4a-9a53-3c8f9d1b2a10"
FIRST, SECOND = Version(DETACHED_BIT + 7), Version(DETACHED_BIT + 8)


def some_pin(name: str = "photos", version: int = 12, **changes: Any) -> Pin:
    """A pin that keeps every rule, but for what is changed."""
    number = Version(version)
    facts: dict[str, Any] = {
        "uri": f"tables/{name}.lance",
        "branch": None,
        "version": number,
        "manifest": manifest_key(number, NamingScheme.V2),
        "size": 1234,
        "sha256": "ab" * 32,
        "content": "cd" * 32,
        "rows": 1000,
        "fragments": 3,
        "schema": (("id", "int64 not null"), ("image", "large_binary")),
    }
    return Pin(**{**facts, **changes})


def staged_pin(name: str = "photos", base: int = 11, uuid: str = UUID, **changes: Any) -> Pin:
    """The same for the last state of a transaction of two steps."""
    landing = Landing(Version(base), uuid, (FIRST, SECOND))
    return some_pin(name, SECOND, landing=landing, **changes)
