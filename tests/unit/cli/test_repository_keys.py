"""The keys that a verb's help promises are the keys that it prints, in that order."""

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
from lancewood.cli.groups import VERBS, load_command
from lancewood.cli.main import RootGroup

Lw = Callable[..., Any]
ROWS = pa.table({"id": [1, 2, 3]})
PROMISE = re.compile(r"JSON (?:lines with )?keys: ([a-z_, ]+)")
ARGUMENTS = {
    "init": ["new"],
    "add": ["labels"],
    "remove": ["photos"],
    "commit": ["-m", "more"],
    "snapshot": ["../files", "-m", "files"],
    "log": ["-n", "1"],
    "diff": ["HEAD~1", "HEAD"],
    "blame": ["photos", "-n", "1", "-c", "id"],
    "branch": ["--list", "main"],
    "switch": ["exp"],
    "merge": ["exp"],
    "conflicts": ["exp"],
    "resolve": ["exp", "photos", "--ours"],
    "revert": ["HEAD"],
    "reset": ["HEAD~1"],
    "cherry-pick": ["exp"],
    "reflog": ["-n", "1"],
}


@pytest.mark.parametrize("name", VERBS)
def test_help_tells_the_keys_of_the_json(
    lw_ok: Lw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    repo = lw.Repository.init(tmp_path / "r")
    monkeypatch.chdir(repo.path)
    with repo.transaction("main", "one") as changes:
        changes.create_table("photos", ROWS)
    repo.branches.create("exp")
    for branch in ("exp", "main"):
        if branch == "main" and name == "cherry-pick":
            continue
        with repo.transaction(branch, f"two on {branch}") as changes:
            changes.table("photos").append(ROWS)
            if name in ("conflicts", "resolve"):
                changes.table("photos").update({"id": f"{len(branch)}"}, "_rowid = 0")
    repo.tags.create("v1")
    (tmp_path / "files").mkdir()
    if name == "add":
        lance.write_dataset(ROWS, "tables/labels.lance")
    if name == "commit":
        lance.write_dataset(ROWS, "tables/photos.lance", mode="append")
    words = " ".join(load_command(name, RootGroup.entries[name].function).help.split())
    promise = PROMISE.search(words)
    assert promise is not None, words
    out = lw_ok(name, *ARGUMENTS.get(name, []), "--json").out
    assert out.count("\n") == 1
    keys = [each for each in json.loads(out) if (name, each) != ("blame", "id")]
    assert keys == promise[1].split(", ")
