"""The keys that a command's help promises are the keys that it prints, in that order."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.cli.groups import IndexGroup, TableGroup, load_command
from lancewood.cli.main import RootGroup

Lw = Callable[..., Any]
ARGUMENTS = {
    "create": ["new.lance", "--column", "a:int8"],
    "import": ["new.lance", "rows.csv"],
    "export": ["t.lance", "x.csv"],
    "restore": ["t.lance", "1"],
    "drop": ["t.lance", "--yes"],
    "delete": ["t.lance", "--where", "id = 1"],
    "update": ["t.lance", "--set", "id=2"],
    "merge": ["t.lance", "ids.csv", "--on", "id"],
    "add-columns": ["t.lance", "--set", "twice=id * 2"],
    "drop-columns": ["t.lance", "name"],
    "rename-column": ["t.lance", "name", "label"],
    "cast-column": ["t.lance", "id", "int8"],
    "replace-columns": ["t.lance", "ids.csv", "--fragment", "0"],
    "search": ["t.lance", "--text", "x"],
    "versions": ["t.lance", "-n", "1"],
    "changes": ["t.lance", "--since", "1"],
    "diff": ["t.lance", "1"],
    "index-mask": ["t.lance", "id_idx"],
    "index create": ["t.lance", "name"],
    "index drop": ["t.lance", "id_idx"],
    "publish": ["t.lance", "exp"],
    "merge-branch": ["t.lance", "exp"],
    "conflicts": ["t.lance", "exp"],
    "clone": ["t.lance", "c.lance"],
    "move": ["t.lance", "--to", "cold", "--all"],
}
BESIDE = {"blame": ["id", "name"]}
"""Columns of the rows that stand between other keys."""
OF_THE_ROWS = {
    "head": ["id", "name"],
    "cat": ["id", "name"],
    "changes": ["id", "name"],
    "search": ["id", "name", "_score"],
}
PROMISE = re.compile(r"JSON (?:lines|keys)(?:(?: with keys)?: ([a-z_, ]+)|, with a key for each)")
TABLE = {
    **{name: each for name, each in TableGroup.entries.items() if name != "index"},
    **{f"index {name}": each for name, each in IndexGroup.entries.items()},
}
ENTRIES = {**TABLE, "doctor": RootGroup.entries["doctor"]}


@pytest.mark.parametrize("name", ENTRIES)
def test_help_tells_the_keys_of_the_json(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"id": [1], "name": ["x"]})
    table = lw.create("t.lance", rows.schema).append(rows)
    if name in ("branch", "publish", "merge-branch", "conflicts"):
        table.branches.create("exp").append(rows)
    if name == "conflicts":
        lw.open("t.lance", branch="exp").update({"name": "'theirs'"})
        table.update({"name": "'ours'"})
    if name == "tag":
        table.tags.create("v1")
    if name in ("base", "move"):
        table.add_base("cold", name="cold")
    if name == "index-mask" or name.startswith("index "):
        lance.dataset("t.lance").create_scalar_index("id", "BTREE")
    if name == "search":
        lance.dataset("t.lance").create_scalar_index("name", "INVERTED")
    Path("rows.csv").write_text("a\n1\n")
    Path("ids.csv").write_text("id\n1\n")
    words = " ".join(load_command(name, ENTRIES[name].function).help.split())
    promise = PROMISE.search(words)
    assert promise is not None, words
    command = ["table", *name.split()] if name in TABLE else [name]
    out = lw_ok(*command, *ARGUMENTS.get(name, ["t.lance"]), "--json").out
    assert out.count("\n") == 1
    keys = [each for each in json.loads(out) if each not in BESIDE.get(name, [])]
    promised = promise[1].split(", ") if promise[1] else []
    assert keys == promised + OF_THE_ROWS.get(name, [])
