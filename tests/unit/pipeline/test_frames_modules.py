"""Python beside the pipeline file: found first, loaded apart, and sent to executors by value."""

from __future__ import annotations

import pickle
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import code_digest
from lancewood.pipeline.definition.model import Function, Pipeline, Spot, Step
from lancewood.pipeline.frames.functions import Modules, takes_arrow

SPOT = Spot("zoo.toml", "steps.s.python", 7)


def modules(folder: Path, **files: str) -> Modules:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return Modules(folder)


def test_functions_of_two_folders_do_not_meet_and_leave_nothing_behind(tmp_path: Path) -> None:
    path, loaded = list(sys.path), set(sys.modules)
    found = []
    for name in ("one", "two"):
        here = modules(
            tmp_path / name,
            zoo_steps="import zoo_words\ndef say(): return zoo_words.WORD",
            zoo_words=f"WORD = {name!r}",
        )
        found.append(here.function("zoo_steps:say", SPOT))
        assert here.function("zoo_words:WORD.upper", SPOT)() == name.upper()
    assert [each() for each in found] == ["one", "two"]
    assert sys.path == path
    assert {each for each in set(sys.modules) - loaded if each.startswith("zoo_")} == set()


def test_module_beside_the_file_goes_before_one_that_is_loaded_already(tmp_path: Path) -> None:
    here = modules(tmp_path, hypothesis="def given(): return 'ours'")
    known = sys.modules["hypothesis"]
    assert here.function("hypothesis:given", SPOT)() == "ours"
    assert sys.modules["hypothesis"] is known


def test_module_that_python_has_is_imported_as_usual(tmp_path: Path) -> None:
    import json

    here = modules(tmp_path, json="raise RuntimeError('never loaded')")
    assert here.function("json:dumps", SPOT) is json.dumps


def test_function_travels_with_the_modules_beside_it(tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    here = modules(
        tmp_path,
        zoo_steps="import zoo_words\nfrom zoo_words import Word\n"
        "def say(x): return Word(x).loud() + zoo_words.END",
        zoo_words="END = '!'\nclass Word(str):\n    def loud(self): return self.upper()",
    )
    message = cloudpickle.dumps(here.function("zoo_steps:say", SPOT))
    for each in tmp_path.iterdir():
        if each.suffix == ".py":
            each.unlink()
    assert pickle.loads(message)("moo") == "MOO!"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ("zoo_steps:sya", "has no 'sya'; did you mean 'say'?"),
        ("zoo_steps:LEGS", "is a int, not a function"),
        ("zoo_nothing:say", "there is no module 'zoo_nothing', neither beside the file in "),
        ("zoo_lost:say", "module 'zoo_lost' does not load: No module named 'zoo_nothing'"),
        ("zoo_broken:say", "module 'zoo_broken' does not load: ZeroDivisionError: "),
    ],
)
def test_what_is_not_there_is_told_with_its_place_in_the_file(
    tmp_path: Path, named: str, why: str
) -> None:
    here = modules(
        tmp_path,
        zoo_steps="LEGS = 4\ndef say(): ...",
        zoo_lost="import zoo_nothing",
        zoo_broken="1 / 0",
    )
    with pytest.raises(InvalidInputError) as refused:
        here.function(named, SPOT)
    assert refused.value.message.startswith("zoo.toml line 7: steps.s.python: ")
    assert why in refused.value.message


def test_function_takes_arrow_if_it_says_so(tmp_path: Path) -> None:
    here = modules(
        tmp_path,
        zoo_plain="import pyarrow as pa\nfrom collections.abc import Iterator\n"
        "def row(x: int): ...\n"
        "def array(x: pa.Array) -> pa.Array: ...\n"
        "def arrays(x: Iterator[pa.Array]): ...\n"
        "def told(x): ...\ntold.arrow = True\n",
        zoo_later="from __future__ import annotations\nimport pyarrow as pa\n"
        "from collections.abc import Iterator\n"
        "def array(x: pa.Array): ...\n"
        "def arrays(x: Iterator[pa.Array]): ...\n",
    )
    names = (
        "plain:row",
        "plain:array",
        "plain:arrays",
        "plain:told",
        "later:array",
        "later:arrays",
    )
    takes = [takes_arrow(here.function(f"zoo_{each}", SPOT)) for each in names]
    assert takes == [False, True, True, True, True, True]


@pytest.mark.parametrize(
    "changed", ["zoo_steps.py", "zoo_words.py", "deep/__init__.py", "deep/a.py", "deep/b.py"]
)
def test_the_digest_of_the_code_is_that_of_all_modules_beside_the_file_it_leads_to(
    tmp_path: Path, changed: str
) -> None:
    (tmp_path / "deep").mkdir()
    texts = {
        "zoo_steps.py": "def f(x):\n    import zoo_words\n    from deep import a",
        "zoo_words.py": "import json, zoo_steps",
        "deep/__init__.py": "",
        "deep/a.py": "from . import b\nfrom .. import zoo_nothing\nfrom .b import *",
        "deep/b.py": "not python (",
        "other.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    made = Pipeline("zoo", tmp_path / "zoo.toml", "repo", "d1", SPOT)
    assert code_digest(made) == ""
    for used in (
        replace(made, steps=(Step("s", SPOT, python="zoo_steps:f"),)),
        replace(made, functions=(Function("f", SPOT, "zoo_steps:f", "int"),)),
    ):
        before = code_digest(used)
        (tmp_path / "other.py").write_text("import zoo_steps")
        assert code_digest(used) == before != ""
        (tmp_path / changed).write_text(texts[changed] + "\n# another")
        assert code_digest(used) != before
        (tmp_path / changed).write_text(texts[changed])
