"""Revisions: every form that is known, and what is said about those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.repository import GitRepository
from lancewood.git.revisions import resolve
from lancewood.git.values import Hash, Signature

ADA = Signature("Ada", "ada@example.com", 1_700_000_000, 60)


class World:
    """A repository with a line c0..c3 on main, an octopus over it on ``wide``, and tags."""

    def __init__(self, path: Path) -> None:
        self.git = GitRepository.init(path, fsync=False)
        self.tree = self.git.objects.put_tree({})
        self.line: list[Hash] = []
        for number in range(4):
            made = self.commit(f"c{number}", *self.line[-1:])
            self.move("refs/heads/main", made)
            self.line.append(made)
        self.left = self.commit("left", self.line[0])
        self.right = self.commit("right", self.line[1])
        self.wide = self.commit("wide", self.line[3], self.left, self.right)
        self.move("refs/heads/wide", self.wide)
        self.move("refs/heads/feature/photos", self.left)
        self.move("refs/tags/v1.0", self.line[1])

    def commit(self, message: str, *parents: Hash) -> Hash:
        return self.git.objects.put_commit(self.tree, parents, ADA, message)

    def move(self, name: str, new: Hash | None) -> None:
        old = self.git.refs.read(name)
        assert self.git.refs.move(name, old, new, why="test", by=ADA)

    def find(self, text: str) -> Hash:
        return resolve(self.git, text)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "repo")


@pytest.mark.parametrize(
    "text", ["HEAD", "@", "main", "heads/main", "refs/heads/main", "HEAD~0", "@^0", "main^{commit}"]
)
def test_the_newest_commit_has_many_names(world: World, text: str) -> None:
    assert world.find(text) == world.line[3]


@pytest.mark.parametrize("text", ["v1.0", "tags/v1.0", "refs/tags/v1.0", "v1.0^{}", "v1.0^0"])
def test_a_tag_names_its_commit(world: World, text: str) -> None:
    assert world.find(text) == world.line[1]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *[("main~", 2), ("main~1", 2), ("main^", 2), ("main^1", 2), ("main~3", 0), ("main^^^", 0)],
        *[
            ("@~~", 1),
            ("HEAD^~1", 1),
            ("wide~2", 2),
            ("wide^1~3", 0),
            ("wide^3^", 1),
            ("wide^2~", 0),
        ],
    ],
)
def test_steps_lead_to_ancestors(world: World, text: str, number: int) -> None:
    assert world.find(text) == world.line[number]


def test_a_caret_with_a_number_picks_a_parent(world: World) -> None:
    assert [world.find(f"wide^{each}") for each in (1, 2, 3)] == [
        world.line[3],
        world.left,
        world.right,
    ]


def test_a_branch_with_a_slash_is_found(world: World) -> None:
    assert world.find("feature/photos") == world.left


def test_a_hash_may_be_whole_short_or_in_capitals(world: World) -> None:
    whole = world.line[2]
    assert world.find(whole) == world.find(whole[:20]) == world.find(whole.upper()) == whole
    assert world.find(f"{whole[:20]}~1") == world.line[1]


def test_a_branch_that_looks_like_a_short_hash_comes_before_the_hash(world: World) -> None:
    short = world.line[2][:6]
    world.move(f"refs/heads/{short}", world.line[0])
    assert world.find(short) == world.line[0]


def test_a_detached_head_is_its_commit(world: World) -> None:
    world.git.refs.detach_head(world.line[1], why="test", by=ADA)
    assert world.find("HEAD") == world.find("@") == world.line[1]
    assert world.find("@{1}") == world.line[3]


class TestReflog:
    @pytest.mark.parametrize("name", ["main", "HEAD", "@", "", "refs/heads/main", "heads/main"])
    def test_a_number_goes_back_that_many_moves(self, world: World, name: str) -> None:
        found = [world.find(f"{name}@{{{number}}}") for number in range(4)]
        assert found == world.line[::-1]

    def test_steps_follow_it(self, world: World) -> None:
        assert world.find("main@{1}~2") == world.line[0]

    def test_one_move_too_many_says_how_many_there_are(self, world: World) -> None:
        with pytest.raises(NotFoundError, match=r"refs/heads/main goes back 3 moves"):
            world.find("main@{4}")

    def test_a_ref_without_one_says_so(self, world: World) -> None:
        (world.git.path / "logs" / "refs" / "tags" / "v1.0").unlink()
        with pytest.raises(NotFoundError, match=r"refs/tags/v1\.0 has no reflog"):
            world.find("v1.0@{0}")

    @pytest.mark.parametrize("past", ["yesterday", "-1", "upstream", "", "1234567890"])
    def test_anything_but_a_number_is_refused(self, world: World, past: str) -> None:
        with pytest.raises(InvalidInputError, match="number of moves"):
            world.find(f"main@{{{past}}}")


class TestAbsence:
    def test_what_was_tried_is_told_and_what_comes_near(self, world: World) -> None:
        with pytest.raises(NotFoundError) as told:
            world.find("mian~2")
        assert str(told.value) == (
            "revision 'mian~2' not found: tried refs/mian, refs/tags/mian, refs/heads/mian; "
            "did you mean 'main'?"
        )
        assert told.value.facts["near"] == ["main"]

    def test_a_full_name_finds_near_names_too(self, world: World) -> None:
        with pytest.raises(NotFoundError, match="did you mean 'feature/photos'"):
            world.find("refs/heads/feature/photo")

    def test_where_nothing_is_near_it_tells_what_there_is(self, world: World) -> None:
        with pytest.raises(NotFoundError, match="there are 'feature/photos', 'main'") as told:
            world.find("quux")
        assert "did you mean" not in str(told.value)

    def test_a_short_hash_of_nothing_says_that_hashes_were_tried(self, world: World) -> None:
        with pytest.raises(NotFoundError, match="a hash that starts with 'abcdef0123'"):
            world.find("abcdef0123")

    def test_three_digits_are_no_short_hash(self, world: World) -> None:
        with pytest.raises(NotFoundError) as told:
            world.find(world.line[0][:3])
        assert "hash that starts" not in str(told.value)

    def test_a_whole_hash_of_nothing_is_told(self, world: World) -> None:
        with pytest.raises(NotFoundError, match="there is no object abab"):
            world.find("ab" * 32)

    def test_the_hash_of_a_tree_is_no_commit(self, world: World) -> None:
        with pytest.raises(NotFoundError, match="leads to a tree"):
            world.find(world.tree)
        with pytest.raises(NotFoundError, match="starts so, but is no commit"):
            world.find(world.tree[:20])

    def test_a_step_below_the_first_commit_says_how_deep_it_is(self, world: World) -> None:
        with pytest.raises(NotFoundError, match=r"main~9 is not there: main has 3 commits before"):
            world.find("main~9")
        with pytest.raises(NotFoundError, match=r"main~3\^ is not there.*has no parents"):
            world.find("main~3^")

    def test_a_parent_too_many_says_how_many_there_are(self, world: World) -> None:
        with pytest.raises(NotFoundError, match=r"wide\^4 is not there.*has 3 parents"):
            world.find("wide^4")
        with pytest.raises(NotFoundError, match=r"has 1 parent$"):
            world.find("main^2")

    @pytest.mark.parametrize("text", ["HEAD", "@", "main", "refs/heads/main", "main~1", "HEAD^"])
    def test_an_empty_repository_says_that_the_branch_has_no_commit(
        self, tmp_path: Path, text: str
    ) -> None:
        git = GitRepository.init(tmp_path / "empty", fsync=False)
        with pytest.raises(NotFoundError, match=r"branch 'main' of .* has no commit yet"):
            resolve(git, text)

    def test_an_empty_repository_has_no_other_names_either(self, tmp_path: Path) -> None:
        git = GitRepository.init(tmp_path / "empty", fsync=False)
        with pytest.raises(NotFoundError, match="tried refs/exp, "):
            resolve(git, "exp")
        with pytest.raises(NotFoundError, match="has no reflog"):
            resolve(git, "@{0}")


class TestAmbiguity:
    def test_a_branch_and_a_tag_of_one_name_are_told_apart_by_their_full_names(
        self, world: World
    ) -> None:
        world.move("refs/heads/v1.0", world.line[2])
        with pytest.raises(InvalidInputError, match=r"refs/tags/v1\.0 or refs/heads/v1\.0"):
            world.find("v1.0")
        assert world.find("heads/v1.0") == world.line[2]
        assert world.find("tags/v1.0") == world.line[1]

    def test_a_branch_and_a_tag_on_one_commit_do_no_harm(self, world: World) -> None:
        world.move("refs/heads/v1.0", world.line[1])
        assert world.find("v1.0") == world.line[1]

    def test_a_short_hash_of_several_commits_lists_them(self, world: World) -> None:
        made: dict[str, Hash] = {}
        while True:
            hash = world.commit(f"number {len(made)}")
            if hash[:4] in made:
                break
            made[hash[:4]] = hash
        other = made[hash[:4]]
        with pytest.raises(InvalidInputError) as told:
            world.find(hash[:4])
        assert f"{other} (number " in str(told.value)
        assert f"{hash} (number {len(made)})" in str(told.value)
        assert world.find(hash[:12]) == hash

    def test_trees_and_blobs_do_not_make_a_commit_ambiguous(self, world: World) -> None:
        whole = world.line[0]
        number = 0
        while world.git.objects.put_blob(str(number).encode())[:4] != whole[:4]:
            number += 1
        assert world.find(whole[:4]) == whole


class TestBadTexts:
    @pytest.mark.parametrize("text", ["", None, 7, b"main"])
    def test_what_is_no_text_is_refused(self, world: World, text: str) -> None:
        with pytest.raises(InvalidInputError, match="is not a revision"):
            world.find(text)

    @pytest.mark.parametrize("text", ["main..wide", "main...wide"])
    def test_a_range_is_refused(self, world: World, text: str) -> None:
        with pytest.raises(InvalidInputError, match="is a range"):
            world.find(text)

    def test_a_path_in_a_commit_is_refused(self, world: World) -> None:
        with pytest.raises(InvalidInputError, match="name the commit alone"):
            world.find("main:tables/photos.json")

    @pytest.mark.parametrize("text", ["~1", "^", "^2~1"])
    def test_steps_from_nowhere_are_refused(self, world: World, text: str) -> None:
        with pytest.raises(InvalidInputError, match="no name before the steps"):
            world.find(text)

    @pytest.mark.parametrize("text", ["main~x", "main^{", "main^{commit", "main~1234567890"])
    def test_steps_that_make_no_sense_are_refused(self, world: World, text: str) -> None:
        with pytest.raises(InvalidInputError, match="is not understood"):
            world.find(text)

    @pytest.mark.parametrize("kind", ["tree", "blob", "tag", "/text"])
    def test_other_kinds_of_object_are_refused(self, world: World, kind: str) -> None:
        with pytest.raises(InvalidInputError, match="only commits have revisions"):
            world.find(f"main^{{{kind}}}")

    @pytest.mark.parametrize("text", ["a b", "x@{", "refs/heads/.x", "-\x00", "a//b", "é\udc80"])
    def test_what_can_be_no_name_is_not_looked_for_on_the_disk(
        self, world: World, text: str
    ) -> None:
        with pytest.raises(NotFoundError, match="not found"):
            world.find(text)
