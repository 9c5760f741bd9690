"""The name and release that Lancewood writes into manifests."""

from __future__ import annotations

LIBRARY = "lancewood"
RELEASE = "0.1.0"
"""Major.minor.patch only, as the format wants it; pyproject.toml reads it from here."""
