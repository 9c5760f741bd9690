"""What ``import lancewood`` gives, and what it leaves alone."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import lancewood
from lancewood import errors


def test_public_names_are_exactly_these() -> None:
    assert set(lancewood.__all__) == {
        "Access",
        "CommitOptions",
        "Layout",
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


@pytest.mark.parametrize("name", ["open", "sql"])
def test_importing_loads_no_heavy_library(name: str) -> None:
    code = (
        f"import sys, lancewood; lancewood.{name};"
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


FOR_ROWS = ("lance", "pyspark", "pandas", "sqlglot", "duckdb", "obstore", "pyarrow.compute")
"""What verbs that read no rows do not load."""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two commits and a tag."""
    path = tmp_path_factory.mktemp("quick") / "shop"
    repo = lancewood.Repository.init(path, fsync=False)
    with repo.transaction(message="one") as changes:
        changes.create_table("orders", pa.table({"id": [1, 2]}))
    repo.tags.create("v1")
    with repo.transaction(message="two") as changes:
        changes.table("orders").append(pa.table({"id": [3]}))
    return path


@pytest.mark.parametrize(
    ("verb", "left_out", "most"),
    [
        (["status"], (*FOR_ROWS, "lancewood.engine.commit", "lancewood.engine.rows"), 190),
        (["log"], (*FOR_ROWS, "pyarrow", "numpy", "lancewood.engine.snapshot"), 130),
        (["log", "--oneline", "-n", "1"], (*FOR_ROWS, "pyarrow", "numpy"), 130),
        (["branch"], (*FOR_ROWS, "pyarrow", "numpy", "lancewood.engine.snapshot"), 130),
        (["tag"], (*FOR_ROWS, "pyarrow", "numpy", "lancewood.engine.snapshot"), 130),
        (["reflog"], (*FOR_ROWS, "pyarrow", "numpy"), 130),
        (["diff", "v1", "main"], ("lance", "pyspark", "pandas", "sqlglot", "duckdb"), 300),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_a_verb_of_a_repository_loads_what_it_needs_and_no_more(
    shop: Path, verb: list[str], left_out: tuple[str, ...], most: int
) -> None:
    code = (
        "import atexit, sys\n"
        f"sys.argv = ['lw', '-C', {str(shop)!r}, *{verb!r}]\n"
        f"left_out = {left_out!r}\n"
        "ours = lambda: sum(m.startswith('lancewood.') for m in sys.modules)\n"
        "atexit.register(lambda: print(ours(), [m for m in left_out if m in sys.modules]))\n"
        "from lancewood.cli.main import run\n"
        "run()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    loaded = done.stdout.splitlines()[-1]
    count, _, names = loaded.partition(" ")
    assert names == "[]", done.stderr
    assert int(count) <= most
