"""What cleanup removes, what it leaves, and what stops it."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from tests.manifests import (
    decode_fragments,
    edit_manifest,
    manifest_path,
    put_fragments,
)

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.engine.commit.publish import Detached
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.descent import manifest_names
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.versions.refs import TableRefs
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR, encode_branch, encode_tag
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep import retention
from lancewood.jobs.upkeep.cleanup import (
    CleanupReport,
    ReadingTask,
    clean_up,
    names_in,
    owner_of,
    read_manifests,
)
from lancewood.jobs.upkeep.retention import Retention, sort_versions
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, Tag, TagName
from lancewood.model.transaction import Transaction, UpdateConfig
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"a": [1, 2, 3]})
DAYS = timedelta(days=1)
T = TypeVar("T")
R = TypeVar("R")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Versions 1 to 5; from 3 on, the rows of 1 and 2 are gone."""
    location = str(tmp_path / "t.lance")
    table = lw.create(location, ROWS, access=lw.Access(fsync=False))
    table.append(ROWS).overwrite(ROWS).append(ROWS).append(ROWS)
    return location


def files(uri: str) -> set[str]:
    return {str(each.relative_to(uri)) for each in Path(uri).rglob("*") if each.is_file()}


def versions(uri: str) -> list[int]:
    return sorted(each.version for each in lw.open(uri).versions())


def age(path: Path, span: timedelta) -> None:
    moment = time.time() - span.total_seconds()
    os.utime(path, (moment, moment))


def all_read(uri: str) -> None:
    for each in versions(uri):
        lw.open(uri, version=each).to_arrow()


def backdate(uri: str, version: int, span: timedelta) -> None:
    """Make a manifest say that it is older; its file stays young."""
    path = manifest_path(uri, version)
    found = decode_manifest_file(path.read_bytes(), name=path.name)
    found.message.timestamp.FromDatetime(datetime.now(UTC) - span)
    path.write_bytes(
        encode_manifest_file(
            found.message,
            index_section=found.index_section,
            transaction_section=found.transaction_section,
        )
    )


def tag(uri: str, name: str, version: int, branch: str | None = None) -> None:
    made = Tag(
        name=TagName(name),
        branch=None if branch is None else BranchName(branch),
        version=Version(version),
        manifest_size=1,
    )
    DiskStore(uri).put(f"{TAGS_DIR}/{name}.json", encode_tag(made))


def branch(uri: str, name: str, version: int, manifest: bytes | None = None) -> None:
    """A branch as far as cleanup looks at it: a ref, and a manifest that names files of main."""
    made = Branch(
        name=BranchName.found(name),
        parent_branch=None,
        parent_version=Version(version),
        created_at_seconds=1,
        manifest_size=1,
    )
    store = DiskStore(uri)
    key = manifest_key(Version(version), NamingScheme.V2)
    store.put(f"tree/{name}/{key}", store.get(key) if manifest is None else manifest)
    store.put(f"{BRANCHES_DIR}/{name.replace('/', '%2F')}.json", encode_branch(made))


# What goes


def test_without_a_rule_no_version_goes(uri: str) -> None:
    before = files(uri)
    report = lw.open(uri).cleanup()
    assert report.versions == ()
    assert report.manifests == 0
    assert report.bytes == 0
    assert files(uri) == before


def test_all_but_the_newest_versions_go_with_what_only_they_need(uri: str) -> None:
    before = files(uri)
    sizes = {each: (Path(uri) / each).stat().st_size for each in before}
    report = lw.open(uri).cleanup(keep_versions=2)
    assert report.versions == (1, 2, 3)
    assert report.manifests == 3
    assert (report.data_files, report.transactions) == (2, 3)
    gone = before - files(uri)
    assert sum(sizes[each] for each in gone) == report.bytes
    assert len(gone) == 3 + 2 + 3
    assert versions(uri) == [4, 5]
    all_read(uri)
    assert lw.open(uri).count_rows() == 9


def test_a_dry_run_says_the_same_and_removes_nothing(uri: str) -> None:
    before = files(uri)
    told = lw.open(uri).cleanup(keep_versions=1, dry_run=True)
    assert told.dry_run
    assert files(uri) == before
    done = lw.open(uri).cleanup(keep_versions=1)
    assert not done.dry_run
    assert told == CleanupReport(**{**_fields(done), "dry_run": True})


def _fields(report: CleanupReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__dataclass_fields__}


def test_the_age_is_what_the_manifest_says(uri: str) -> None:
    backdate(uri, 1, 10 * DAYS)
    backdate(uri, 2, 3 * DAYS)
    assert lw.open(uri).cleanup(older_than=5 * DAYS).versions == (1,)
    assert versions(uri) == [2, 3, 4, 5]
    all_read(uri)


