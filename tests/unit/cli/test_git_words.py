"""What is said to people who type what git has and ``lw`` has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lancewood.cli.failing import OPTIONS, VERBS
from lancewood.cli.groups import KNOWN_AS, load_command
from lancewood.cli.main import RootGroup

Lw = Callable[..., Any]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["stash"], "stays on the branch where it was written"),
        (["clone", "x"], "copy its directory"),
        (["rebase", "main"], "lw merge brings a branch"),
        (["rev-parse", "HEAD"], "git rev-parse"),
        (["commit", "--amend"], "lw reset --soft HEAD~1"),
        (["log", "--oneline", "-12"], "write the number as -n N"),
        (["log", "--since=monday"], "git log --since"),
        (["diff", "--patch"], "lw diff --rows"),
        (["merge", "--abort"], "whole or not at all"),
        (["merge", "--continue"], "lw resolve decides it for the next lw merge"),
        (["merge", "exp", "-X", "theirs"], "lw merge --ours or --theirs"),
        (["cherry-pick", "--continue"], "lw conflicts shows what is in the way"),
        (["revert", "--abort"], "nothing to finish or to give up"),
        (["mergetool"], "lw merge --decisions FILE"),
        (["rerere"], "lw resolve keeps what was decided"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_git_has_and_lw_has_not_is_told_with_what_to_type_instead(
    lw_run: Lw, args: list[str], told: str
) -> None:
    ran = lw_run(*args)
    assert (ran.code, ran.out) == (2, "")
    assert told in ran.err
    assert "Did you mean" not in ran.err


def test_no_verb_is_said_to_be_missing_that_is_there() -> None:
    assert not set(VERBS) & {*RootGroup.entries, *KNOWN_AS}


@pytest.mark.parametrize("verb", OPTIONS)
def test_no_option_is_said_to_be_missing_that_is_there(verb: str) -> None:
    command = load_command(verb, RootGroup.entries[verb].function)
    there = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    assert "--json" in there
    assert not set(OPTIONS[verb]) & there


def test_an_option_of_a_table_is_not_taken_for_one_of_git(lw_run: Lw) -> None:
    ran = lw_run("table", "merge", "--abort")
    assert ran.code == 2
    assert "No such option: --abort" in ran.err
    assert "whole or not at all" not in ran.err
