"""Which branches of tables hand out row ids of their own, and what a merge makes of those."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.pylance import lance

import lancewood as lw
from lancewood.model.lines import has_own_ids, held_by, line_of, space_of
from lancewood.model.manifest import Manifest
from lancewood.repo.repository import Repository

ROWS = pa.table({"id": [1, 2, 3]})


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": ids})


def head(table: lw.Table) -> Manifest:
    return table._snapshot.manifest


def ids(table: lw.Table) -> dict[int, int]:
    """Row ids by the values of the rows, as pylance has them."""
    read = lance.dataset(table.uri, version=table.version).to_table(with_row_id=True)
    return dict(zip(*(read[each].to_pylist() for each in ("id", "_rowid")), strict=True))


def test_a_run_branch_of_a_repository_claims_nothing(path: Path) -> None:
    repo = Repository.init(path)
    with repo.transaction(message="add") as changes:
        changes.create_table("t", ROWS)
    repo.branches.create("run")
    run = repo.prepare("t", branch="run", onto="main")
    assert not has_own_ids(head(run))
    assert head(run).next_row_id == 3
    repo.branches.create("exp")
    exp = repo.prepare("t", branch="exp")
    assert has_own_ids(head(exp))


def test_a_merge_in_a_repository_keeps_ids_and_claims_others_for_the_target(
    path: Path,
) -> None:
    repo = Repository.init(path)
    with repo.transaction(message="add") as changes:
        changes.create_table("t", ROWS)
    repo.branches.create("exp")
    with repo.transaction("exp", message="work") as changes:
        changes.table("t").append(rows(10))
    with repo.transaction(message="more") as changes:
        changes.table("t").append(rows(20))
    repo.merge("exp")
    with repo.transaction(message="after") as changes:
        changes.table("t").append(rows(21))
    main = lw.open(path / "tables" / "t.lance")
    exp = lw.open(main.uri, branch="exp")
    found = ids(main)
    assert found[10] == head(exp).next_row_id - 1
    assert space_of(found[21]) > space_of(found[10]), "the branch goes on to hand out its own"
    assert held_by(head(main))[line_of(head(exp)).id].version == exp.version
