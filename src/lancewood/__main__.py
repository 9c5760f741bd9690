"""``python -m lancewood`` is ``lw``."""

from __future__ import annotations

from lancewood.cli.main import run

if __name__ == "__main__":
    run()
