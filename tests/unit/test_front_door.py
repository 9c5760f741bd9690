"""What ``import lancewood`` gives, and what it leaves alone."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

import lancewood
from lancewood import errors


def test_public_names_are_exactly_these() -> None:
    assert set(lancewood.__all__) == {
        "AlreadyExistsError",
        "Answer",
        "BasePath",
        "BatchAppliedError",
        "Blame",
        "BlobFile",
        "Branch",
        "Changes",
        "CleanupReport",
        "Commit",
        "CommitUnknownError",
        "Committed",
        "CompactionCounts",
        "ConflictError",
        "Conflicts",
        "DeepClone",
        "DetachCounts",
        "Diff",
        "DiffCells",
        "DiffStat",
        "Divergence",
        "FormatError",
        "FsckReport",
        "GcReport",
        "Head",
        "IncompatibleConflictError",
        "IndexCounts",
        "IndexInfo",
        "IndexMask",
        "Indices",
        "IntegrityError",
        "InvalidInputError",
        "LancewoodError",
        "LocalRunner",
        "LogEntry",
        "MergeConflictError",
        "Merged",
        "MoveCounts",
        "NotFoundError",
        "NotLandedWarning",
        "Pin",
        "Published",
        "RelocationReport",
        "RepairReport",
        "Repository",
        "Resolve",
        "RetryableConflictError",
        "RowCounts",
        "RunFailedError",
        "Scan",
        "SchemaDiff",
        "ShallowClone",
        "Shown",
        "Status",
        "StorageError",
        "Table",
        "TableChange",
        "TableDone",
        "TableStats",
        "TableStatus",
        "Tag",
        "TakenIn",
        "UnsupportedError",
        "VerifyReport",
        "VersionInfo",
        "View",
        "Append",
        "ChangedRows",
        "ColumnCounts",
        "Counts",
        "CreateIndex",
        "DataReplacement",
        "Delete",
        "ManifestStore",
        "Merge",
        "MigratedNames",
        "Operation",
        "Overwrite",
        "Project",
        "ReserveFragments",
        "Restore",
        "Rewrite",
        "Runner",
        "Transaction",
        "Update",
        "UpdateBases",
        "UpdateConfig",
        "Dropped",
        "StoredFile",
        "TableDetails",
        "__version__",
        "create",
        "diff",
        "drop",
        "exists",
        "migrate_names",
        "open",
        "relocate",
        "repair",
        "sql",
    }
    assert all(hasattr(lancewood, name) for name in lancewood.__all__)


def test_importing_loads_no_heavy_library() -> None:
    code = (
        "import sys, lancewood; lancewood.open;"
        "print([m for m in ('lance', 'pyspark', 'sqlglot', 'pandas', 'polars', 'duckdb',"
        " 'typer', 'rich', 'obstore', 'dulwich', 'sqlite3', 'psycopg', 'boto3')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_the_front_door_alone_loads_no_arrow() -> None:
    code = (
        "import sys, lancewood; lancewood.NotFoundError; dir(lancewood);"
        "print([m for m in ('pyarrow', 'numpy', 'google.protobuf') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_an_ordinary_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        _ = lancewood.opne
    assert set(lancewood.__all__) <= set(dir(lancewood))


HEAVY = (
    *("lance", "pyspark", "pandas", "sqlglot", "pyarrow", "numpy", "obstore", "google.protobuf"),
    *("dulwich", "sqlite3", "psycopg", "boto3"),
)


@pytest.mark.parametrize(
    ("args", "environment"),
    [
        (["--help"], {}),
        (["--version"], {}),
        (["table", "--help"], {}),
        (["comit"], {}),
        (["tabel"], {}),
        ([], {"_LW_COMPLETE": "complete_bash", "COMP_WORDS": "lw table c", "COMP_CWORD": "2"}),
        (["--show-completion", "bash"], {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}),
    ],
    ids=[
        "help",
        "version",
        "table help",
        "wrong verb",
        "typo",
        "completion",
        "show completion",
    ],
)
def test_the_command_starts_without_loading_what_it_does_not_need(
    args: list[str], environment: dict[str, str]
) -> None:
    code = (
        "import atexit, sys\n"
        f"sys.argv = ['lw', *{args!r}]\n"
        f"heavy = {HEAVY!r}\n"
        "atexit.register(lambda: print('loaded', [m for m in heavy if m in sys.modules]))\n"
        "from lancewood.cli.main import run\n"
        "run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )
    *said, loaded = done.stdout.splitlines()
    assert loaded == "loaded []"
    assert said or done.stderr
    assert "Traceback" not in done.stderr


def test_every_error_survives_pickling() -> None:
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.LancewoodError)
    ]
    assert len(kinds) == 15
    for kind in kinds:
        back = pickle.loads(pickle.dumps(kind("version 41 not found: the newest is 40", newest=40)))
        assert type(back) is kind
        assert str(back) == "version 41 not found: the newest is 40"
        assert back.facts == {"newest": 40}


def test_errors_are_also_what_python_expects() -> None:
    assert issubclass(lancewood.NotFoundError, LookupError)
    assert issubclass(lancewood.InvalidInputError, ValueError)