def test_an_old_file_settles_the_age_without_being_opened(uri: str) -> None:
    path = manifest_path(uri, 1)
    path.write_bytes(b"never read")
    age(path, 30 * DAYS)
    report = lw.open(uri).cleanup(older_than=20 * DAYS)
    assert report.versions == (1,)
    assert versions(uri) == [2, 3, 4, 5]


def test_a_manifest_that_does_not_tell_its_age_stays_while_its_file_is_young(uri: str) -> None:
    path = manifest_path(uri, 1)
    found = decode_manifest_file(path.read_bytes(), name="x")
    found.message.ClearField("timestamp")
    path.write_bytes(
        encode_manifest_file(found.message, index_section=None, transaction_section=None)
    )
    assert lw.open(uri).cleanup(older_than=timedelta(0)).versions == (2, 3, 4)


def test_both_rules_must_allow_it(uri: str) -> None:
    for version in (1, 2, 3, 4):
        backdate(uri, version, 10 * DAYS)
    assert lw.open(uri).cleanup(older_than=5 * DAYS, keep_versions=3).versions == (1, 2)


def test_files_of_failed_writers_go_when_they_are_old_enough(uri: str) -> None:
    store = DiskStore(uri)
    uuid = "01234567-89ab-cdef-0123-456789abcdef"
    left = [
        "data/" + "0" * 24 + "a" * 26 + ".lance",
        "data/" + "0" * 24 + "a" * 26 + "/" + "01" * 16 + ".blob",
        "data/.tmpQJNF2K",
        "_deletions/0-3-77.arrow",
        "_deletions/0-3-78.bin",
        f"_transactions/3-{uuid}.txn",
        f"_indices/{uuid}/page_data.lance",
        f"_indices/{uuid}/part/docs.lance",
    ]
    for each in left:
        store.put(each, b"12345")
    report = lw.open(uri).cleanup()
    assert report.in_flight == len(left)
    assert set(left) <= files(uri)
    for each in left:
        age(Path(uri) / each, 8 * DAYS)
    report = lw.open(uri).cleanup()
    assert not set(left) & files(uri)
    assert (report.data_files, report.deletion_files) == (3, 2)
    assert (report.transactions, report.index_files, report.bytes) == (1, 2, 40)
    assert report.in_flight == 0
    assert not (Path(uri) / "_indices" / uuid).exists()
    all_read(uri)


def test_the_window_of_writers_at_work_can_be_told(uri: str) -> None:
    key = "data/" + "1" * 24 + "b" * 26 + ".lance"
    DiskStore(uri).put(key, b"1")
    age(Path(uri) / key, timedelta(hours=2))
    assert lw.open(uri).cleanup(in_flight=timedelta(hours=3)).data_files == 0
    assert lw.open(uri).cleanup(in_flight=timedelta(hours=1)).data_files == 1


def test_names_that_the_format_does_not_make_are_never_touched(uri: str) -> None:
    store = DiskStore(uri)
    foreign = [
        "notes.txt",
        "data/readme.md",
        "data/.tmp-notes",
        "data/sub/x.lance",
        "_deletions/mine.arrow",
        "_transactions/x.txn",
        "_indices/readme",
        "_indices/not-a-uuid/file",
        "_versions/latest_version_hint.json",
        "_versions/junk.manifest",
        "_versions/18446744073709551614.manifest-staged",
        "other/data/" + "0" * 24 + "a" * 26 + ".lance",
        "tree/x/data/" + "0" * 24 + "a" * 26 + ".lance",
    ]
    for each in foreign:
        store.put(each, b"1")
        age(Path(uri) / each, 100 * DAYS)
    lw.open(uri).cleanup(keep_versions=1)
    assert set(foreign) <= files(uri)


# What stays


def test_the_version_of_the_handle_stays(uri: str) -> None:
    report = lw.open(uri, version=2).cleanup(keep_versions=1)
    assert report.versions == (1, 3, 4)
    assert [(each.version, each.why) for each in report.kept] == [(2, "this handle is on it")]
    all_read(uri)


def test_versions_stay_while_a_commit_may_be_under_way_to_their_numbers(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "COMMITTING", timedelta(minutes=10))
    old = time.time() - 11 * 60
    for version in (1, 2):
        os.utime(manifest_path(uri, version), (old, old))
    table = lw.open(uri)
    report = table.cleanup(keep_versions=1)
    assert report.versions == (1, 2)
    assert {each.version for each in report.kept} == {3, 4}
    assert "under way" in report.kept[0].why
    assert table.cleanup(older_than=timedelta(hours=1)).kept == ()
    assert table.cleanup(keep_versions=1, in_flight=timedelta(0)).versions == (3, 4)


