"""What was decided about a merge is kept under a ref: for git, for gc, for all who decide."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from tests.interop.git_judge import ADA, git
from tests.repo.locations import every_day, everywhere
from tests.repo.scene import ONE, TWO, Scene

from lancewood.errors import FormatError, InvalidInputError
from lancewood.git.names import checked_ref
from lancewood.git.objects import FILE, LINK, TREE, TreeEntry
from lancewood.git.values import Hash, Signature
from lancewood.jobs.merge.decisions import Decision
from lancewood.repo.context import RepoContext
from lancewood.repo.decisions import (
    MERGES,
    add_decision,
    decisions_ref,
    forget_decisions,
    list_decisions,
)
from lancewood.repo.fsck import FaultKind
from lancewood.repo.repository import Repository

OURS, THEIRS = Decision({"rows": "ours"}), Decision({"deletes": "win"})
REF = f"{MERGES}main/exp"
BOB = Signature("Bob", "bob@example.org", ADA.seconds + 60, 0)


def context_of(repo: Repository) -> RepoContext:
    return repo._context


@pytest.fixture
def context(scene: Scene) -> RepoContext:
    """Two tables, and more rows on each of main and exp."""
    scene.repo.branches.create("exp")
    scene.both(4)
    scene.both(5, branch="exp")
    return context_of(scene.repo)


def decide(
    context: RepoContext,
    decision: Decision = OURS,
    *,
    table: str = ONE,
    into: str = "main",
    name: str = "exp",
    author: Signature = ADA,
) -> Hash:
    return add_decision(context, into, name, table, decision, author=author)


@everywhere
@every_day
def test_decisions_are_kept_in_order_each_as_a_commit_of_who_decided(
    scene: Scene, context: RepoContext
) -> None:
    ours, theirs = context.tip("main"), context.tip("exp")
    assert list_decisions(context, "main", "exp") == {}
    first = decide(context)
    second = decide(context, THEIRS, author=BOB)
    third = decide(context, table=TWO)
    again = context_of(scene.again())
    assert list_decisions(again, "main", "exp") == {ONE: (OURS, THEIRS), TWO: (OURS,)}
    commits = [context.git.objects.commit(each) for each in (first, second, third)]
    assert [each.parents for each in commits] == [(ours, theirs), (first,), (second,)]
    assert [each.author.name for each in commits] == ["Ada Lovelace", "Bob", "Ada Lovelace"]
    assert [each.new for each in scene.repo.reflog(REF)] == [third, second, first]
    assert scene.repo.fsck(deep=True).is_ok
    assert forget_decisions(again, "main", "exp", by=ADA)
    assert not forget_decisions(again, "main", "exp", by=ADA)
    assert list_decisions(again, "main", "exp") == {}


def test_stock_git_shows_what_was_decided(scene: Scene, context: RepoContext) -> None:
    decide(context)
    decide(context, THEIRS, author=BOB)
    shown = git(scene.path, "log", "--first-parent", "-2", "--format=%an: %s", REF).splitlines()
    assert shown == [f"Bob: {ONE}: deletes=win", f"Ada Lovelace: {ONE}: rows=ours"]
    listed = git(scene.path, "ls-tree", "-r", "--name-only", REF).splitlines()
    assert listed == [f"decisions/{ONE}/0001.json", f"decisions/{ONE}/0002.json"]
    assert '"deletes": "win"' in git(scene.path, "show", f"{REF}:{listed[1]}")
    git(scene.path, "fsck", "--strict", "--no-progress")
    git(scene.path, "gc", "-q", "--prune=now")
    assert list_decisions(context_of(scene.again()), "main", "exp") == {ONE: (OURS, THEIRS)}


def test_stock_git_reads_a_history_that_was_merged_with_decisions(scene: Scene) -> None:
    repo = scene.repo
    repo.branches.create("exp")
    repo.branches.create("next")
    for branch, value in (("main", 10), ("exp", 20), ("next", 30)):
        with repo.transaction(branch, f"on {branch}") as changes:
            changes.table(ONE).update({"id": str(value)}, "id = 1")
    repo.resolve("exp", ONE, "theirs", where="base.id = 1", author="Bob <bob@example.org>")
    repo.resolve("next", ONE, {"id": "ours.id + theirs.id"}, author="Ada <ada@example.org>")
    shown = git(scene.path, "show", "--format=%an: %s", REF)
    assert shown.startswith(f"Bob: {ONE}: 1 conflict decided\n")
    assert '+      "take": "theirs"' in shown
    git(scene.path, "fsck", "--strict", "--no-progress")
    repo.merge("exp")
    assert git(scene.path, "for-each-ref", "--format=%(refname)", MERGES).split() == [
        f"{MERGES}main/next"
    ]
    repo.merge("next")
    git(scene.path, "fsck", "--strict", "--no-progress")
    graph = git(scene.path, "log", "--graph", "--format=%s", "main").splitlines()
    assert graph[0] == "*   Merge branch 'next'"
    assert sum("on " in each for each in graph) == 3
    found = scene.dataset()
    found.validate()
    assert sorted(found.to_table()["id"].to_pylist()) == [2, 3, 50]
    git(scene.path, "gc", "-q", "--prune=now")
    assert scene.repo.fsck(deep=True).is_ok


def test_what_has_moved_since_the_decision_before_is_a_parent_too(
    scene: Scene, context: RepoContext
) -> None:
    first = decide(context)
    scene.both(6, branch="exp")
    second = decide(context)
    theirs = context.tip("exp")
    assert context.git.objects.commit(second).parents == (first, theirs)
    third = decide(context)
    assert context.git.objects.commit(third).parents == (second,)


@everywhere
def test_gc_keeps_what_was_looked_at_while_it_was_decided(
    scene: Scene, context: RepoContext
) -> None:
    theirs = context.tip("exp")
    decide(context)
    scene.repo.reset("main~1", branch="exp")
    if scene.where.is_on_disk:  # its log does not lead there any more
        log = scene.path / "logs/refs/heads/exp"
        log.write_text(log.read_text().splitlines(keepends=True)[-1].replace(str(theirs), "0" * 64))
    assert scene.repo.gc(in_flight=timedelta(0)).states == 0
    assert scene.counts(str(theirs)) == (4, 4)
    assert scene.repo.fsck(deep=True).is_ok
    forget_decisions(context, "main", "exp", by=ADA)
    if scene.where.is_on_disk:
        assert scene.repo.gc(in_flight=timedelta(0)).states == 2


@everywhere
def test_with_a_branch_its_decisions_go(scene: Scene, context: RepoContext) -> None:
    scene.repo.branches.create("a/b", at="exp")
    for into, name in (("main", "exp"), ("exp", "main"), ("main", "a/b"), ("a/b", "exp")):
        decide(context, into=into, name=name)
    scene.repo.branches.delete("a/b", force=True)
    assert [*context.git.refs.names(MERGES)] == [f"{MERGES}exp/main", REF]
    scene.repo.branches.delete("exp", force=True, tables=True)
    assert [*context.git.refs.names(MERGES)] == []


def test_no_two_merges_share_a_ref_and_none_is_in_the_way_of_another(
    context: RepoContext,
) -> None:
    names = ["a", "a/b", "b/c", "c", "a%2Fb", "%", "main~2", "v1^{}", "@{1}", "..", ".x", "a.lock"]
    names += ["ä", "x.", "main:3"]
    refs = [decisions_ref(into, name) for into in names for name in names]
    assert len({*refs}) == len(refs)
    for each in refs:
        assert checked_ref(each) == each
        assert each.removeprefix(MERGES).count("/") == 1
    assert decisions_ref("main", "exp") == REF
    with pytest.raises(InvalidInputError, match="250 is the most"):
        decisions_ref("main", "x" * 300)


@everywhere
def test_those_who_decide_at_once_are_all_heard(scene: Scene, context: RepoContext) -> None:
    number = 6

    def one(at: int) -> Hash:
        mine = context_of(scene.again())
        return decide(mine, Decision({"columns": {f"c{at}": "ours"}}))

    with ThreadPoolExecutor(number) as pool:
        commits = [*pool.map(one, range(number))]
    assert len({*commits}) == number
    found = list_decisions(context, "main", "exp")[ONE]
    assert sorted(each for one in found for each in one.rules["columns"]) == [
        f"c{at}" for at in range(number)
    ]


def test_decisions_are_forgotten_unless_there_are_new_ones(context: RepoContext) -> None:
    first = decide(context)
    second = decide(context, THEIRS)
    assert not forget_decisions(context, "main", "exp", by=ADA, only=first)
    assert list_decisions(context, "main", "exp") == {ONE: (OURS, THEIRS)}
    assert forget_decisions(context, "main", "exp", by=ADA, only=second)


@pytest.mark.parametrize(
    ("at", "data", "mode", "why"),
    [
        (f"decisions/{ONE}/0001.json", b"{", FILE, "is not JSON"),
        (f"decisions/{ONE}/0001.json", b"[]", FILE, "is no JSON object"),
        (f"decisions/{ONE}/0001.json", b'{"rules": {"rows": "mine"}}', FILE, "rows"),
        (f"decisions/{ONE}/0001.json", b'{"new": 1}', FILE, "cannot have 'new'"),
        (f"decisions/{ONE}/0001.json", b"/etc/passwd", LINK, "is no file"),
        (f"decisions/{ONE}/x.json", b"{}", FILE, "is no number"),
        (f"decisions/{ONE}/00001.json", b"{}", FILE, "is no number"),
        (f"decisions/{ONE}", b"{}", FILE, "is no directory"),
        ("decisions/.x/0001.json", b"{}", FILE, "table name '.x'"),
        ("decisions", b"{}", FILE, "is no directory"),
    ],
)
def test_hostile_decisions_are_named_by_commit_and_path(
    scene: Scene, context: RepoContext, at: str, data: bytes, mode: int, why: str
) -> None:
    objects = context.git.objects
    *above, name = at.split("/")
    entry = TreeEntry(mode, objects.put_blob(data))
    for part in reversed([*above, name]):
        tree = objects.put_tree({part: entry})
        entry = TreeEntry(TREE, tree)
    commit = objects.put_commit(tree, (), ADA, "hostile")
    assert context.git.refs.move(REF, None, commit, why="test", by=ADA)
    with pytest.raises(FormatError, match=why) as caught:
        list_decisions(context, "main", "exp")
    assert commit[:12] in caught.value.message
    assert at.startswith(str(caught.value.facts.get("path", at)))
    (problem,) = scene.repo.fsck().problems
    assert (problem.kind, problem.where) == (FaultKind.DECISION, REF)
    scene.repo.gc(in_flight=timedelta(0))
    assert forget_decisions(context, "main", "exp", by=ADA)
    assert scene.repo.fsck().is_ok


def test_a_table_that_cannot_be_is_refused(context: RepoContext) -> None:
    with pytest.raises(InvalidInputError, match="table name"):
        decide(context, table="../x")
    assert context.git.refs.read(REF) is None
