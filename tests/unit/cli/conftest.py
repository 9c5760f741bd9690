"""``lw`` in this process: arguments in, exit code and texts out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from lancewood.cli.main import app


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str
    raw: bytes

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)  # type: ignore[no-any-return]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(each) for each in self.out.splitlines()]

    @property
    def error(self) -> dict[str, Any]:
        return json.loads(self.err)["error"]  # type: ignore[no-any-return]


Lw = Callable[..., Ran]


@pytest.fixture
def lw_run() -> Lw:
    """Run ``lw``; an exception that gets out is a failure of the test."""

    def run(*args: object, input: bytes | None = None) -> Ran:
        result = CliRunner().invoke(
            app, [str(each) for each in args], input=input, catch_exceptions=False, prog_name="lw"
        )
        return Ran(result.exit_code, result.stdout, result.stderr, result.stdout_bytes)

    return run


@pytest.fixture
def lw_ok(lw_run: Lw) -> Lw:
    """The same for commands that must succeed."""

    def run(*args: object, input: bytes | None = None) -> Ran:
        ran = lw_run(*args, input=input)
        assert ran.code == 0, ran.err
        return ran

    return run
