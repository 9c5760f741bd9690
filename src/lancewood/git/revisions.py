"""Revisions as people type them, resolved to commits.

A revision is HEAD or @, a branch, a tag, another ref, a whole or short hash, or ``name@{n}`` by the
reflog, followed by any of ~, ^ and ^{commit}. A range is two of them, for those who compare. Paths,
dates and remotes are refused with a message that says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from typing import NamedTuple

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.git.names import HEAD, HEADS, TAGS, is_ref
from lancewood.git.objects import Commit
from lancewood.git.repository import GitRepository
from lancewood.git.values import ZERO, Hash, is_hash

_MOST_LISTED = 10

_parts = re.compile(r"(?P<name>.*?)(?:@\{(?P<past>[^{}]*)\})?(?P<steps>[~^].*)?", re.S).fullmatch
_step = re.compile(r"~(?P<back>\d{0,9})|\^\{(?P<kind>[^{}]*)\}|\^(?P<parent>\d{0,9})").match
_is_short = re.compile(r"[0-9a-f]{4,64}").fullmatch


class Range(NamedTuple):
    """Two revisions in one text."""

    one: str
    other: str
    is_since_base: bool
    """Whether the text is ``a...b``: from the merge base of both to the other one."""


def parse_range(text: str) -> Range | None:
    """The two sides of ``a..b`` or ``a...b``, HEAD for an empty one; None for a single revision.

    >>> parse_range("main...")
    Range(one='main', other='HEAD', is_since_base=True)
    """
    for dots in ("...", ".."):
        if isinstance(text, str) and dots in text:
            one, _, other = text.partition(dots)
            return Range(one or HEAD, other or HEAD, dots == "...")
    return None


def resolve(git: GitRepository, text: str) -> Hash:
    """The commit that a revision names.

    Raises InvalidInputError for a text that is no revision or is ambiguous, and NotFoundError,
    saying what was tried, for one that names nothing.
    """
    name, past, steps = _taken_apart(text)
    found = _named(git, text, name) if past is None else _by_reflog(git, text, name, past)
    done = len(text) - sum(len(step) for step, *_ in steps)
    for step, count, is_parent in steps:
        found = _stepped(git, text[:done], found, step, count, is_parent)
        done += len(step)
    return found


def _taken_apart(text: str) -> tuple[str, int | None, list[tuple[str, int, bool]]]:
    """The name, how many moves ago, and the steps: text, distance, and whether it is a parent."""
    if not isinstance(text, str) or not text:
        raise InvalidInputError(f"{text!r} is not a revision: HEAD, a branch, a tag or a hash is")
    if ".." in text:
        raise InvalidInputError(
            f"{text!r} is a range, and a single commit is asked for here: name it by itself. "
            "Repository.diff and lw diff take a range, if it is all they are given; so does git log"
        )
    if ":" in text:
        raise InvalidInputError(f"{text!r} looks like a path in a commit: name the commit alone")
    found = _parts(text)
    assert found is not None
    past = None
    if found["past"] is None and not found["name"]:
        raise InvalidInputError(f"{text!r} is not a revision: there is no name before the steps")
    if found["past"] is not None:
        if not re.fullmatch(r"\d{1,9}", found["past"]):
            raise InvalidInputError(
                f"'@{{{found['past']}}}' in {text!r} is not understood: it takes the number of "
                "moves to go back, as in 'main@{1}'"
            )
        past = int(found["past"])
    return found["name"], past, list(_steps(text, found["steps"] or ""))


def _steps(text: str, rest: str) -> Iterator[tuple[str, int, bool]]:
    at = 0
    while at < len(rest):
        step = _step(rest, at)
        if step is None:
            raise InvalidInputError(
                f"{rest[at:]!r} at the end of {text!r} is not understood: steps are ~, ~n, ^, ^n "
                "and ^{commit}"
            )
        if step["kind"] is not None and step["kind"] not in ("commit", ""):
            raise InvalidInputError(
                f"{step[0]!r} in {text!r} asks for a {step['kind']}: only commits have revisions"
            )
        at = step.end()
        if step["kind"] is not None:
            yield step[0], 0, False
        elif step["back"] is not None:
            yield step[0], int(step["back"] or 1), False
        else:
            yield step[0], int(step["parent"] or 1), step["parent"] != "0"


def _stepped(
    git: GitRepository, so_far: str, start: Hash, step: str, count: int, is_parent: bool
) -> Hash:
    if is_parent:
        parents = git.objects.commit(start).parents
        if count > len(parents):
            raise NotFoundError(
                f"{so_far}{step} is not there: {so_far} is {start} and has "
                f"{_counted(len(parents), 'parent')}"
            )
        return parents[count - 1]
    at = start
    for done in range(count):
        parents = git.objects.commit(at).parents
        if not parents:
            raise NotFoundError(
                f"{so_far}{step} is not there: {so_far} has {_counted(done, 'commit')} before it"
            )
        at = parents[0]
    return at


def _named(git: GitRepository, text: str, name: str) -> Hash:
    if name in (HEAD, "@"):
        return _at_head(git, text)
    if is_hash(name.lower()):
        return _peeled(git, text, Hash(name.lower()))
    refs = _refs(git, name)
    if refs:
        return _peeled(git, text, _only(text, name, refs)[1])
    if _is_short(name.lower()):
        return _by_short_hash(git, text, name.lower())
    raise _unknown(git, text, name)


def _at_head(git: GitRepository, text: str) -> Hash:
    head = git.refs.head()
    if head.hash is None:
        raise NotFoundError(
            f"revision {text!r} not found: HEAD is branch {head.branch!r} of {git.path}, which has "
            "no commit yet; make the first one"
        )
    return _peeled(git, text, head.hash)


def _refs(git: GitRepository, name: str) -> dict[str, Hash]:
    """The refs that a name may mean. git takes the first of them."""
    found: dict[str, Hash] = {}
    for full in _candidates(name):
        hash = git.refs.read(full)
        if hash is not None:
            found[full] = hash
    return found


def _candidates(name: str) -> list[str]:
    tries = [name, f"refs/{name}", f"{TAGS}{name}", f"{HEADS}{name}"]
    return [each for each in tries if is_ref(each)]


def _only(text: str, name: str, refs: dict[str, Hash]) -> tuple[str, Hash]:
    if len(set(refs.values())) > 1:
        raise InvalidInputError(
            f"revision {text!r} is ambiguous: {name!r} may be {' or '.join(refs)}; "
            "write the one you mean in full"
        )
    return next(iter(refs.items()))


def _peeled(git: GitRepository, text: str, hash: Hash) -> Hash:
    try:
        return git.objects.peel(hash)
    except NotFoundError as cause:
        raise NotFoundError(f"revision {text!r} not found: {cause}", **cause.facts) from cause


def _by_reflog(git: GitRepository, text: str, name: str, past: int) -> Hash:
    """Counts as git does: 0 is what the newest move led to, n what the n-th move left behind."""
    full = _logged(git, text, name)
    moves = list(islice(git.refs.log(full), max(past, 1)))
    if not moves:
        raise NotFoundError(f"revision {text!r} not found: {full} has no reflog")
    found = moves[0].new if past == 0 else moves[-1].old
    if len(moves) < past or found == ZERO:
        raise NotFoundError(
            f"revision {text!r} not found: the reflog of {full} goes back "
            f"{_counted(len(moves) - (moves[-1].old == ZERO), 'move')}"
        )
    return _peeled(git, text, found)


def _logged(git: GitRepository, text: str, name: str) -> str:
    """The full name of the ref whose reflog is meant; an empty name means the current branch."""
    if not name:
        branch = git.refs.head().branch
        return HEAD if branch is None else f"{HEADS}{branch}"
    if name in (HEAD, "@"):
        return HEAD
    refs = _refs(git, name)
    if not refs:
        raise _unknown(git, text, name)
    logged = [each for each in refs if next(git.refs.log(each), None) is not None]
    return logged[0] if len(logged) == 1 else _only(text, name, refs)[0]


def _by_short_hash(git: GitRepository, text: str, short: str) -> Hash:
    """Ignores trees and blobs, as git does where it wants a commit."""
    found: dict[Hash, Commit] = {}
    others = False
    for hash in git.objects.starting_with(short):
        try:
            peeled = git.objects.peel(hash)
        except NotFoundError:
            others = True
        else:
            found[hash] = git.objects.commit(peeled)
    if not found:
        raise _unknown(git, text, short, others)
    if len({each.hash for each in found.values()}) > 1:
        raise InvalidInputError(
            f"revision {text!r} is ambiguous: {len(found)} commits start with {short!r}: "
            f"{_listed(found)}; write more digits"
        )
    return next(iter(found.values())).hash


def _listed(found: dict[Hash, Commit]) -> str:
    said = [f"{hash} ({found[hash].message.partition(chr(10))[0][:60]})" for hash in sorted(found)]
    more = len(said) - _MOST_LISTED
    return ", ".join(said[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _unknown(git: GitRepository, text: str, name: str, others: bool = False) -> NotFoundError:
    """Says what was tried, and suggests similar names."""
    head = git.refs.head()
    if head.hash is None and name in (head.branch, f"{HEADS}{head.branch}"):
        return NotFoundError(
            f"revision {text!r} not found: branch {head.branch!r} of {git.path} has no commit yet; "
            "make the first one"
        )
    short = _is_short(name.lower()) is not None
    tried = [*_candidates(name), *([f"a hash that starts with {name!r}"] if short else [])]
    message = f"revision {text!r} not found"
    message += f": tried {', '.join(tried)}" if tried else f": {name!r} cannot be a name"
    if others:
        message += "; what is there starts so, but is no commit"
    known = _known(git)
    near = get_close_matches(_short(name), [HEAD, *known], n=3)
    if near:
        message += f"; did you mean {' or '.join(map(repr, near))}?"
    elif known:
        more = ", …" if len(known) > _MOST_LISTED else ""
        message += f"; there are {', '.join(map(repr, known[:_MOST_LISTED]))}{more}"
    return NotFoundError(message, tried=tried, near=near)


def _known(git: GitRepository) -> list[str]:
    """All branches, then all tags, by their short names."""
    full = (each for prefix in (HEADS, TAGS) for each in git.refs.names(prefix))
    return list(dict.fromkeys(map(_short, full)))


def _short(name: str) -> str:
    return name.removeprefix(HEADS).removeprefix(TAGS)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count or 'no'} {what}s"
