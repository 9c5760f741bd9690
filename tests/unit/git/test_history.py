"""The walk, common ancestors and descent, on histories in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.commits import MemoryCommits, random_parents

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git import history, objects
from lancewood.git.history import is_ancestor, merge_base, merge_bases, reachable, walk
from lancewood.git.objects import Objects
from lancewood.git.values import Hash, Signature


@pytest.fixture
def commits() -> MemoryCommits:
    return MemoryCommits()


def names(commits: MemoryCommits, *tips: str, **options: int) -> list[str]:
    """The names in the order of the walk."""
    found = walk(commits, [commits.hash(each) for each in tips], **options)  # type: ignore[arg-type]
    return [commits.name(each.hash) for each in found]


def line(commits: MemoryCommits, count: int, *, over: str | None = None, prefix: str = "c") -> str:
    """``count`` commits in a row, the first over ``over``; the name of the last."""
    for number in range(count):
        name = f"{prefix}{number}"
        commits.add(name, *([over] if over else []))
        over = name
    assert over is not None
    return over


def ancestors(parents: list[tuple[int, ...]]) -> list[set[int]]:
    """By commit: all that it descends from, and itself."""
    found: list[set[int]] = []
    for number, over in enumerate(parents):
        found.append({number}.union(*(found[each] for each in over)))
    return found


def random_history(seed: int, skew: int) -> tuple[MemoryCommits, list[tuple[int, ...]]]:
    """A history with clocks that are wrong by up to ``skew`` seconds; names are numbers."""
    chance = random.Random(seed)
    parents = random_parents(chance, 40)
    commits = MemoryCommits()
    for number, over in enumerate(parents):
        seconds = 1_700_000_000 + 10 * number + chance.randint(-skew, skew)
        commits.add(str(number), *map(str, over), seconds=seconds)
    return commits, parents


HISTORIES = [(seed, skew) for seed in range(12) for skew in (0, 15, 2000)]


class TestWalk:
    def test_a_line_comes_newest_first(self, commits: MemoryCommits) -> None:
        assert names(commits, line(commits, 4)) == ["c3", "c2", "c1", "c0"]

    def test_a_page_of_a_line_reads_that_page_only(self, commits: MemoryCommits) -> None:
        tip = line(commits, 300)
        assert len(names(commits, tip, limit=50)) == 50
        assert len(commits.reads) == 50

    def test_pages_are_cuts_of_one_order(self, commits: MemoryCommits) -> None:
        commits, _ = random_history(5, 2000)
        whole = names(commits, "39", "38", "37")
        pages = [names(commits, "39", "38", "37", limit=7, skip=at) for at in range(0, 49, 7)]
        assert [each for page in pages for each in page] == whole

    def test_beside_a_merge_it_reads_until_the_lines_meet(self, commits: MemoryCommits) -> None:
        base = line(commits, 500)
        left = line(commits, 5, over=base, prefix="left")
        right = line(commits, 5, over=base, prefix="right")
        commits.add("merge", left, right)
        assert names(commits, "merge", limit=4) == ["merge", "right4", "right3", "right2"]
        assert len(commits.reads) < 20

    def test_lines_that_never_meet_are_read_a_bounded_way_ahead(
        self, commits: MemoryCommits, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "LOOKAHEAD", 20)
        for number in range(400):
            for prefix in ("left", "right"):
                commits.add(
                    f"{prefix}{number}",
                    *([f"{prefix}{number - 1}"] if number else []),
                    seconds=number,
                )
        commits.add("merge", "left399", "right399", seconds=1000)
        assert len(names(commits, "merge", limit=10)) == 10
        assert len(commits.reads) < 50
        whole = names(commits, "merge")
        assert len(set(whole)) == len(whole) == 801

    def test_a_child_hidden_beyond_the_lookahead_does_not_double_its_parent(
        self, commits: MemoryCommits, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "LOOKAHEAD", 5)
        commits.add("parent", seconds=5_000)
        over = "parent"
        for number in range(30):
            over = f"late{number}"
            commits.add(over, "parent" if not number else f"late{number - 1}", seconds=100 + number)
        commits.add("merge", "parent", over, seconds=6_000)
        assert sorted(names(commits, "merge")) == sorted(
            ["merge", "parent", *(f"late{number}" for number in range(30))]
        )

    def test_equal_clocks_never_put_a_parent_first(
        self, commits: MemoryCommits, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "LOOKAHEAD", 3)
        commits.add("root", seconds=7)
        commits.add("parent", "root", seconds=7)
        over = "parent"
        for number in range(30):
            commits.add(f"long{number}", over, seconds=7)
            over = f"long{number}"
        commits.add("merge", "parent", over, seconds=7)
        assert names(commits, "merge")[-2:] == ["parent", "root"]

    def test_a_child_whose_clock_ran_behind_still_comes_first(self, commits: MemoryCommits) -> None:
        commits.add("root", seconds=1)
        commits.add("parent", "root", seconds=900)
        commits.add("late", "parent", seconds=2)
        commits.add("merge", "parent", "late", seconds=901)
        assert names(commits, "merge") == ["merge", "late", "parent", "root"]

    def test_the_first_parent_only_on_demand(self, commits: MemoryCommits) -> None:
        commits.add("root")
        commits.add("ours", "root")
        commits.add("theirs", "root")
        commits.add("merge", "ours", "theirs")
        assert names(commits, "merge", first_parent=True) == ["merge", "ours", "root"]

    def test_a_tip_below_another_tip_is_given_once_and_in_its_place(
        self, commits: MemoryCommits
    ) -> None:
        line(commits, 4)
        assert names(commits, "c1", "c3", "c1") == ["c3", "c2", "c1", "c0"]

    def test_no_tips_give_nothing(self, commits: MemoryCommits) -> None:
        assert names(commits) == []

    def test_a_limit_of_zero_reads_nothing(self, commits: MemoryCommits) -> None:
        assert names(commits, line(commits, 2), limit=0) == []
        assert commits.reads == []

    @pytest.mark.parametrize("options", [{"limit": -1}, {"skip": -1}])
    def test_a_negative_count_is_refused_at_once(
        self, commits: MemoryCommits, options: dict[str, int]
    ) -> None:
        with pytest.raises(InvalidInputError, match="below 0"):
            walk(commits, [], **options)  # type: ignore[arg-type]

    def test_a_missing_parent_is_told_when_it_is_due(self, commits: MemoryCommits) -> None:
        commits.add("tip", "lost")
        found = walk(commits, [commits.hash("tip")])
        assert next(found).message == "tip"
        with pytest.raises(NotFoundError, match=commits.hash("lost")):
            next(found)

    @pytest.mark.parametrize(("seed", "skew"), HISTORIES)
    def test_parents_never_come_before_children(self, seed: int, skew: int) -> None:
        commits, parents = random_history(seed, skew)
        tips = ["39", "38", "30", "12"]
        order = [int(each) for each in names(commits, *tips)]
        below = ancestors(parents)
        assert sorted(order) == sorted(set().union(*(below[int(each)] for each in tips)))
        location = {each: index for index, each in enumerate(order)}
        for child in order:
            assert all(location[child] < location[parent] for parent in parents[child])

    @pytest.mark.parametrize("seed", range(8))
    def test_with_right_clocks_the_newest_is_always_next(self, seed: int) -> None:
        commits, _ = random_history(seed, 0)
        order = [int(each) for each in names(commits, "39", "35")]
        assert order == sorted(order, reverse=True)


class TestReachable:
    @pytest.mark.parametrize("seed", range(4))
    def test_it_gives_each_commit_once(self, seed: int) -> None:
        commits, parents = random_history(seed, 15)
        tips = [commits.hash("39"), commits.hash("20")]
        found = [int(commits.name(each.hash)) for each in reachable(commits, tips)]
        assert sorted(found) == sorted(ancestors(parents)[39] | ancestors(parents)[20])
        assert len(commits.reads) == len(found)

    def test_it_reads_as_it_is_asked(self, commits: MemoryCommits) -> None:
        tip = commits.hash(line(commits, 100))
        assert len(list(islice(reachable(commits, iter([tip])), 10))) == 10
        assert len(commits.reads) == 10


def best(parents: list[tuple[int, ...]], a: int, b: int) -> set[int]:
    """The best common ancestors, by looking at all."""
    below = ancestors(parents)
    common = below[a] & below[b]
    return {each for each in common if not any(each in below[other] - {other} for other in common)}


def pairs() -> Iterator[tuple[int, int]]:
    chance = random.Random(1)
    for _ in range(60):
        yield chance.randrange(40), chance.randrange(40)


class TestMergeBase:
    @pytest.mark.parametrize(("seed", "skew"), HISTORIES)
    def test_it_is_right_whatever_the_clocks_say(self, seed: int, skew: int) -> None:
        commits, parents = random_history(seed, skew)
        for a, b in pairs():
            found = merge_bases(commits, commits.hash(str(a)), commits.hash(str(b)))
            assert {int(commits.name(each)) for each in found} == best(parents, a, b)
            assert len(set(found)) == len(found)

    def test_of_two_bases_the_newer_one_is_named(self, commits: MemoryCommits) -> None:
        commits.add("root")
        commits.add("a", "root")
        commits.add("b", "root")
        commits.add("left", "a", "b")
        commits.add("right", "b", "a")
        left, right = commits.hash("left"), commits.hash("right")
        assert merge_bases(commits, left, right) == [commits.hash("b"), commits.hash("a")]
        assert merge_base(commits, left, right) == commits.hash("b")

    def test_unrelated_histories_have_none(self, commits: MemoryCommits) -> None:
        line(commits, 3)
        line(commits, 3, prefix="other")
        assert merge_base(commits, commits.hash("c2"), commits.hash("other2")) is None

    def test_near_tips_are_settled_near_them(self, commits: MemoryCommits) -> None:
        base = line(commits, 1000)
        left = line(commits, 3, over=base, prefix="left")
        right = line(commits, 3, over=base, prefix="right")
        found = merge_base(commits, commits.hash(left), commits.hash(right))
        assert found == commits.hash(base)
        assert len(commits.reads) < 15

    def test_a_commit_and_itself_meet_there(self, commits: MemoryCommits) -> None:
        tip = commits.hash(line(commits, 2))
        assert merge_base(commits, tip, tip) == tip

    def test_a_commit_that_is_not_there_is_an_error_even_beside_itself(
        self, commits: MemoryCommits
    ) -> None:
        lost = Hash("ab" * 32)
        with pytest.raises(NotFoundError):
            merge_base(commits, lost, lost)
        with pytest.raises(NotFoundError):
            is_ancestor(commits, lost, lost)


class TestIsAncestor:
    @pytest.mark.parametrize(("seed", "skew"), HISTORIES)
    def test_it_is_right_whatever_the_clocks_say(self, seed: int, skew: int) -> None:
        commits, parents = random_history(seed, skew)
        below = ancestors(parents)
        for old, new in pairs():
            found = is_ancestor(commits, commits.hash(str(old)), commits.hash(str(new)))
            assert found == (old in below[new])

    def test_a_near_ancestor_is_found_near(self, commits: MemoryCommits) -> None:
        tip = commits.hash(line(commits, 1000))
        assert is_ancestor(commits, commits.hash("c990"), tip)
        assert len(commits.reads) < 15

    def test_a_descendant_is_no_ancestor_and_that_is_settled_near(
        self, commits: MemoryCommits
    ) -> None:
        tip = commits.hash(line(commits, 1000))
        assert not is_ancestor(commits, tip, commits.hash("c990"))
        assert len(commits.reads) < 15


def test_commits_that_were_just_read_are_kept_and_older_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_MOST_COMMITS", 3)
    store = Objects(tmp_path, fsync=False)
    tree = store.put_tree({})
    by = Signature("Ada", "ada@example.com", 1_700_000_000, 0)
    made: list[Hash] = []
    for number in range(5):
        made.append(store.put_commit(tree, made[-1:], by, str(number)))
    store.sync()
    assert [each.message for each in walk(store, [made[-1]])] == ["4", "3", "2", "1", "0"]
    for each in made:
        (tmp_path / each[:2] / each[2:]).unlink()
    assert [store.commit(each).message for each in made[:3]] == ["0", "1", "2"]
    with pytest.raises(NotFoundError):
        store.commit(made[3])
    store.close()
    with pytest.raises(NotFoundError):
        store.commit(made[0])
