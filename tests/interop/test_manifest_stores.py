"""Tables behind a manifest store, with real processes and real databases.

DynamoDB is moto's, in one server with S3; there pylance commits and completes through its own
``s3+ddb://``. Names carry the line of the conformance checklist.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import lance
import pyarrow as pa
import pytest
from tests.breadth import daily

import lancewood as lw
from lancewood.external.base import ManifestEntry, ManifestStore, base_by_uri, final_name
from lancewood.external.opening import open_manifest_store
from lancewood.model.ids import Version
from lancewood.testing.wire import Fault, FaultyWire, Request

ROWS = pa.table({"who": ["first"], "n": [0]})
SCRIPT = [sys.executable, "-m", "tests.interop.manifest_writers"]
STEPS = ["_put_first", "_copy", "_point_to", "_delete"]
"""Before which call of a commit a writer dies: after the first step, the second, and so on."""


@pytest.fixture(params=["sqlite", "postgresql"])
def manifests(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The uri of a manifest store for tables on a disk."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/manifests.db"
    return str(request.getfixturevalue("postgresql"))


def test_line_66_what_a_killed_writer_left_is_completed_by_the_next_reader(
    manifests: str, tmp_path: Path
) -> None:
    uri = str(tmp_path / "t.lance")
    options: dict[str, Any] = {"manifest_store": manifests}
    lw.create(uri, ROWS, access=lw.Access(manifest_store=manifests))
    store = open_manifest_store(manifests)
    with subprocess.Popen(
        [*SCRIPT, "mortal", uri, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for number, step in enumerate(STEPS):
            newest = lw.open(uri, access=lw.Access(**options)).version
            print(step, file=process.stdin, flush=True)
            assert int(process.stdout.readline()) == signal.SIGKILL
            landed = number > 0
            left = final_name(_latest(store, uri).path.rpartition("/")[2])
            assert (left is not None) == (step in ("_copy", "_point_to"))
            assert lance.dataset(uri).version == newest + (number > 1)  # at most one behind
            copied = tmp_path / f"copy-{number}"
            shutil.copytree(uri, copied)
            assert lw.open(copied).version == newest + (number > 1)
            assert lance.dataset(str(copied)).version == newest + (number > 1)
            found = lw.open(uri, access=lw.Access(**options))
            assert found.version == newest + landed
            assert found.config.get("writer") == (step if landed else None)
            assert lance.dataset(uri).version == newest + landed
            assert final_name(_latest(store, uri).path.rpartition("/")[2]) is None
            assert found.append(ROWS).version == newest + landed + 1
        process.stdin.close()
    assert [each.version for each in lw.open(uri, access=lw.Access(**options)).versions()] == [
        *range(8, 0, -1)
    ]


def _latest(store: ManifestStore, uri: str) -> ManifestEntry:
    found = store.latest(base_by_uri(uri))
    assert found is not None
    return found


def test_of_what_four_processes_commit_nothing_is_lost(manifests: str, uri: str) -> None:
    options: dict[str, Any] = {"manifest_store": manifests}
    table = lw.create(uri, ROWS, access=lw.Access(manifest_store=manifests))
    made = _finished([_started("settings", uri, 4, options, 4)])
    assert sorted(made) == [*range(2, 2 + 4 * 4)]
    table = table.latest()
    assert [*table.config.values()].count("set") == 4 * 4
    assert lance.dataset(uri).version == table.version


def _started(command: str, *values: object) -> subprocess.Popen[str]:
    given = [str(values[0]), *map(json.dumps, values[1:])]
    return subprocess.Popen(
        [*SCRIPT, command, *given], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _finished(running: list[subprocess.Popen[str]]) -> list[int]:
    """The versions that the processes made."""
    versions = []
    for each in running:
        printed, errors = each.communicate(timeout=200)
        assert each.returncode == 0, errors
        versions += [int(line) for line in printed.split()]
    return versions


class Cloud(NamedTuple):
    """A table in S3, whose versions are in DynamoDB, for both."""

    uri: str
    options: dict[str, str]
    table: str

    @property
    def ours(self) -> dict[str, Any]:
        return {"storage_options": self.options, "manifest_store": f"dynamodb://{self.table}"}

    @property
    def theirs(self) -> str:
        return f"s3+ddb{self.uri.removeprefix('s3')}?ddbTableName={self.table}"

    def by_pylance(self, **more: Any) -> lance.LanceDataset:
        return lance.dataset(self.theirs, storage_options=self.options, **more)


@pytest.fixture
def cloud(s3_root: str, s3_options: dict[str, str], s3_endpoint: str, dynamodb_table: str) -> Cloud:
    # pylance names a table in DynamoDB by its path in the bucket, and every test has the same one.
    unlike_others = s3_root.partition("://")[2].partition("/")[0]
    options = {**s3_options, "dynamodb_endpoint": s3_endpoint}
    return Cloud(f"{s3_root}/{unlike_others}.lance", options, dynamodb_table)


@pytest.mark.sliced(4)
@pytest.mark.parametrize("what", ["settings", "rows"])
def test_line_66_pylance_and_ours_commit_through_one_dynamodb(cloud: Cloud, what: str) -> None:
    table, times = lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours)), 3
    others = daily(2, of=4)
    running = [_started("settings", cloud.uri, times, cloud.ours, 4)]
    if what == "rows":
        running += [_started("ours", cloud.uri, times, cloud.ours) for _ in range(others)]
    given = {"storage_options": cloud.options}
    running += [_started("pylance", cloud.theirs, times, given) for _ in range(others)]
    made = _finished(running)
    assert sorted(made) == [*range(2, 2 + len(made))]
    table = table.latest()
    assert table.version == 1 + len(made)
    assert [*table.config.values()].count("set") == 4 * times
    rows = [(each["who"], each["n"]) for each in table.to_arrow().to_pylist()]
    counts = Counter(who for who, _ in rows)
    assert counts.pop("first") == 1
    assert [*counts.values()] == [times] * (2 * others if what == "rows" else others)
    assert len(rows) == len(set(rows))
    cloud.by_pylance().validate()
    assert cloud.by_pylance().version == table.version
    plain = lance.dataset(cloud.uri, storage_options=_without_endpoint(cloud.options))
    assert plain.count_rows() == table.count_rows()


def _without_endpoint(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != "dynamodb_endpoint"}


class Death:
    """Kills a process when its commit sends the request after a step."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.pid = 0
        self._entries = 0

    def __call__(self, request: Request) -> Fault | None:
        target = request.headers.get("x-amz-target", "")
        is_copy = "x-amz-copy-source" in request.headers
        self._entries += target.endswith("PutItem")
        is_last = request.method in ("DELETE", "POST") and not target
        reached = {
            "_put_first": self._entries == 1,
            "_copy": is_copy,
            "_point_to": self._entries == 2,
            "_delete": is_last and self._entries == 2,
        }
        if not reached[self.step]:
            return None
        os.kill(self.pid, signal.SIGKILL)
        return "reset"


