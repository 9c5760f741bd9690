"""``--manifest-store`` of the commands on one table, and the variable that says the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import lancewood as lw
from lancewood.cli.main import app


@pytest.fixture
def manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    return f"sqlite://{tmp_path}/manifests.db"


def run(*words: str, code: int = 0) -> Result:
    done = CliRunner().invoke(app, [*words], prog_name="lw")
    assert done.exit_code == code, done.output
    return done


def test_commands_commit_through_the_manifest_store(
    manifests: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("rows.csv").write_text("id\n1\n2\n")
    said = ("--manifest-store", manifests)
    run("table", "import", "t.lance", "rows.csv", *said)
    refused = run("table", "delete", "t.lance", "--where", "id = 1", code=9)
    assert "through a manifest store of kind 'sqlite'" in refused.output
    run("table", "delete", "t.lance", "--where", "id = 1", *said)
    monkeypatch.setenv("LANCEWOOD_MANIFEST_STORE", manifests)
    run("table", "branch", "t.lance", "exp")
    run("table", "import", "t.lance", "rows.csv", "--mode", "append", "--branch", "exp")
    monkeypatch.delenv("LANCEWOOD_MANIFEST_STORE")
    assert (
        lw.open("t.lance", branch="exp", access=lw.Access(manifest_store=manifests)).count_rows()
        == 3
    )
    run("table", "clone", "t.lance", "c.lance", "--target-manifest-store", manifests)
    assert lw.open("c.lance").config["lancewood.manifest_store"] == "sqlite"


def test_what_was_removed_without_it_is_dropped_from_it(manifests: str) -> None:
    said = ("--manifest-store", manifests)
    run("table", "create", "t.lance", "--column", "id:int64", *said)
    shutil.rmtree("t.lance")
    Path("rows.csv").write_text("id\n1\n")
    refused = run("table", "import", "t.lance", "rows.csv", *said, code=10)
    assert "lw table drop (where no table is left)" in refused.output
    found = run("doctor", "t.lance", "--read-only", "--json", *said, code=12)
    checks = {each["name"]: each["status"] for each in json.loads(found.stdout)["checks"]}
    assert checks["manifest store"] == "fail"
    dropped = run("table", "drop", "t.lance", "--yes", "--json", *said)
    assert json.loads(dropped.stdout)["version"] == 1
    run("table", "create", "t.lance", "--column", "id:int64", *said)


def test_errors_name_the_option_and_the_command(manifests: str) -> None:
    Path("rows.csv").write_text("id\n1\n")
    wrong = "sqlite:///no/such/directory/m.db"
    nowhere = run("table", "import", "t.lance", "rows.csv", "--manifest-store", wrong, code=11)
    assert "check that its directory is there" in nowhere.output
    run("table", "import", "t.lance", "rows.csv", "--manifest-store", manifests)
    refused = run("table", "import", "t.lance", "rows.csv", "--mode", "append", code=9).output
    assert "Name that one with --manifest-store" in refused
    run("init", "repo")
    command = "lw table config URI --unset lancewood.manifest_store"
    for told in (refused, run("-C", "repo", "add", "t", "../t.lance", code=9).output):
        assert command in told
    run("table", "config", "t.lance", "--unset", "lancewood.manifest_store")
    run("-C", "repo", "add", "t", "../t.lance")


def test_a_password_is_not_repeated() -> None:
    wrong = ("table", "count", "t.lance", "--manifest-store")
    for uri in ("mysql://me:planted-secret@host/db", "postgresql://me:planted-secret@host:x/db"):
        assert "planted" not in run(*wrong, uri, code=5).output
        assert "planted" not in run(*wrong, uri, "--no-such-option", code=2).output