def test_protected_versions_stay(uri: str) -> None:
    report = lw.open(uri).cleanup(keep_versions=1, protect=[1, 3, 99])
    assert report.versions == (2, 4)
    assert [each.version for each in report.kept] == [1, 3]
    all_read(uri)


def test_tagged_versions_stay_until_the_tag_is_gone(uri: str) -> None:
    tag(uri, "first", 1)
    tag(uri, "elsewhere", 2, "some-branch")
    report = lw.open(uri).cleanup(keep_versions=1)
    assert versions(uri) == [1, 5]
    assert [(each.version, each.why) for each in report.kept] == [(1, "tag first")]
    all_read(uri)
    (Path(uri) / TAGS_DIR / "first.json").unlink()
    report = lw.open(uri).cleanup(keep_versions=1)
    assert report.versions == (1,)
    assert report.data_files == 1


def test_what_a_branch_needs_stays_with_and_without_its_ref(uri: str) -> None:
    branch(uri, "exp", 2)
    report = lw.open(uri).cleanup(keep_versions=1)
    assert versions(uri) == [2, 5]
    assert [each.why for each in report.kept] == ["branch exp begins there"]
    (Path(uri) / BRANCHES_DIR / "exp.json").unlink()
    report = lw.open(uri).cleanup(keep_versions=1)
    assert report.versions == (2,)
    assert report.data_files == 0
    manifest = next((Path(uri) / "tree/exp/_versions").iterdir())
    for name in names_in(decode_manifest_file(manifest.read_bytes(), name="x")):
        if name.startswith("data/"):
            assert (Path(uri) / f"{name}.lance").exists()


def test_detached_versions_stay_with_their_files(uri: str) -> None:
    old = lw.open(uri, version=2)._snapshot
    change = Transaction.new(Version(2), UpdateConfig())
    made = old.commit(change, CommitPolicy(publisher=Detached())).manifest.version
    report = lw.open(uri).cleanup(keep_versions=1, in_flight=timedelta(0))
    assert report.versions == (1, 2, 3, 4)
    assert report.detached == 1
    assert lw.open(uri, version=made).count_rows() == 6


def test_lineage_in_a_file_of_its_own_stays(uri: str) -> None:
    key = "data/" + "1" * 24 + "c" * 26 + ".lance"
    DiskStore(uri).put(key, b"1234")
    age(Path(uri) / key, 100 * DAYS)

    def name_it(message: Any) -> None:
        fragments = decode_fragments(message)
        fragments[0].external_row_ids.path = key
        fragments[0].external_row_ids.size = 4
        put_fragments(message, fragments)

    edit_manifest(uri, name_it)
    lw.open(uri).cleanup(keep_versions=1)
    assert key in files(uri)


def test_a_branch_below_a_branch_is_not_taken_for_its_files(uri: str) -> None:
    """Branch ``p/_indices/<uuid>`` lives where an index of branch ``p`` would."""
    odd = "p/_indices/01234567-89ab-cdef-0123-456789abcdef"
    first = decode_manifest_file(manifest_path(uri, 5).read_bytes(), name="x")
    first.message.branch = "p"
    data = encode_manifest_file(first.message, index_section=None, transaction_section=None)
    branch(uri, "p", 5, data)
    branch(uri, odd, 5)
    for each in Path(uri, "tree", odd).rglob("*.manifest"):
        age(each, 100 * DAYS)
    before = files(uri)
    report = lw.open(f"{uri}/tree/p").cleanup(keep_versions=1)
    assert report.index_files == 0
    assert files(uri) == before


class Meddling(LocalRunner):
    """Lets something happen between two steps."""

    def __init__(self, when: str, happens: Callable[[], object]) -> None:
        super().__init__(1)
        self._when, self._happens = when, happens

    def run(
        self,
        work: Callable[[T], R],
        tasks: Sequence[T],
        *,
        what: str,
        leftover: Callable[[R], object] | None = None,
    ) -> Iterator[R]:
        yield from super().run(work, tasks, what=what)
        if what == self._when:
            self._happens()


def test_a_tag_made_while_manifests_are_read_keeps_its_version(uri: str) -> None:
    runner = Meddling("reading manifests", lambda: tag(uri, "late", 1))
    report = lw.open(uri).cleanup(keep_versions=1, runner=runner)
    assert report.versions == (2, 3, 4)
    assert versions(uri) == [1, 5]
    all_read(uri)


