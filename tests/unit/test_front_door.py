"""What ``import lancewood`` gives, and what it leaves alone."""

from __future__ import annotations

import pickle
import subprocess
import sys

import lancewood
from lancewood import errors


def test_public_names_are_exactly_these() -> None:
    assert set(lancewood.__all__) == {
        "AlreadyExistsError",
        "CommitUnknownError",
        "ConflictError",
        "FormatError",
        "IncompatibleConflictError",
        "IntegrityError",
        "InvalidInputError",
        "LancewoodError",
        "NotFoundError",
        "RetryableConflictError",
        "Scan",
        "StorageError",
        "Table",
        "TableStats",
        "UnsupportedError",
        "VersionInfo",
        "__version__",
        "create",
        "drop",
        "exists",
        "open",
    }
    assert all(hasattr(lancewood, name) for name in lancewood.__all__)


def test_importing_loads_no_heavy_library() -> None:
    code = (
        "import sys, lancewood;"
        "print([m for m in ('lance', 'pyspark', 'sqlglot', 'pandas', 'polars', 'duckdb')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_every_error_survives_pickling() -> None:
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.LancewoodError)
    ]
    assert len(kinds) == 12
    for kind in kinds:
        back = pickle.loads(pickle.dumps(kind("version 41 not found: the newest is 40", newest=40)))
        assert type(back) is kind
        assert str(back) == "version 41 not found: the newest is 40"
        assert back.facts == {"newest": 40}


def test_errors_are_also_what_python_expects() -> None:
    assert issubclass(lancewood.NotFoundError, LookupError)
    assert issubclass(lancewood.InvalidInputError, ValueError)
