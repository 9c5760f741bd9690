"""Bugs put in on purpose, to prove that the harness reports each kind of failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from tests.fuzz.target import Context, Target, Trial, expect

from lancewood.errors import FormatError
from lancewood.format import refs
from lancewood.format.refs import decode_tag
from lancewood.model.refs import TagName

GOOD = b'{"version":1,"manifestSize":2}'


def targets(context: Context) -> Iterator[Target]:
    for name, bug in _BUGS.items():
        yield Target(f"planted-{name}", lambda _: GOOD, _with(bug))
    yield Target("planted-crash-allowed", lambda _: GOOD, _with(_crash))
    yield Target("planted-nothing", lambda rng: GOOD if rng.random() < 0.5 else b"", _check)


def _check(data: bytes, trial: Trial) -> None:
    expect(decode_tag(TagName("t"), data).version == 1, "another version came back")


def _with(bug: Callable[..., Any]) -> Callable[[bytes, Trial], None]:
    def check(data: bytes, trial: Trial) -> None:
        with mock.patch.object(refs, "decode_object", bug):
            _check(data, trial)

    return check


def _raise(*args: Any, **kwargs: Any) -> Any:
    raise KeyError("planted")


def _loop(*args: Any, **kwargs: Any) -> Any:
    while True:
        pass


def _crash(*args: Any, **kwargs: Any) -> Any:
    os._exit(9)


def _eat(*args: Any, **kwargs: Any) -> Any:
    eaten = bytearray(400 << 20)
    eaten[:: 1 << 12] = b"x" * len(eaten[:: 1 << 12])
    raise FormatError(f"planted: {len(eaten)} bytes eaten")


def _lie(*args: Any, **kwargs: Any) -> Any:
    return {"version": 2, "manifestSize": 2}


_BUGS = {"error": _raise, "loop": _loop, "crash": _crash, "memory": _eat, "lie": _lie}
