"""What others can leave in a repository: links in circles, pipes, names in bytes, damaged packs."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from hashlib import sha256
from pathlib import Path

import pytest
from tests.bounded import bounded

from lancewood.errors import FormatError, InvalidInputError, LancewoodError, StorageError
from lancewood.git.names import checked_branch
from lancewood.git.objects import FILE, Signature, TreeEntry
from lancewood.git.repository import GitRepository
from lancewood.git.values import Hash, decode_commit
from lancewood.items import writing as newpack

MAIN = "refs/heads/main"
BY = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="stock git is the other side")


def stock(path: Path, *arguments: str | bytes) -> str:
    found = subprocess.run(
        ["git", "-C", os.fspath(path), *arguments], capture_output=True, text=True, check=True
    )
    return found.stdout.strip()


def commit(git: GitRepository, message: str, *parents: Hash) -> Hash:
    return git.objects.put_commit(git.objects.put_tree({}), parents, BY, message)


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    git = GitRepository.init(tmp_path / "repo", fsync=False)
    assert git.refs.move(MAIN, None, commit(git, "one"), why="begin", by=BY)
    return git


@needs_git
@pytest.mark.parametrize("fsync", [True, False])
def test_what_a_lost_move_wrote_is_written_again_after_a_prune(
    git: GitRepository, fsync: bool
) -> None:
    git = GitRepository.open(git.path, fsync=fsync)
    tip = git.refs.read(MAIN)
    assert tip is not None
    tree = git.objects.put_tree({"file": TreeEntry(FILE, git.objects.put_blob(b"needed"))})
    git.objects.write()  # and the move that was to follow lost its race
    stock(git.path, "prune", "--expire=now")
    tree = git.objects.put_tree({"file": TreeEntry(FILE, git.objects.put_blob(b"needed"))})
    made = git.objects.put_commit(tree, [tip], BY, "two")
    assert git.refs.move(MAIN, tip, made, why="commit", by=BY)
    stock(git.path, "fsck", "--strict")
    assert stock(git.path, "cat-file", "-p", "main:file") == "needed"


@pytest.mark.parametrize("links", [{"loop": "../heads"}, {"a": ".", "b": "."}, {"up": ".."}])
def test_links_among_refs_are_told_and_not_followed(
    git: GitRepository, links: dict[str, str]
) -> None:
    for name, target in links.items():
        (git.path / "refs" / "heads" / name).symlink_to(target)
    for read in (git.refs.names, git.refs.every_name, git.tidy):
        with pytest.raises(InvalidInputError, match=r"refs/heads/\w+ is a symbolic link to \."):
            read()


def test_a_directory_of_refs_that_cannot_be_listed_is_an_error(
    git: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(StorageError, match="Permission denied"):
        git.refs.names()
    with pytest.raises(StorageError, match="Permission denied"):
        git.refs.every_name()


def test_a_log_that_is_a_pipe_or_a_link_is_told_and_not_waited_for(git: GitRepository) -> None:
    log = git.path / "logs" / MAIN
    log.rename(git.path / "logs" / "moved")
    log.symlink_to(git.path / "logs" / "moved")
    with pytest.raises(InvalidInputError, match="logs/refs/heads/main is a symbolic link"):
        list(git.refs.log(MAIN))
    log.unlink()
    os.mkfifo(log)
    with pytest.raises(FormatError, match="it is no file"):
        list(git.refs.log(MAIN))


def test_packed_refs_that_are_a_pipe_are_told_and_not_waited_for(git: GitRepository) -> None:
    os.mkfifo(git.path / "packed-refs")
    with pytest.raises(FormatError, match="packed-refs is no file"):
        git.refs.names()


@needs_git
def test_a_ref_whose_name_is_not_utf8_is_seen_loose_and_packed(git: GitRepository) -> None:
    tip = git.refs.read(MAIN)
    assert tip is not None
    stock(git.path, "update-ref", b"refs/heads/caf\xe9", tip)
    name = os.fsdecode(b"refs/heads/caf\xe9")
    assert git.refs.names("refs/heads/") == {name: tip, MAIN: tip}
    assert [each.new for each in git.refs.log(name)] == [tip]
    stock(git.path, "pack-refs", "--all")
    assert git.refs.names("refs/heads/") == {name: tip, MAIN: tip}
    assert git.refs.move(name, tip, None, why="delete", by=BY)
    assert git.refs.names("refs/heads/") == {MAIN: tip}
    with pytest.raises(LancewoodError, match="it is not UTF-8"):
        checked_branch(os.fsdecode(b"caf\xe9"))


@needs_git
def test_what_a_work_tree_of_git_has_checked_out_is_known(
    git: GitRepository, tmp_path: Path
) -> None:
    tip = git.refs.read(MAIN)
    assert git.refs.of_work_trees() == (set(), set())
    stock(git.path, "worktree", "add", "--detach", str(tmp_path / "work"), "main")
    first = stock(git.path, "commit-tree", "main^{tree}", "-p", "main", "-m", "first")
    second = stock(git.path, "commit-tree", "main^{tree}", "-p", "main", "-m", "second")
    for each in (first, second):
        stock(tmp_path / "work", "update-ref", "--no-deref", "HEAD", each)
    named, logged = git.refs.of_work_trees()
    assert named == {second}
    assert {tip, first, second} <= logged


@pytest.mark.parametrize("encoding", [b"undefined", b"idna", b"punycode", b"a\0b", b"hex"])
def test_a_message_in_an_encoding_that_is_none_is_read_as_well_as_can_be(encoding: bytes) -> None:
    by = b"A <a@b> 1 +0000"
    data = b"tree %b\nauthor %b\ncommitter %b\nencoding %b\n\nf\xc3\xbcr\n" % (
        b"a" * 64,
        by,
        by,
        encoding,
    )
    assert decode_commit(Hash("b" * 64), data).message == "für"


@needs_git
def test_a_damaged_pack_can_be_let_go_of_while_its_error_is_told(git: GitRepository) -> None:
    tip = git.refs.read(MAIN)
    assert tip is not None
    stock(git.path, "repack", "-a", "-d", "-q")
    (pack,) = (git.path / "objects" / "pack").glob("*.pack")
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    data[14:-32] = bytes(len(data) - 46)
    pack.write_bytes(data)
    opened = GitRepository.open(git.path, fsync=False)
    with pytest.raises(LancewoodError) as told:
        opened.objects.commit(tip)
    opened.close()
    assert told.value.__traceback__ is not None


@needs_git
def test_short_hashes_among_damaged_packs_are_an_error_of_ours(git: GitRepository) -> None:
    stock(git.path, "repack", "-a", "-d", "-q")
    (index,) = (git.path / "objects" / "pack").glob("*.idx")
    index.chmod(0o644)
    index.write_bytes(index.read_bytes()[:900])
    opened = GitRepository.open(git.path, fsync=False)
    with pytest.raises(FormatError, match="git fsck says more"):
        list(opened.objects.starting_with("abcd"))


@needs_git
def test_empty_directories_where_a_packed_ref_goes_make_room(git: GitRepository) -> None:
    tip = git.refs.read(MAIN)
    assert tip is not None
    stock(git.path, "pack-refs", "--all")
    (git.path / MAIN / "left").mkdir(parents=True)
    made = commit(git, "two", tip)
    assert git.refs.move(MAIN, tip, made, why="commit", by=BY)
    assert stock(git.path, "rev-parse", "main") == made
    assert [each.new for each in git.refs.log(MAIN)] == [made, tip]


def write_pack_of(directory: Path, entries: dict[Hash, bytes]) -> None:
    """A pack of entries as they are, and its index, by the hash that each is to be found by."""
    data, locations = b"PACK" + struct.pack(">II", 2, len(entries)), []
    for hash, entry in entries.items():
        locations.append((bytes.fromhex(hash), zlib.crc32(entry), len(data)))
        data += entry
    digest = sha256(data).digest()
    (directory / "pack-bomb.pack").write_bytes(data + digest)
    (directory / "pack-bomb.idx").write_bytes(newpack._index(sorted(locations), digest))


def delta_number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


LARGE = 10 << 20
BASE, MADE = Hash("11" * 32), Hash("22" * 32)


def delta_of(claimed: int, copies: int) -> bytes:
    """A delta that takes the whole of a base of ``LARGE`` zeros so many times."""
    copy = b"\xf0" + LARGE.to_bytes(3, "little")
    return delta_number(LARGE) + delta_number(claimed) + copy * copies


def entry(kind: int, claimed: int, content: bytes, before: bytes = b"") -> bytes:
    return newpack._entry_head(kind, claimed) + before + zlib.compress(content, 1)


@pytest.mark.parametrize(
    ("claimed", "copies", "why"),
    [
        (640 * LARGE, 640, "it makes 6710886400 bytes"),
        (640 * LARGE, 1, "it makes 6710886400 bytes"),
        (100, 640, "it makes more than it says"),
    ],
)
def test_a_delta_is_not_led_to_make_more_than_an_object_may_hold(
    git: GitRepository, claimed: int, copies: int, why: str
) -> None:
    delta = delta_of(claimed, copies)
    made = entry(7, len(delta), delta, bytes.fromhex(BASE))
    write_pack_of(git.path / "objects/pack", {BASE: entry(3, LARGE, bytes(LARGE)), MADE: made})
    assert (git.path / "objects/pack/pack-bomb.pack").stat().st_size < 50_000
    told = read_bounded(git, MADE)
    assert told.startswith("FormatError: object 2222")
    assert why in told


@pytest.mark.parametrize(("claimed", "size"), [(100, 300 << 20), (700 << 20, 100)])
def test_an_entry_of_a_pack_is_inflated_no_further_than_it_says(
    git: GitRepository, claimed: int, size: int
) -> None:
    write_pack_of(git.path / "objects/pack", {MADE: entry(3, claimed, bytes(size))})
    assert read_bounded(git, MADE).startswith("FormatError: object 2222")


@pytest.mark.parametrize(("claimed", "size"), [(100, 300 << 20), (700 << 20, 10_000)])
def test_a_loose_object_is_inflated_no_further_than_it_says(
    git: GitRepository, claimed: int, size: int
) -> None:
    file = git.path / "objects/22" / MADE[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(zlib.compress(b"blob %d\0" % claimed + bytes(size), 1))
    assert read_bounded(git, MADE).startswith("FormatError: ")


def read_bounded(git: GitRepository, hash: Hash) -> str:
    imports = "from lancewood.git.repository import GitRepository"
    act = "print(len(GitRepository.open(sys.argv[1]).objects.blob(sys.argv[2])))"
    return bounded(imports, act, os.fspath(git.path), hash)
