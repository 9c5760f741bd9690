"""docs/reference/api.md is what the code says today, and a word means the same in every signature
that has it."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "api_reference.py"
MADE = runpy.run_path(str(SCRIPT))
PAGE: str = MADE["PAGE"].read_text()

MEANT = {
    "access": "Access | None = None",
    "at": "At = None",
    "branch": "str | None = None",
    "commit": "CommitOptions | None = None",
    "dry_run": "bool = False",
    "in_bases": "Bases = None",
    "into": "str | None = None",
    "layout": "Layout | None = None",
    "message": "str | None = None",
    "onto": "str | None = None",
    "runner": "Runner | None = None",
    "storage_options": "Mapping[str, str] | None = None",
    "where": "str | None = None",
}
"""How an argument of that name is written, wherever there is one."""


class Other(NamedTuple):
    """An argument that is written in another way."""

    form: str
    why: str


_REVISION = "a commit of a repository, which is a text and has no number; HEAD's unless it is said"
_GIT = "as with git, nobody commits by hand without a word"

EXCEPTIONS = {
    ("Pin.on", "branch"): Other("BranchName | None", "a branch of the table, and None is main"),
    ("Repository.branches.create", "at"): Other(
        'str | None = "HEAD"', f"{_REVISION}, and None begins with an empty one"
    ),
    ("Repository.branches.delete_from_tables", "at"): Other(
        "str", "the branch is gone, and HEAD was another one"
    ),
    ("Repository.commit", "message"): Other("str", _GIT),
    ("Repository.snapshot", "message"): Other("str", _GIT),
    ("Repository.marks.set", "commit"): Other("Hash", "the commit of git that is marked"),
    ("Repository.switch", "at"): Other('str = "HEAD"', _REVISION),
    ("Repository.switch", "branch"): Other("str", "the branch is what the verb is about"),
    ("Repository.tags.create", "at"): Other('str = "HEAD"', _REVISION),
    ("Table.delete", "where"): Other("str", "that every row goes has to be said: 'true'"),
}


@pytest.fixture(scope="module")
def signatures() -> dict[str, inspect.Signature]:
    found: dict[str, inspect.Signature] = MADE["signatures"]()
    return found


def written(parameter: inspect.Parameter) -> str:
    """An argument as its signature has it, without the name."""
    form: str = parameter.annotation + MADE["default_of"](parameter)
    return form


def test_the_reference_is_what_the_code_says_today() -> None:
    assert MADE["page"]() == PAGE, "docs/reference/api.md is not current: run `make docs`"


def test_the_reference_is_the_same_without_pyspark_and_with_another_hash_seed() -> None:
    code = (
        "import runpy, sys\n"
        "sys.modules['pyspark'] = None\n"
        f"sys.stdout.write(runpy.run_path({str(SCRIPT)!r})['page']())\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=120, env=environment
    )
    assert done.stdout.decode() == PAGE


@pytest.mark.parametrize("module", MADE["MODULES"])
def test_every_public_name_is_in_the_part_of_its_module(module: str) -> None:
    (part,) = re.findall(rf"^## `{re.escape(module)}`\n(.*?)(?=^## )", PAGE, re.DOTALL | re.M)
    headed = re.findall(r"^### (\w+)$", part, re.MULTILINE)
    listed = re.findall(r"^- `(\w+(?:Error|Warning)(?=\()|__version__(?=:))", part, re.MULTILINE)
    public = import_module(module).__all__
    assert sorted({*headed, *listed} - {"Errors", "Values"}) == sorted(public)


def test_every_public_function_and_class_says_what_it_is() -> None:
    assert [each.path for each in MADE["named"]() if not MADE["told_of"](each.value)] == []


@pytest.mark.parametrize("word", MEANT)
def test_a_word_is_the_same_argument_in_every_signature(
    word: str, signatures: dict[str, inspect.Signature]
) -> None:
    found = {
        verb: written(each.parameters[word])
        for verb, each in signatures.items()
        if word in each.parameters
    }
    others = {verb: form for verb, form in found.items() if form != MEANT[word]}
    allowed = {verb: other.form for (verb, name), other in EXCEPTIONS.items() if name == word}
    assert len(found) > len(others), f"no signature has {word}: {MEANT[word]}"
    assert others == allowed, f"{word} is {MEANT[word]}; what is not has a reason in EXCEPTIONS"


def test_the_exceptions_are_about_these_words_and_each_has_a_reason() -> None:
    assert {word for _, word in EXCEPTIONS} <= set(MEANT)
    assert all(each.why for each in EXCEPTIONS.values())