@pytest.fixture
def wire(s3_endpoint: str) -> Iterator[FaultyWire]:
    with FaultyWire(s3_endpoint) as found:
        yield found


@pytest.mark.sliced(8)
@pytest.mark.parametrize(
    ("step", "writer", "reader"), [*product(STEPS, ["setting", "pylance"], ["ours", "pylance"])]
)
def test_line_66_what_a_killed_writer_left_in_dynamodb_is_completed_by_both(
    cloud: Cloud, wire: FaultyWire, writer: str, reader: str, step: str
) -> None:
    lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours))
    death = Death(step)
    hurt = {**cloud.options, "aws_endpoint": wire.endpoint, "dynamodb_endpoint": wire.endpoint}
    through = cloud._replace(options=hurt)
    given = {"storage_options": hurt} if writer == "pylance" else through.ours
    where = cloud.theirs if writer == "pylance" else cloud.uri
    with _started(writer, where, 1, given) as process:
        death.pid = process.pid
        wire.play(death)
        assert process.wait(100) == -signal.SIGKILL
    landed = step != "_put_first"
    plain = lance.dataset(cloud.uri, storage_options=_without_endpoint(cloud.options))
    assert plain.version == 1 + (step in ("_point_to", "_delete"))
    found = (
        lw.open(cloud.uri, access=lw.Access(**cloud.ours))
        if reader == "ours"
        else cloud.by_pylance()
    )
    assert found.version == 1 + landed
    plain = lance.dataset(cloud.uri, storage_options=_without_endpoint(cloud.options))
    assert plain.version == 1 + landed
    assert _entry(cloud, 1 + landed).path.endswith(".manifest")
    assert lw.open(cloud.uri, access=lw.Access(**cloud.ours)).append(ROWS).version == 2 + landed
    lance.write_dataset(ROWS, cloud.theirs, mode="append", storage_options=cloud.options)
    after = lw.open(cloud.uri, access=lw.Access(**cloud.ours))
    assert (after.version, after.count_rows()) == (3 + landed, 3 + (landed and writer == "pylance"))


def _entry(cloud: Cloud, version: int) -> ManifestEntry:
    manifests = open_manifest_store(f"dynamodb://{cloud.table}", cloud.options)
    found = manifests.get(cloud.uri.partition("://")[2].partition("/")[2], Version(version))
    assert found is not None
    return found


