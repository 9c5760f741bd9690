"""From a version to its pin and back: exactly that version, or an error that says what is wrong."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.manifests import edit_manifest, manifest_path
from tests.unit.catalog.world import ROWS, World, append

import lancewood as lw
from lancewood.catalog.opening import open_pin, pin_of, pinned_uri
from lancewood.catalog.pin import Pin, decode_pin, encode_pin
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import load_snapshot
from lancewood.errors import (
    FormatError,
    IntegrityError,
    InvalidInputError,
    NotFoundError,
)
from lancewood.model.ids import is_detached
from lancewood.proto import table_pb2
from lancewood.store.locate import open_store
from lancewood.table.table import Table


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "repo")


def rows(world: World, pin: Pin) -> int:
    return Table(open_pin(pin, world.path)).count_rows()


def test_a_pin_says_what_the_version_is(world: World) -> None:
    world.create("photos")
    lw.open(world.home("photos")).append(ROWS)
    pin = world.standing("photos")
    assert pin.uri == "tables/photos.lance"
    assert (pin.branch, pin.version, pin.landing) == (None, 2, None)
    assert (pin.rows, pin.fragments, pin.schema) == (6, 2, (("a", "int64"),))
    file = world.home("photos") / pin.manifest
    assert file.stat().st_size == pin.size
    assert file == manifest_path(str(world.home("photos")), 2)


def test_a_pin_is_opened_at_exactly_its_version(world: World) -> None:
    first = world.create("photos")
    lw.open(world.home("photos")).append(ROWS)
    second = world.standing("photos")
    lw.open(world.home("photos")).delete("a > 1")
    assert [rows(world, each) for each in (first, second)] == [3, 6]
    assert open_pin(first, world.path).manifest.version == 1


def test_the_pin_of_a_commit_just_made_is_that_of_the_file_read_again(world: World) -> None:
    world.create("photos")
    made = world.head("photos")
    again = Table(made).append(ROWS)._snapshot
    assert pin_of(again, "tables/photos.lance") == world.standing("photos")


def test_a_staged_state_is_opened_by_its_detached_version(world: World) -> None:
    world.create("photos")
    pin = world.staged("photos", append, append)
    assert is_detached(pin.version)
    assert rows(world, decode_pin(encode_pin(pin), "tables/photos.json")) == 9
    assert lw.open(world.home("photos")).count_rows() == 3
    world.land(pin)
    assert rows(world, pin) == 9


def test_a_branch_is_opened_below_its_own_root(world: World) -> None:
    world.create("photos")
    lw.open(world.home("photos")).branches.create("exp").append(ROWS)
    standing, staged = world.standing("photos", "exp"), world.staged("photos", branch="exp")
    assert standing.branch == staged.branch == "exp"
    assert (rows(world, standing), rows(world, staged)) == (6, 9)


def test_a_repository_that_was_copied_opens_its_own_tables(world: World, tmp_path: Path) -> None:
    world.create("photos")
    lw.open(world.home("photos")).branches.create("exp").append(ROWS)
    pins = [world.standing("photos"), world.standing("photos", "exp"), world.staged("photos")]
    copy = tmp_path / "copy"
    shutil.copytree(world.path, copy)
    shutil.rmtree(world.path)
    found = [Table(open_pin(each, copy)) for each in pins]
    assert [each.count_rows() for each in found] == [3, 6, 6]
    assert all(each.uri.startswith(str(copy)) for each in found)


def test_relocating_a_table_does_not_break_old_pins(world: World, tmp_path: Path) -> None:
    world.create("photos")
    lw.open(world.home("photos")).branches.create("exp").append(ROWS)
    pins = [world.standing("photos", "exp"), world.staged("photos", branch="exp")]
    moved = tmp_path / "moved somewhere else"
    shutil.move(world.path, moved)
    lw.relocate(moved / "tables" / "photos.lance", in_flight=timedelta(0))
    assert [Table(open_pin(each, moved)).count_rows() for each in pins] == [6, 9]


def test_migrated_names_do_not_break_old_pins(world: World) -> None:
    world.create("photos")
    table = str(world.home("photos"))
    new = manifest_path(table, 1)
    old = new.with_name("1.manifest")
    new.rename(old)
    pin = world.standing("photos")
    assert pin.manifest == "_versions/1.manifest"
    assert rows(world, pin) == 3
    lw.migrate_names(table)
    assert not old.exists()
    assert rows(world, pin) == 3


def test_a_table_elsewhere_is_opened_by_its_full_uri(world: World, tmp_path: Path) -> None:
    lw.create(tmp_path / "away.lance", ROWS)
    snapshot = load_snapshot(Location(open_store(tmp_path / "away.lance")))
    pin = pin_of(snapshot, pinned_uri(snapshot.location.uri, world.path))
    assert pin.uri == str(tmp_path / "away.lance")
    assert rows(world, pin) == 3


def test_a_table_in_memory_is_opened_by_its_full_uri(world: World) -> None:
    lw.create("memory://opening/t", ROWS)
    snapshot = load_snapshot(Location(open_store("memory://opening/t")))
    pin = pin_of(snapshot, pinned_uri(snapshot.location.uri, world.path))
    assert rows(world, pin) == 3


def test_a_version_that_was_made_again_with_other_rows_is_an_integrity_error(
    world: World,
) -> None:
    pin = world.create("photos")
    lw.drop(world.home("photos"))
    lw.create(world.home("photos"), pa.table({"a": [7]}))
    with pytest.raises(IntegrityError) as caught:
        open_pin(pin, world.path)
    assert f"version 1 of main of {world.home('photos')} is not what the commit" in str(
        caught.value
    )
    assert "commit the table as it stands" in str(caught.value)
    assert caught.value.facts["expected"] == pin.sha256
    assert caught.value.facts["version"] == 1


def test_a_manifest_that_was_changed_is_an_integrity_error(world: World) -> None:
    pin = world.create("photos")

    def change(message: table_pb2.Manifest) -> None:
        message.next_row_id = 99

    edit_manifest(str(world.home("photos")), change)
    with pytest.raises(IntegrityError, match="is not what the commit pins"):
        open_pin(pin, world.path)


def test_a_version_that_is_gone_is_told_with_the_way_out(world: World) -> None:
    pin = world.create("photos")
    lw.open(world.home("photos")).append(ROWS)
    manifest_path(str(world.home("photos")), 1).unlink()
    with pytest.raises(NotFoundError) as caught:
        open_pin(pin, world.path)
    text = str(caught.value)
    assert f"version 1 of main of {world.home('photos')}, which the commit pins, is gone" in text
    assert "Bring its files back from a copy, or use another commit" in text
    assert caught.value.facts["version"] == 1


def test_a_table_that_is_gone_is_told_like_a_version(world: World) -> None:
    pins = [world.create("photos"), world.staged("photos")]
    shutil.rmtree(world.home("photos"))
    for each in pins:
        with pytest.raises(NotFoundError, match="is gone"):
            open_pin(each, world.path)


def test_a_damaged_manifest_is_a_format_error_that_names_it(world: World) -> None:
    pin = world.create("photos")
    file = manifest_path(str(world.home("photos")), 1)
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(FormatError, match=file.name):
        open_pin(pin, world.path)


def test_a_state_whose_manifest_is_gone_is_read_where_it_landed(world: World) -> None:
    world.create("photos")
    pin = world.staged("photos", append, append)
    (version, last) = world.land(pin).versions
    assert (version, last) == (2, 3)
    (world.home("photos") / pin.manifest).unlink()
    found = open_pin(pin, world.path)
    assert found.manifest.version == 3
    assert Table(found).count_rows() == 9


def test_a_state_that_landed_beside_others_is_not_taken_for_its_landing(world: World) -> None:
    world.create("photos")
    pin = world.staged("photos")
    lw.open(world.home("photos")).append(ROWS)
    assert not world.land(pin).is_exact
    assert rows(world, pin) == 6
    (world.home("photos") / pin.manifest).unlink()
    with pytest.raises(NotFoundError, match="is gone"):
        open_pin(pin, world.path)


def test_a_detached_version_needs_its_landing(world: World) -> None:
    world.create("photos")
    detached = open_pin(world.staged("photos"), world.path)
    with pytest.raises(InvalidInputError, match="needs a landing"):
        pin_of(detached, "tables/photos.lance")
