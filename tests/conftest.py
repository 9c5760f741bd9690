"""What many tests ask for: stock git, an S3 server, cleanups that need not wait for other writers,
and properties that may take their time.

The server is moto's, in a process of its own, one for each worker of pytest. No test waits for
the disk unless it asks to: what is synced, and when, is shown by those that do.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import settings
from tests.breadth import CAMPAIGN, SLICED, daily, is_of_the_day, not_their_turn
from tests.postgresql import postgresql
from tests.s3 import new_bucket, running_server

from lancewood.jobs.upkeep import retention
from lancewood.jobs.upkeep.deep_check import PageChecker, decode_columns
from lancewood.model.fragment import Fragment
from lancewood.store import memory

__all__ = ["postgresql"]

settings.register_profile("patient", deadline=None, max_examples=daily(20, of=200))
settings.load_profile("patient")

os.environ.setdefault("LANCEWOOD_FSYNC", "0")

LONG = 200
_NUMBERS = itertools.count()


def pytest_make_parametrize_id(val: object) -> str | None:
    """A short name for a long text or many bytes: each worker sends the names of all its tests."""
    if isinstance(val, str | bytes) and len(val) > LONG:
        return f"{val[:20]!a}, {len(val)} long"
    return None


def pytest_configure(config: pytest.Config) -> None:
    for each in (SLICED, CAMPAIGN):
        config.addinivalue_line("markers", each)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    of_the_day = [each for each in items if is_of_the_day(each)]
    chosen = {*of_the_day} - not_their_turn(of_the_day)
    if len(chosen) < len(items):
        config.hook.pytest_deselected(items=[each for each in items if each not in chosen])
        items[:] = [each for each in items if each in chosen]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What is collected stays: there is no garbage yet."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Collecting garbage need not look through thousands of tests that stay, again and again;
    only the end of the process does, or else DuckDB says what is left."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """A test that stock git judges is skipped where there is none, and what a test has put into
    stores in memory goes with it: races make thousands of them."""
    before = set(memory._buckets)
    try:
        yield
    except FileNotFoundError as missing:
        if missing.filename == "git":
            pytest.skip("stock git is the judge here, and there is none on this machine")
        raise
    finally:
        for name in memory._buckets.keys() - before:
            del memory._buckets[name]


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of a test's own. pytest's looks through those of all others for a free number,
    and there are thousands."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    return tmp_path_factory.mktemp(f"{name}{next(_NUMBERS)}", numbered=False)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where the table of a test will be."""
    return str(tmp_path / "t.lance")


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """The address of a running server."""
    with running_server() as endpoint:
        yield endpoint


@pytest.fixture
def s3_options(s3_endpoint: str) -> dict[str, str]:
    """What both clients need to reach it."""
    return {
        "aws_access_key_id": "AKIAEXAMPLE",
        "aws_secret_access_key": "planted-secret-of-the-tests",
        "aws_region": "us-east-1",
        "aws_endpoint": s3_endpoint,
        "allow_http": "true",
    }


@pytest.fixture(scope="session")
def dynamodb_table(s3_endpoint: str) -> str:
    """A table as pylance wants it, in the DynamoDB of the same server; its name."""
    boto3 = pytest.importorskip("boto3", reason="boto3 is not installed")
    client = boto3.client(
        "dynamodb",
        endpoint_url=s3_endpoint,
        region_name="us-east-1",
        aws_access_key_id="AKIAEXAMPLE",
        aws_secret_access_key="planted-secret-of-the-tests",
    )
    keys = [("base_uri", "HASH", "S"), ("version", "RANGE", "N")]
    client.create_table(
        TableName="manifests",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind, _ in keys],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": type_} for name, _, type_ in keys
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    return "manifests"


@pytest.fixture
def s3_root(s3_endpoint: str) -> str:
    """A place in a bucket that no other test uses."""
    return new_bucket(s3_endpoint)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits before he reads back what he has put."""
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)


@pytest.fixture
def no_commit_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cleanup takes versions that were made a moment ago."""
    for each in ("lancewood.table.by_uri", "lancewood.jobs.relocate"):
        import_module(each)  # whose defaults stay what they are
    monkeypatch.setattr(retention, "COMMITTING", timedelta(0))


@pytest.fixture
def pages_decoded_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep check starts no process, whose start takes longer than all the rest.

    For tests where it is the judge. That it survives damaged pages is shown where it is the point.
    """

    def ask(checker: PageChecker, fragment: Fragment, columns: tuple[str, ...]) -> str | None:
        return decode_columns(checker._snapshot, fragment, columns, lambda: None)

    monkeypatch.setattr(PageChecker, "_ask", ask)
