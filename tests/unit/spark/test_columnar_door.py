"""Where the columnar door is not even tried, and what people are told then."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from lancewood.spark.columnar import door
from lancewood.spark.columnar.door import SETTING, VARIABLE, prepare, why_closed
from lancewood.spark.columnar.jar import ClosedError


class Settings:
    """A session that has settings and nothing else: whoever asks it for more fails."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.conf = settings


def session(**settings: str) -> Any:
    return Settings(settings)


@pytest.fixture(autouse=True)
def not_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_either_switch_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    off = session(**{SETTING: "False"})
    assert why_closed(off) == f"{SETTING} is False"
    monkeypatch.setenv(VARIABLE, "0")
    assert why_closed(session()) == f"{VARIABLE} is 0"


def test_a_system_that_does_not_fork_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    for each in (session(), session(**{SETTING: "true"})):
        prepare(each)
        assert "does not do" in str(why_closed(each))


def test_an_untried_system_has_one_only_if_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    prepare(session())
    assert f"{SETTING}=true opens it" in str(why_closed(session()))
    with pytest.raises(AttributeError):  # it goes on to look at the session
        prepare(session(**{SETTING: "true"}))


def test_a_client_without_the_classes_of_its_server_has_none() -> None:
    with pytest.raises(ClosedError, match=r"no Spark 9\.9\.9 .*to compile"):
        door._jar_over_connect("9.9.9")
