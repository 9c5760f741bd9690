"""Refuse an interpreter that is too old, before pip fails with something longer."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the point of this file
    sys.exit(
        f"Lancewood needs Python 3.11 or newer, this is {sys.version.split()[0]}. "
        "Run make with another one, for example: make PYTHON=python3.12"
    )
