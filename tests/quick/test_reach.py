"""Which tests a change can affect, and how near they are to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.quick.reach import imported_names, steps_to_tests
from tests.unit.test_layers import SRC, imports

FILES = {
    "src/lancewood/a/__init__.py": "from lancewood.a.one import f\n",
    "src/lancewood/a/one.py": "",
    "src/lancewood/a/two.py": "",
    "src/lancewood/a/java/Some.java": "",
    "src/lancewood/b/user.py": "def g():\n    from lancewood.a import (\n        one,\n    )\n",
    "tests/helper.py": "import lancewood.b.user\n",
    "tests/conftest.py": "import lancewood.a.two\nfrom tests.fixtures import some\n",
    "tests/fixtures.py": "",
    "tests/unit/a/test_all.py": "",
    "tests/unit/b/conftest.py": "",
    "tests/unit/b/test_user.py": "from tests.helper import x\n",
    "tests/unit/test_one.py": "PROGRAM = '''\nfrom lancewood.a.one import f\n'''\n",
    "tests/e2e/test_pages.py": 'PAGES = (ROOT / "docs").rglob("*.md")\nREADME = "README.md"\n',
    "scripts/make.py": "",
    "tests/unit/test_script.py": 'SCRIPT = ROOT / "scripts" / "make.py"\n',
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_tests_that_import_a_module_are_as_near_as_there_are_imports_between(root: Path) -> None:
    assert steps_to_tests(root, ["src/lancewood/a/one.py"]) == {
        "tests/unit/test_one.py": 1,
        "tests/unit/a/test_all.py": 2,
        "tests/unit/b/test_user.py": 3,
    }


def test_a_module_that_nobody_imports_has_the_unit_tests_of_its_room(root: Path) -> None:
    assert steps_to_tests(root, ["src/lancewood/a/two.py"]) == {"tests/unit/a/test_all.py": 2}


def test_a_package_that_was_changed_counts_as_all_of_its_modules(root: Path) -> None:
    steps = steps_to_tests(root, ["src/lancewood/a/__init__.py"])
    assert steps["tests/unit/test_one.py"] == 1


def test_a_file_that_is_no_python_counts_as_the_package_that_has_it(root: Path) -> None:
    steps = steps_to_tests(root, ["src/lancewood/a/java/Some.java"])
    assert steps["tests/unit/test_one.py"] == 1


def test_a_deleted_module_has_the_tests_that_still_import_it(root: Path) -> None:
    (root / "src/lancewood/a/one.py").unlink()
    assert steps_to_tests(root, ["src/lancewood/a/one.py"])["tests/unit/test_one.py"] == 1


def test_a_test_that_was_changed_is_nearest_and_has_no_others(root: Path) -> None:
    assert steps_to_tests(root, ["tests/unit/test_one.py"]) == {"tests/unit/test_one.py": 0}


def test_a_helper_has_the_tests_that_import_it(root: Path) -> None:
    assert steps_to_tests(root, ["tests/helper.py"]) == {"tests/unit/b/test_user.py": 1}


def test_fixtures_are_for_all_tests_below_their_folder(root: Path) -> None:
    assert steps_to_tests(root, ["tests/unit/b/conftest.py"]) == {"tests/unit/b/test_user.py": 1}
    everywhere = {path for path in FILES if "/test_" in path}
    assert steps_to_tests(root, ["tests/fixtures.py"]) == dict.fromkeys(everywhere, 2)
    assert steps_to_tests(root, ["requirements.lock"]) == dict.fromkeys(everywhere, 3)


def test_pages_and_scripts_have_the_tests_that_name_them(root: Path) -> None:
    for page in ("docs/sub/page.md", "README.md"):
        assert steps_to_tests(root, [page]) == {"tests/e2e/test_pages.py": 1}
    assert steps_to_tests(root, ["scripts/make.py"]) == {"tests/unit/test_script.py": 1}


def test_several_changes_have_the_tests_of_each(root: Path) -> None:
    steps = steps_to_tests(root, ["README.md", "tests/helper.py"])
    assert steps == {"tests/e2e/test_pages.py": 1, "tests/unit/b/test_user.py": 1}


def test_what_no_test_knows_has_none(root: Path) -> None:
    assert steps_to_tests(root, ["LICENSE"]) == {}


@pytest.mark.parametrize("room", ["store", "repo", "cli"])
def test_every_import_that_the_syntax_has_is_found(room: str) -> None:
    for path in (SRC / room).rglob("*.py"):
        text = path.read_text()
        assert {name for name, _ in imports(text)} <= {*imported_names(text)}, path
