"""The keys that a command's help promises are the keys that it prints, in that order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.lazy import load_command
from lancewood.cli.main import RootGroup
from lancewood.cli.table import TableGroup

Lw = Callable[..., Any]
ARGUMENTS = {
    "create": ["new.lance", "--column", "a:int8"],
    "import": ["new.lance", "rows.csv"],
    "export": ["t.lance", "x.csv"],
    "restore": ["t.lance", "1"],
    "drop": ["t.lance", "--yes"],
}
PROMISE = re.compile(r"JSON (lines|keys)(?:(?: with keys)?: ([a-z_, ]+)|, with a key for each)")
ENTRIES = {**TableGroup.entries, **RootGroup.entries}


@pytest.mark.parametrize("name", [each for each in ENTRIES if each != "table"])
def test_help_tells_the_keys_of_the_json(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    lw.create("t.lance", pa.table({"id": [1], "name": ["x"]}))
    Path("rows.csv").write_text("a\n1\n")
    words = " ".join(load_command(name, ENTRIES[name].module).help.split())
    promise = PROMISE.search(words)
    assert promise is not None, words
    command = [name] if name in RootGroup.entries else ["table", name]
    out = lw_ok(*command, *ARGUMENTS.get(name, ["t.lance"]), "--json").out
    assert out.count("\n") == 1
    keys = list(json.loads(out))
    assert keys == (promise[2].split(", ") if promise[2] else ["id", "name"])
