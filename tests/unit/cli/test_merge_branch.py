"""``lw table merge-branch`` and ``conflicts``: two branches of a table, by rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lancewood as lw
from lancewood.cli.failing import ExitCode

Lw = Callable[..., Any]
SCHEMA = pa.schema(
    [
        pa.field(
            "id",
            pa.int64(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key": "true"},
        ),
        ("label", pa.string()),
        ("views", pa.int64()),
    ]
)


def photos(*rows: tuple[int, str, int]) -> pa.Table:
    names = SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in rows], SCHEMA)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Branch exp changed the views of photo 1 and got photo 9; main changed the label of 1."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, photos((1, "cat", 10), (2, "dog", 20), (3, "owl", 30)))
    branch = table.branches.create("exp").update({"views": "11"}, "id = 1")
    branch.append(photos((9, "auk", 90)))
    table.update({"label": "'lion'"}, "id = 1")
    return location


@pytest.fixture
def conflicting(uri: str) -> str:
    """Both also changed the label and the views of 2, and exp changed 3, which main deleted."""
    exp = lw.open(uri, branch="exp").update({"label": "'wolf'", "views": "25"}, "id = 2")
    exp.update({"label": "'barn owl'"}, "id = 3")
    lw.open(uri).update({"label": "'fox'", "views": "21"}, "id = 2").delete("id = 3")
    return uri


def rows(uri: str, branch: str | None = None) -> list[tuple[int, str, int]]:
    """The rows as pylance reads them."""
    dataset = lance.dataset(uri)
    dataset = dataset if branch is None else dataset.checkout_version((branch, None))
    dataset.validate()
    return sorted(tuple(each.values()) for each in dataset.to_table().to_pylist())


def test_rows_and_cells_of_both_are_put_together(lw_ok: Lw, uri: str) -> None:
    ran = lw_ok("table", "merge-branch", uri, "exp", "-m", "the experiment")
    assert ran.out == (
        "merged version 3 of exp into main: 1 row inserted, 1 updated, 0 deleted, 1 with cells of "
        f"both; {uri}, version 3 of main\n"
    )
    assert rows(uri) == [(1, "lion", 11), (2, "dog", 20), (3, "owl", 30), (9, "auk", 90)]
    assert next(lw.open(uri).versions()).message == "the experiment"
    again = lw_ok("table", "merge-branch", uri, "exp")
    assert again.out == f"main has all of exp already: {uri}, version 3 of main\n"


def test_a_branch_gets_what_main_has(lw_ok: Lw, uri: str) -> None:
    done = lw_ok("table", "merge-branch", uri, "main", "--into", "exp", "--json").document
    assert (done["branch"], done["into"], done["merged"]) == ("main", "exp", True)
    assert rows(uri, "exp")[0] == (1, "lion", 11)
    assert rows(uri)[0] == (1, "lion", 10)
    back = lw_ok("table", "merge-branch", f"{uri}@main", "exp", "--json").document
    assert back["fast_forward"] is True


def test_a_dry_run_changes_nothing(lw_ok: Lw, uri: str) -> None:
    before = rows(uri)
    done = lw_ok("table", "merge-branch", uri, "exp", "--dry-run", "--json").document
    assert (done["dry_run"], done["version"], done["inserted"], done["joined"]) == (True, 2, 1, 1)
    assert "nothing was changed" in lw_ok("table", "merge-branch", uri, "exp", "--dry-run").out
    assert rows(uri) == before


def test_conflicts_end_with_a_code_of_their_own(lw_run: Lw, conflicting: str) -> None:
    before = rows(conflicting)
    ran = lw_run("table", "merge-branch", conflicting, "exp")
    assert (ran.code, ran.out) == (ExitCode.MERGE_CONFLICT, "")
    assert "1 delete/update, 1 update/update" in ran.err
    assert "lw table conflicts shows them" in ran.err
    assert rows(conflicting) == before


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (["--theirs"], [(2, "wolf", 25), (3, "barn owl", 30)]),
        (["--ours"], [(2, "fox", 21)]),
        (["--base"], [(2, "dog", 20), (3, "owl", 30)]),
        (
            ["--rule", "views=ours.views + theirs.views - base.views", "--theirs"],
            [(2, "wolf", 26), (3, "barn owl", 30)],
        ),
        (["--winner", "theirs.views > ours.views", "--deletes", "win"], [(2, "wolf", 25)]),
        (
            ["--rule", "label=ours", "--rule", "*=theirs", "--deletes", "lose"],
            [(2, "fox", 25), (3, "barn owl", 30)],
        ),
    ],
)
def test_options_decide_conflicts(
    lw_ok: Lw, conflicting: str, given: list[str], wanted: list[tuple[int, str, int]]
) -> None:
    done = lw_ok("table", "merge-branch", conflicting, "exp", *given, "--json").document
    assert done["resolved"] == 2
    assert rows(conflicting) == [(1, "lion", 11), *wanted, (9, "auk", 90)]


def test_rows_can_be_what_both_may_not_change(lw_run: Lw, uri: str) -> None:
    ran = lw_run("table", "merge-branch", uri, "exp", "--detect", "rows")
    assert ran.code == ExitCode.MERGE_CONFLICT
    ran = lw_run("table", "merge-branch", uri, "exp", "--detect", "tables")
    assert ran.code == ExitCode.MERGE_CONFLICT


def test_conflicts_are_shown_cell_by_cell(lw_ok: Lw, conflicting: str) -> None:
    lines = [
        each.split() for each in lw_ok("table", "conflicts", conflicting, "exp").out.split("\n")
    ]
    assert [each[:-1] for each in lines[:-1]] == [
        ["row", "column", "base", "ours", "theirs"],
        ["id=2", "label", "dog", "fox", "wolf"],
        ["id=2", "views", "20", "21", "25"],
        ["id=3", "(row)", "label=owl", "deleted", "label=barn", "owl"],
    ]
    found = lw_ok("table", "conflicts", conflicting, "exp", "--json", "-n", "1").lines
    assert [each["key"] for each in found] == [{"id": 2}]
    left = lw_ok("table", "conflicts", conflicting, "exp", "--deletes", "win", "--json").lines
    assert [each["_kind"] for each in left] == ["update/update"]


def test_no_conflict_is_said_and_told_by_the_exit_code(
    lw_run: Lw, uri: str, conflicting: str
) -> None:
    ran = lw_run("table", "conflicts", uri, "exp", "--theirs", "--exit-code")
    assert (ran.code, ran.out, ran.err) == (0, "", "no row is in conflict\n")
    assert lw_run("table", "conflicts", conflicting, "exp", "--exit-code").code == 1


@pytest.mark.parametrize("name", ["decide.csv", "decide.jsonl", "decide.parquet", "decide.arrow"])
def test_a_file_of_conflicts_is_filled_in_and_decides_them(
    lw_ok: Lw, conflicting: str, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    ran = lw_ok("table", "conflicts", conflicting, "exp", "-o", path)
    assert ran.out == f"wrote 2 conflicts to {path}\n"
    if name == "decide.csv":
        head, *lines = path.read_text().splitlines()
        assert head.startswith('"_conflict","take"')
        filled = [line.replace(",,", ",theirs,", 1) for line in lines]
        path.write_text("\n".join([head, *filled]))
    else:
        found = lw.open(conflicting).branches.conflicts("exp").to_arrow()
        path = tmp_path / "decided.parquet"
        taken = pa.array(["theirs"] * found.num_rows)
        pq.write_table(found.select(["_conflict"]).append_column("take", taken), path)
    lw_ok("table", "merge-branch", conflicting, "exp", "--decisions", path)
    assert rows(conflicting)[1:3] == [(2, "wolf", 25), (3, "barn owl", 30)]


@pytest.mark.parametrize("name", ["decide.csv", "decide.jsonl"])
def test_values_in_a_file_of_conflicts_are_those_of_their_columns(
    lw_ok: Lw, tmp_path: Path, name: str
) -> None:
    uri, path = str(tmp_path / "prices.lance"), tmp_path / name

    def with_price(price: int) -> pa.Table:
        prices = pa.array([Decimal(price)], pa.decimal128(38, 2))
        return pa.table({"id": [1], "price": prices, "label": [str(price)]})

    table = lw.create(uri, with_price(0))
    branch = table.branches.create("exp")
    table.merge(with_price(1), on="id")
    branch.merge(with_price(2), on="id")
    lw_ok("table", "conflicts", uri, "exp", "-o", path)
    decided = {"price": "123456789012345678.91", "label": "1.10"}
    if name == "decide.csv":
        head, line = path.read_text().splitlines()
        path.write_text(f"{head},{','.join(decided)}\n{line},{','.join(decided.values())}\n")
    else:
        path.write_text(json.dumps(json.loads(path.read_text()) | decided))
    lw_ok("table", "conflicts", uri, "exp", "--decisions", path)
    lw_ok("table", "merge-branch", uri, "exp", "--decisions", path)
    expected = {"id": 1, "price": Decimal(decided["price"]), "label": "1.10"}
    assert lw.open(uri).to_arrow().to_pylist() == [expected]


def test_columns_in_conflict_are_shown_before_rows(lw_run: Lw, lw_ok: Lw, uri: str) -> None:
    lw.open(uri).rename_column("label", "title")
    lw.open(uri, branch="exp").rename_column("label", "name")
    ran = lw_ok("table", "conflicts", uri, "exp")
    assert ran.out.splitlines()[1] == "label   column  renamed to title  renamed to name"
    assert "--schema" in ran.err
    assert lw_ok("table", "conflicts", uri, "exp", "--json").lines[0]["ours"] == "renamed to title"
    refused = lw_run("table", "merge-branch", uri, "exp")
    assert refused.code == ExitCode.MERGE_CONFLICT
    assert "--schema decides that" in refused.err
    lw_ok("table", "merge-branch", uri, "exp", "--schema", "label=theirs")
    assert lance.dataset(uri).schema.names == ["id", "name", "views"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["merge-branch", "--ours", "--theirs"], "do not go together"),
        (["merge-branch", "--deletes", "maybe"], "--deletes"),
        (["conflicts", "--format", "csv", "--json"], "--format stands alone"),
        (["conflicts", "--force"], "--force is for -o FILE"),
        (["conflicts", "--safe"], "--safe is for CSV"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    lw_run: Lw, uri: str, given: list[str], told: str
) -> None:
    command, *more = given
    ran = lw_run("table", command, uri, "exp", *more)
    assert ran.code == ExitCode.USAGE
    assert told in ran.err


def test_a_branch_into_itself_and_one_that_is_not_there_are_refused(lw_run: Lw, uri: str) -> None:
    assert lw_run("table", "merge-branch", f"{uri}@exp", "exp").code == ExitCode.INVALID_INPUT
    assert lw_run("table", "merge-branch", uri, "nope").code == ExitCode.NOT_FOUND


def test_conflicts_of_one_column_are_shown_with_its_values_alone(
    lw_ok: Lw, lw_run: Lw, conflicting: str
) -> None:
    lines = lw_ok("table", "conflicts", conflicting, "exp", "-c", "views").out.splitlines()[1:]
    assert sorted(each.split()[:2] for each in lines) == [["id=2", "views"]]
    (found,) = lw_ok("table", "conflicts", conflicting, "exp", "-c", "views", "--json").lines
    assert found["_columns"] == ["views"]
    assert [found[side] for side in ("base", "ours", "theirs")] == [
        {"views": 20},
        {"views": 21},
        {"views": 25},
    ]
    both = lw_ok("table", "conflicts", conflicting, "exp", "-c", "label,views", "--json").lines
    assert sorted(each["_kind"] for each in both) == ["delete/update", "update/update"]
    none = lw_run("table", "conflicts", conflicting, "exp", "-c", "id", "--exit-code")
    assert (none.code, none.out) == (0, "")
    assert "no row is in conflict" in none.err
    wrong = lw_run("table", "conflicts", conflicting, "exp", "-c", "lable")
    assert wrong.code == ExitCode.INVALID_INPUT
    assert "label" in wrong.err