def test_a_version_restored_while_manifests_go_keeps_its_files(uri: str) -> None:
    old = manifest_path(uri, 1).read_bytes()

    def restore() -> None:
        found = decode_manifest_file(old, name="x")
        found.message.version = 6
        data = encode_manifest_file(found.message, index_section=None, transaction_section=None)
        manifest_path(uri, 6).write_bytes(data)

    runner = Meddling("removing versions", restore)
    report = lw.open(uri).cleanup(keep_versions=1, runner=runner)
    assert report.versions == (1, 2, 3, 4)
    assert lw.open(uri).version == 6
    assert lw.open(uri).to_arrow() == ROWS


def test_candidates_are_listed_before_refs_and_manifests_are_read(uri: str) -> None:
    table = lw.open(uri)
    store = FaultyStore(DiskStore(uri))
    snapshot = Snapshot(Location(store), table._snapshot.manifest, table._snapshot.scheme)
    lw.Table(snapshot).cleanup(keep_versions=1, runner=LocalRunner(1))
    assert store.calls[0] == ("names", TAGS_DIR)  # does the table belong to a repository?
    calls = store.calls[1:]
    listed = [n for n, (verb, key) in enumerate(calls) if verb == "list" and key != "tree"]
    asked = [n for n, (verb, key) in enumerate(calls) if verb in ("get", "names")]
    removed = [n for n, (verb, _) in enumerate(calls) if verb == "delete"]
    assert len(listed) == 5
    assert max(listed) < min(asked)
    assert max(asked) < max(removed)
    assert [key.split("/")[0] for _, key in (calls[n] for n in removed)] == [
        "_transactions",  # what told the time
        "_versions",
        "_refs",
        "_transactions",
    ]


# What stops it


def stopped(uri: str, match: str, error: type[Exception] = lw.FormatError) -> None:
    before = files(uri)
    with pytest.raises(error, match=match):
        lw.open(uri).cleanup(keep_versions=1)
    assert files(uri) == before


def test_a_tag_that_cannot_be_read_stops_it(uri: str) -> None:
    DiskStore(uri).put(f"{TAGS_DIR}/bad.json", b"{")
    stopped(uri, r"bad\.json")


def test_a_branch_that_cannot_be_read_stops_it(uri: str) -> None:
    branch(uri, "exp", 2)
    (Path(uri) / BRANCHES_DIR / "exp.json").write_bytes(b"[]")
    stopped(uri, r"exp\.json")


def test_a_manifest_of_a_branch_that_cannot_be_read_stops_it(uri: str) -> None:
    branch(uri, "exp", 2, b"")
    stopped(uri, r"tree/exp/.*too few.*repair")


def test_a_branch_without_any_version_stops_it(uri: str) -> None:
    branch(uri, "exp", 2)
    next((Path(uri) / "tree/exp/_versions").iterdir()).unlink()
    stopped(uri, "exp holds no version")


def test_a_manifest_that_cannot_be_read_stops_it(uri: str) -> None:
    manifest_path(uri, 2).write_bytes(b"LANC")
    stopped(uri, "nothing may go")


def test_a_flag_that_nobody_here_knows_stops_it(uri: str) -> None:
    def raise_flag(message: Any) -> None:
        message.writer_feature_flags |= 1 << 40

    edit_manifest(uri, raise_flag)
    stopped(uri, "writer flags", lw.UnsupportedError)


def test_a_name_that_leaves_its_directory_stops_it(uri: str) -> None:
    def lead_astray(message: Any) -> None:
        fragments = decode_fragments(message)
        fragments[0].files[0].path = "../x.lance"
        put_fragments(message, fragments)

    edit_manifest(uri, lead_astray)
    stopped(uri, "bare file name")


@pytest.mark.parametrize(
    "wish",
    [
        {"older_than": 5},
        {"older_than": timedelta(-1)},
        {"keep_versions": 0},
        {"keep_versions": True},
        {"protect": "12"},
        {"protect": [1.5]},
        {"in_flight": timedelta(-1)},
    ],
)
def test_wishes_that_are_none_are_refused(uri: str, wish: dict[str, Any]) -> None:
    with pytest.raises(lw.InvalidInputError):
        lw.open(uri).cleanup(**wish)


def test_a_branch_out_of_its_place_is_refused(uri: str, tmp_path: Path) -> None:
    def name_branch(message: Any) -> None:
        message.branch = "exp"

    edit_manifest(uri, name_branch)
    with pytest.raises(lw.InvalidInputError, match="tree/exp"):
        lw.open(uri).cleanup(keep_versions=1)


# The parts