def test_what_both_write_to_dynamodb_looks_the_same(cloud: Cloud) -> None:
    table = lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours))
    lance.write_dataset(ROWS, cloud.theirs, mode="append", storage_options=cloud.options)
    ours, theirs = _entry(cloud, 1), _entry(cloud, 2)
    base = cloud.uri.partition("://")[2].partition("/")[2]
    assert ours.path == f"{base}/_versions/{2**64 - 2:020d}.manifest"
    assert theirs.path == f"{base}/_versions/{2**64 - 3:020d}.manifest"
    store = table._snapshot.location.store
    for each in (ours, theirs):
        assert each.size == store.head(f"_versions/{each.path.rpartition('/')[2]}").size


def test_branches_of_both_are_committed_through_dynamodb(cloud: Cloud) -> None:
    table = lw.open(
        lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours)).uri,
        access=lw.Access(**cloud.ours),
    )
    table.branches.create("mine")
    cloud.by_pylance().create_branch("theirs")
    for name in ("mine", "theirs"):
        ours = lw.open(f"{cloud.uri}@{name}", access=lw.Access(**cloud.ours)).append(ROWS)
        branch = cloud.by_pylance().checkout_version((name, None))
        done = lance.write_dataset(ROWS, branch, mode="append", storage_options=cloud.options)
        assert done.version == ours.version + 1
        assert ours.latest().count_rows() == done.count_rows() == 3
        directly = lw.open(f"{cloud.uri}/tree/{name}", access=lw.Access(**cloud.ours))
        assert directly.branches.list().keys() == {"mine", "theirs"}
    assert table.latest().count_rows() == 1


def test_a_table_is_opened_by_pylances_uri(cloud: Cloud) -> None:
    lance.write_dataset(ROWS, cloud.theirs, storage_options=cloud.options)
    assert lw.exists(cloud.theirs, access=lw.Access(storage_options=cloud.options))
    table = lw.open(cloud.theirs, access=lw.Access(storage_options=cloud.options)).append(ROWS)
    assert table.uri == cloud.uri
    assert cloud.by_pylance().count_rows() == 2
    cloud.by_pylance().create_branch("exp")
    assert (
        lw.open(
            cloud.theirs, branch="exp", access=lw.Access(storage_options=cloud.options)
        ).count_rows()
        == 2
    )
    with pytest.raises(lw.InvalidInputError, match="names one table"):
        lw.open(
            cloud.theirs.replace("ddbTableName", "name"),
            access=lw.Access(storage_options=cloud.options),
        )
    lw.drop(cloud.theirs, force=True, access=lw.Access(storage_options=cloud.options))
    assert not lw.exists(cloud.theirs, access=lw.Access(storage_options=cloud.options))
    made = lance.write_dataset(ROWS, cloud.theirs, storage_options=cloud.options)
    assert made.version == 1


def test_a_table_that_pylance_dropped_is_made_again_once_it_is_forgotten(cloud: Cloud) -> None:
    lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours)).append(ROWS)
    lance.LanceDataset.drop(cloud.theirs, storage_options=cloud.options)
    with pytest.raises(lw.IntegrityError, match="the manifest store knows version 2"):
        lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours))
    with pytest.raises(lw.IntegrityError, match="is not there"):
        lw.open(cloud.uri, access=lw.Access(**cloud.ours))
    lw.drop(cloud.uri, access=lw.Access(**cloud.ours))
    assert not lw.exists(cloud.uri, access=lw.Access(**cloud.ours))
    assert lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours)).version == 1


def test_what_pylance_cleaned_up_is_not_found_and_nothing_else_fails(cloud: Cloud) -> None:
    table = lw.create(cloud.uri, ROWS, access=lw.Access(**cloud.ours)).append(ROWS).append(ROWS)
    cloud.by_pylance().cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert [each.version for each in table.versions()] == [3]
    with pytest.raises(lw.NotFoundError, match="version 1 of"):
        lw.open(cloud.uri, version=1, access=lw.Access(**cloud.ours))
    assert table.append(ROWS).version == 4
    assert table.latest().verify().ok


def test_a_store_that_ignores_put_if_absent_is_committed_to_through_a_manifest_store(
    wire: FaultyWire, s3_root: str, s3_options: dict[str, str], tmp_path: Path
) -> None:
    wire.play(lambda request: "careless")
    options = {**s3_options, "aws_endpoint": wire.endpoint}
    with pytest.raises(lw.UnsupportedError, match="does not honour put-if-absent"):
        lw.create(s3_root, ROWS, access=lw.Access(storage_options=options))
    given: dict[str, Any] = {
        "storage_options": options,
        "manifest_store": f"sqlite://{tmp_path}/manifests.db",
    }
    table = lw.create(s3_root, ROWS, access=lw.Access(**given))

    def append(number: int) -> int:
        return table.append(pa.table({"who": [str(number)], "n": [number]})).version

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(append, range(8))) == [*range(2, 10)]
    assert lance.dataset(s3_root, storage_options=s3_options).count_rows() == 9
