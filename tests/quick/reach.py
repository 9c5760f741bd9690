"""Which test files a change can affect, by what imports what, and over how many steps.

Imports are found by a pattern, so that those in a program count which a test hands to another
process; reading the syntax of a thousand files would take longer than many of the tests.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOM = re.compile(r"src/lancewood/(\w+)/")
FOLDERS = ("src", "tests", "bench", "scripts", "examples")
FOR_ALL = {"pyproject.toml", "requirements.lock"}
"""Files on which every test depends."""
FAR = 3
"""Steps from those to each test, and from a room to the tests in its folder of ``tests/unit``."""
NEAR = 2

WHOLE = {"docs": '"docs").rglob(', "examples": '"examples"'}
"""How a test says that it goes through all of a folder."""

_IMPORT = re.compile(
    r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|.*)|import ([\w., ]+))", re.MULTILINE
)


def is_test(path: str) -> bool:
    name = PurePosixPath(path)
    return path.startswith("tests/") and name.match("test_*.py")


def steps_to_tests(root: Path, changed: Collection[str]) -> dict[str, int]:
    """Each test file that the changed files can affect, and over how many imports.

    0 is a test file that was itself changed, 1 one that imports or names a changed file.
    """
    texts = {
        path.relative_to(root).as_posix(): path.read_text()
        for folder in FOLDERS
        for path in (root / folder).rglob("*.py")
    }
    importers = _importers(texts, changed)
    steps = dict.fromkeys((each for path in changed for each in _same_as(path, texts)), 0)
    for path in changed:
        for each in _naming(path, texts):
            steps.setdefault(each, 1)
    steps = _spread(steps, importers)
    tests = {each: steps[each] for each in texts if is_test(each) and each in steps}
    rooms = {found[1] for path in changed if (found := ROOM.match(path))}
    for each in filter(is_test, texts):
        far = [FAR] * bool(FOR_ALL & {*changed})
        near = [NEAR for room in rooms if each.startswith(f"tests/unit/{room}/")]
        if far or near:
            tests[each] = min([*far, *near, tests.get(each, FAR)])
    return tests


def _spread(steps: Mapping[str, int], importers: Mapping[str, set[str]]) -> dict[str, int]:
    """The steps to all that import files, directly or not, beginning with some files."""
    found = dict(steps)
    reached = sorted(steps, key=lambda path: steps[path])
    for path in reached:
        for each in importers[path]:
            if each not in found:
                found[each] = found[path] + 1
                reached.append(each)
    return found


def _importers(texts: Mapping[str, str], changed: Collection[str]) -> dict[str, set[str]]:
    """By file, the files that import it. A deleted file still has those that name it.

    A test has what the conftest.py files above it import of tests; what they import of ``src`` is
    for all tests alike, and says nothing of a single one.
    """
    modules = {_module(path): path for path in {*texts, *changed} if path.endswith(".py")}
    importers = defaultdict[str, set[str]](set)
    for path, text in texts.items():
        names = imported_names(text)
        if PurePosixPath(path).name == "conftest.py":
            names = (each for each in names if each.startswith("tests."))
        for name in names:
            if name in modules:
                importers[modules[name]].add(path)
        if path.startswith("tests/"):
            for folder in PurePosixPath(path).parents:
                importers[f"{folder}/conftest.py"].add(path)
    return importers


def imported_names(text: str) -> Iterator[str]:
    """The modules that a Python file imports, and names that may be modules as well."""
    for source, names, modules in _IMPORT.findall(text):
        if source:
            yield source
            for each in re.findall(r"\w+", names):
                yield f"{source}.{each}"
        else:
            yield from re.findall(r"[\w.]+", modules)


def _module(path: str) -> str:
    return path.removeprefix("src/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _same_as(path: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The Python files that are as good as changed with a file: itself, the modules of a package
    with its ``__init__``, and those beside, or above, a file of ``src`` that is no Python."""
    folder = PurePosixPath(path).parent
    if path.endswith(".py"):
        yield path
        if PurePosixPath(path).name != "__init__.py":
            return
    elif not path.startswith(("src/", "tests/")):
        return
    beside = [each for each in texts if PurePosixPath(each).parent == folder]
    while not beside and folder.parent != folder:
        folder = folder.parent
        beside = [each for each in texts if PurePosixPath(each).parent == folder]
    yield from beside


def _naming(path: str, texts: Mapping[str, str]) -> Iterator[str]:
    """The files of tests and scripts that name, in quotes, a file that is not imported: a script,
    a page, an example; or go through its folder."""
    if path.startswith(("src/", "tests/")):
        return
    own, folder = f'"{PurePosixPath(path).name}"', WHOLE.get(PurePosixPath(path).parts[0])
    for each, text in texts.items():
        is_named = own in text or (folder is not None and folder in text)
        if is_named and each.startswith(("tests/", "scripts/")):
            yield each
