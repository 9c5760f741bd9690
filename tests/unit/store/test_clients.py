"""Clients are made once a process, and a fork that would hang is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from lancewood.errors import InvalidInputError, StorageError
from lancewood.store.clients import clients_for
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions

NOBODY = {
    "aws_access_key_id": "x",
    "aws_secret_access_key": "planted",
    "region": "us-east-1",
    "endpoint": "http://127.0.0.1:9",
    "allow_http": "true",
    "client_max_retries": "0",
}

FORK = """
import os, signal, sys
from lancewood.errors import StorageError, UnsupportedError
from lancewood.store.locate import open_store

store = open_store("s3://bucket/t", storage_options=eval(sys.argv[1]))

def use():
    try:
        store.get("k")
    except StorageError as error:
        return "used: " + str(error)
    except UnsupportedError as error:
        return "refused: " + str(error)

if sys.argv[2] == "after":
    print(use(), flush=True)
child = os.fork()
if not child:
    signal.alarm(20)
    print(use(), flush=True)
    os._exit(0)
print("ended:", os.waitpid(child, 0)[1], flush=True)
print(use(), flush=True)
"""


def forked(when: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK, repr(NOBODY), when],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def test_a_child_forked_before_the_first_use_has_clients_of_its_own() -> None:
    child, ended, parent = forked("before")
    assert ended == "ended: 0"
    assert child == parent
    assert child.startswith("used: cannot read 'k' in s3://bucket/t: nothing listens")


def test_a_child_forked_after_the_first_use_is_refused_and_does_not_hang() -> None:
    first, child, ended, parent = forked("after")
    assert ended == "ended: 0"
    assert child.startswith("refused: s3://bucket cannot be used in this process: it was forked")
    assert "spawn" in child
    assert first == parent
    assert first.startswith("used: ")


def test_the_same_options_share_their_clients_and_others_do_not() -> None:
    options = StorageOptions(NOBODY)
    mine = clients_for("s3", "s3://bucket", options)
    assert clients_for("s3", "s3://bucket", StorageOptions(dict(NOBODY))) is mine
    assert pickle.loads(pickle.dumps(mine)) is mine
    other = clients_for("s3", "s3://bucket", StorageOptions({**NOBODY, "region": "eu-west-1"}))
    assert other is not mine
    assert mine.patient is not other.patient
    assert mine.patient is not mine.once
    assert repr(mine) == "Clients('s3://bucket')"


def test_an_account_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(InvalidInputError, match="Account must be specified"):
        open_store("az://container/t")


def test_the_environment_may_allow_http(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {key: value for key, value in NOBODY.items() if key != "allow_http"}
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    clients_for.cache_clear()
    try:
        with pytest.raises(StorageError, match="nothing listens"):
            open_store("s3://bucket/t", storage_options=options).get("k")
    finally:
        clients_for.cache_clear()
