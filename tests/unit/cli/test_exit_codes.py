from __future__ import annotations

import pytest

from lancewood import errors
from lancewood.cli.failing import MEANINGS, OF_ERRORS, ExitCode, exit_code_of

KINDS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, errors.LancewoodError)
]


def test_every_error_of_the_tree_has_a_code() -> None:
    assert set(OF_ERRORS) == set(KINDS)


def test_every_code_has_a_meaning() -> None:
    assert set(MEANINGS) == set(ExitCode)


def test_the_numbers_are_these_for_good() -> None:
    assert {each.name: each.value for each in ExitCode} == {
        "OK": 0,
        "INTERNAL": 1,
        "USAGE": 2,
        "NOT_FOUND": 3,
        "ALREADY_EXISTS": 4,
        "INVALID_INPUT": 5,
        "CONFLICT_RETRY": 6,
        "CONFLICT": 7,
        "COMMIT_UNKNOWN": 8,
        "UNSUPPORTED": 9,
        "DAMAGED": 10,
        "STORAGE": 11,
        "CHECK_FAILED": 12,
        "DECLINED": 13,
        "NOT_PUBLISHED": 14,
        "RUN_FAILED": 15,
        "MERGE_CONFLICT": 16,
        "INTERRUPTED": 130,
        "BROKEN_PIPE": 141,
    }


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.__name__)
def test_an_error_that_is_raised_ends_with_its_code(kind: type[errors.LancewoodError]) -> None:
    assert exit_code_of(kind("x")) is OF_ERRORS[kind]


def test_a_kind_that_is_added_below_another_ends_like_it() -> None:
    class Newer(errors.NotFoundError):
        pass

    assert exit_code_of(Newer("x")) is ExitCode.NOT_FOUND


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
        (BrokenPipeError(), ExitCode.BROKEN_PIPE),
        (PermissionError(), ExitCode.STORAGE),
        (KeyError("x"), ExitCode.INTERNAL),
    ],
)
def test_other_errors_have_codes_too(error: BaseException, code: ExitCode) -> None:
    assert exit_code_of(error) is code
