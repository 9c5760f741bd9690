"""Row ids are claimed: every branch that we make hands out its own, and nobody loses a space."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.write import claim_space, claims
from lancewood.errors import RetryableConflictError
from lancewood.format.refs import SPACES_DIR, claimed_space, space_key
from lancewood.model.ids import Version
from lancewood.model.lines import (
    MOST_SPACES,
    Line,
    Reached,
    first_id,
    has_own_ids,
    held_by,
    line_of,
    space_of,
)

_names = count()
LINE = Line("0" * 32, Version(3), "exp")


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def main() -> Location:
    return lw.create(f"memory://claims/{next(_names)}", rows(1, 2))._snapshot.location


class Always(Random):
    def randrange(self, *_: Any) -> int:
        return 0


def test_a_space_is_above_all_that_are_claimed_and_the_mark(main: Location) -> None:
    found = [claim_space(main, 7, LINE) for _ in range(20)]
    assert found == sorted(set(found))
    assert all(each == first_id(space_of(each)) and space_of(each) >= 1 for each in found)
    mark = first_id(1_000_000) + 5
    assert claim_space(main, mark, LINE) > mark
    assert claim_space(main, 7, LINE) > mark


def test_another_space_is_claimed_where_somebody_was_faster(
    main: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "_RANDOM", Always())
    listed = iter([0, 0, 1])  # the second listing does not show what was put since
    monkeypatch.setattr(claims, "_highest", lambda _: next(listed))
    assert claim_space(main, 7, LINE) == first_id(1)
    assert claim_space(main, 7, LINE) == first_id(2)


def test_a_claim_that_always_comes_late_is_given_up(
    main: Location, monkeypatch: pytest.MonkeyPatch, no_waiting: None
) -> None:
    monkeypatch.setattr(claims, "_RANDOM", Always())
    monkeypatch.setattr(claims, "_highest", lambda _: 0)
    claim_space(main, 7, LINE)
    with pytest.raises(RetryableConflictError, match="others were faster"):
        claim_space(main, 7, LINE)


def test_names_of_claims_descend_and_others_are_passed_over(main: Location) -> None:
    spaces = [1, 9, 10, 5_000, MOST_SPACES - 1]
    keys = [space_key(each) for each in spaces]
    assert keys == sorted(keys, reverse=True)
    assert [claimed_space(each.rpartition("/")[2]) for each in keys] == spaces
    for odd in ("", "x.json", "1.json", f"{MOST_SPACES}.json", "999999999.json", "٣" * 9 + ".json"):
        assert claimed_space(odd) is None
    main.store.put(f"{SPACES_DIR}/000.json", b"")
    main.store.put(space_key(77), b"damaged")
    assert claim_space(main, 7, LINE) > first_id(77)


def test_a_claim_says_whose_it_is(main: Location) -> None:
    claimed = space_of(claim_space(main, 7, LINE))
    told = json.loads(main.store.get(space_key(claimed)))
    assert (told["line"], told["branch"]) == (LINE.uuid, "exp")


def test_a_branch_begins_with_a_line_and_ids_of_its_own() -> None:
    table = lw.create(f"memory://claims/{next(_names)}", rows(1, 2)).append(rows(3))
    exp = table.branches.create("exp")
    head = exp._snapshot.manifest
    assert has_own_ids(head)
    assert line_of(head).first == 2
    assert head.next_row_id == first_id(space_of(head.next_row_id)) > 0
    assert held_by(head) == {
        line_of(head).uuid: Reached(Version(2), "exp"),
        "main": Reached(Version(2), None),
    }
    child = exp.append(rows(4)).branches.create("child")
    line = line_of(child._snapshot.manifest)
    assert child._snapshot.manifest.next_row_id > exp.append(rows(5))._snapshot.manifest.next_row_id
    assert held_by(child._snapshot.manifest) == {
        line.uuid: Reached(Version(3), "child"),
        line_of(head).uuid: Reached(Version(3), "exp"),
        "main": Reached(Version(2), None),
    }


def test_a_reset_begins_another_line() -> None:
    table = lw.create(f"memory://claims/{next(_names)}", rows(1, 2))
    exp = table.branches.create("exp").append(rows(3))
    table.append(rows(4))
    again = table.branches.reset("exp", force=True)
    then, now = exp._snapshot.manifest, again._snapshot.manifest
    assert line_of(now).uuid != line_of(then).uuid
    assert line_of(now).first == now.version
    assert space_of(now.next_row_id) > space_of(then.next_row_id)
    assert held_by(now) == {
        line_of(now).uuid: Reached(now.version, "exp"),
        "main": Reached(Version(2), None),
    }


def test_a_table_without_row_ids_and_a_clone_claim_nothing() -> None:
    uri = f"memory://claims/{next(_names)}"
    plain = lw.create(uri, rows(1), layout=lw.Layout(stable_row_ids=False))
    exp = plain.branches.create("exp")._snapshot.manifest
    assert not exp.next_row_id
    assert not exp.config
    table = lw.create(f"{uri}-stable", rows(1))
    branch = table.branches.create("exp").append(rows(2))
    clone = branch.clone(f"{uri}-clone")._snapshot.manifest
    assert held_by(clone) == {"main": Reached(clone.version, None)}
    for each in (plain, lw.open(f"{uri}-clone")):
        assert not list(each._snapshot.location.store.names(SPACES_DIR))


def test_pylance_lists_cleans_up_and_drops_beside_claims(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    table = lw.create(uri, rows(1, 2))
    exp = table.branches.create("exp").append(rows(3))
    table.tags.create("v1", at=1)
    assert len(list((tmp_path / "t" / "_refs" / "lancewood" / "rows").iterdir())) == 1
    dataset = lance.dataset(uri)
    assert list(dataset.branches.list()) == ["exp"]
    assert list(dataset.tags.list()) == ["v1"]
    dataset.cleanup_old_versions()
    ours = lance.dataset(uri).checkout_version(("exp", None))
    ours.validate()
    ids = ours.to_table(with_row_id=True)
    assert ids["_rowid"].to_pylist() == [0, 1, exp._snapshot.manifest.next_row_id - 1]
    dataset.branches.delete("exp")
    assert list(lance.dataset(uri).branches.list()) == []
    lance.LanceDataset.drop(uri)
    assert not (tmp_path / "t").exists()