def test_tasks_find_together_what_the_versions_name_one_by_one(tmp_path: Path) -> None:
    table = lw.create(
        tmp_path / "t", pa.table({"a": range(20)}), layout=lw.Layout(max_rows_per_file=5)
    )
    for step in range(6):
        table = table.delete(f"a = {step * 3}").append(ROWS)
    store = DiskStore(tmp_path / "t")
    names = sorted(manifest_names(store))
    single = {
        name: names_in(decode_manifest_file(store.get(f"_versions/{name}"), name=name))
        for name in names
    }
    may_go = frozenset(names[1::2])
    task = ReadingTask(store, tuple(names[1:]), names[0], may_go)
    found = read_manifests(pickle.loads(pickle.dumps(task)))
    kept = frozenset().union(*(single[each] for each in names[2::2]))
    gone = frozenset().union(*(single[each] for each in names[1::2]))
    assert kept - single[names[0]] <= found.needed <= kept
    assert gone - single[names[0]] <= found.garbage <= gone
    assert set(found.expired) == may_go


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        ("data/x.lance", "data/x"),
        (f"data/x/{'0' * 32}.blob", "data/x"),
        ("data/x", None),
        ("data/a/b.lance", None),
        ("_deletions/1-2-3.bin", "_deletions/1-2-3.bin"),
        ("_deletions/1-2-3.txt", None),
        ("_versions/1.manifest", None),
        ("_refs/tags/x.json", None),
        ("tree/x/data/x.lance", None),
    ],
)
def test_every_file_has_an_owner_or_is_not_ours(key: str, owner: str | None) -> None:
    assert owner_of(key) == owner


def test_descent_holds_the_versions_it_passes_through() -> None:
    def made(name: str, *way: tuple[int, str], parent: str | None = None) -> Branch:
        return Branch(
            name=BranchName(name),
            parent_branch=None if parent is None else BranchName(parent),
            parent_version=Version(way[-1][0]),
            created_at_seconds=1,
            manifest_size=1,
            identifier=tuple(BranchPoint(Version(v), u) for v, u in way),
        )

    refs = TableRefs(
        (),
        (
            made("a", (3, "x")),
            made("b", (3, "x"), (5, "y"), parent="a"),
            made("c", (7, "gone"), (9, "z"), parent="lost"),
        ),
    )
    assert refs.held(None).keys() == {3, 7}
    assert refs.held(BranchName("a")).keys() == {5}
    assert refs.held(BranchName("b")).keys() == set()
    assert refs.held(BranchName("lost")).keys() == {9}


def test_a_span_longer_than_time_keeps_everything() -> None:
    wish = Retention.checked(timedelta.max, 1, (), timedelta.max)
    now = datetime.now(UTC)
    found = sort_versions(wish, {Version(1): now}, {}, [Version(1), Version(2)], now)
    assert found.gone == frozenset()
    assert found.may_go == {1}
    assert wish.cutoff(now) == datetime.min.replace(tzinfo=UTC)


def test_progress_is_told(uri: str) -> None:
    told = set()
    runner = LocalRunner(2, lambda what, done, total: told.add(what))
    lw.open(uri).cleanup(keep_versions=1, runner=runner)
    assert told >= {"reading manifests", "removing versions", "removing files"}


def test_a_table_in_memory_is_cleaned_up() -> None:
    store = MemoryStore()
    table = lw.create(store.uri, ROWS).overwrite(ROWS).overwrite(ROWS)
    later = datetime.now(UTC) + 30 * DAYS
    wish = Retention.checked(None, 1, (), 7 * DAYS)
    report = clean_up(table._snapshot, wish, LocalRunner(), now=later)
    assert report.versions == (1, 2)
    assert report.data_files == 2
    assert table.count_rows() == 3


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


def test_a_handle_on_a_branch_that_is_gone_removes_nothing(uri: str) -> None:
    table = lw.open(uri)
    branch = table.branches.create("exp").append(ROWS)
    table.branches.rename("exp", "new")
    before = files(uri)
    with pytest.raises(lw.NotFoundError, match="nothing was removed"):
        branch.cleanup(keep_versions=1)
    assert files(uri) == before


def test_what_is_old_is_told_by_the_clock_of_the_store(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a writer at work, and a cleaner whose clock is a month ahead."""

    class Ahead:
        @staticmethod
        def now(tz: Any = None) -> datetime:
            return datetime.now(tz) + 30 * DAYS

    lw.open(uri).write_fragments(ROWS)
    before = files(uri)
    monkeypatch.setattr("lancewood.jobs.upkeep.cleanup.datetime", Ahead)
    report = lw.open(uri).cleanup()
    assert (report.data_files, report.in_flight) == (0, 1)
    assert files(uri) == before
