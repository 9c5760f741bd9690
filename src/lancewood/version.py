"""The name and release that Lancewood writes into manifests, and how it is installed."""

from __future__ import annotations

LIBRARY = "lancewood"
RELEASE = "0.1.0"
"""Major.minor.patch only, as the format wants it; pyproject.toml reads it from here."""


def how_to_install(extra: str) -> str:
    """What brings the packages of an extra: no release can be had by name yet."""
    return f"pip install '.[{extra}]' in a checkout of Lancewood"
