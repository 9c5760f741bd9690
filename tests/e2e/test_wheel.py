"""The package as people get it: a wheel, installed where nothing of this repository is."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = {
    "py4j": "with pyspark",
    "botocore": "with boto3",
    "polars": "asked for by to_polars alone",
    "typing_extensions": "for type checkers alone",
    "pytest": "for those who use lancewood.testing",
    "hypothesis": "for those who use lancewood.testing",
}
"""Packages that are imported and not declared, and why."""

USE = """
import sys
import pyarrow as pa
import lancewood as lw

assert "site-packages" in lw.__file__, lw.__file__
assert not {"lance", "pyspark", "sqlglot"} & set(sys.modules)
table = lw.create(sys.argv[1], pa.table({"a": [1, 2, 3]}), message="from a wheel")
table = table.append(pa.table({"a": [4]}))
assert table.count_rows("a > 1") == 3
print(lw.__version__, table.version)
"""


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, timeout=840, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("wheel")
    build = ["-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", where, ROOT]
    run(sys.executable, *build, cwd=where)
    (made,) = where.glob("*.whl")
    return made


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "lancewood/py.typed" in names
    assert "lancewood/proto/table_pb2.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"lancewood", "pyspark_lance"}


def test_every_package_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    listed = [*project["dependencies"], *(each for some in extras for each in some)]
    declared = {re.split(r"[\[<>=!~; ]", each)[0].lower() for each in listed}
    known = packages_distributions()
    own = {*sys.stdlib_module_names, "lancewood", "pyspark_lance", *ELSEWHERE}
    for path in (ROOT / "src").rglob("*.py"):
        for name in _imported(path) - own:
            assert {each.lower() for each in known[name]} & declared, f"{path.name} imports {name}"


def _imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.campaign
def test_the_wheel_works_in_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    run(sys.executable, "-m", "venv", home, cwd=tmp_path)
    pip = [home / "bin" / "pip", "install", "-q", "--no-compile", "--disable-pip-version-check"]
    run(*pip, "-c", ROOT / "requirements.lock", wheel, cwd=tmp_path)
    out = run(home / "bin" / "python", "-c", USE, tmp_path / "t.lance", cwd=tmp_path)
    assert out.split()[1] == "2"
