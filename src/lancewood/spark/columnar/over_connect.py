"""The columnar door of a session of Spark Connect, whose Spark may be on another machine.

The jar goes there as an artifact of the session, and a plan as an option of each request. A plan
has storage options inside, and a server may write requests down: it is sealed with a secret that is
a setting of the session, whose name Spark hides by itself. Which Python reads is the server's to
say: a plan has nothing of this machine but where the table is.

The jar is compiled here, by the Spark that is installed here, if that is the server's release. A
first read of one row, of no table, goes all the way before anybody relies on the door.
"""

from __future__ import annotations

import base64
import hmac
import os
import pickle
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from lancewood.spark.columnar.jar import (
    ClosedError,
    compiled,
    installed_jars,
    jar_path,
    java_with,
    keep_jar,
    kept_for,
)
from lancewood.spark.columnar.planned import SOURCE, PlannedRead, PythonCommand
from lancewood.spark.java import look_for_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECRET = "spark.lancewood.secret."
"""What begins the name of the setting that has a key; the rest tells clients of a session apart."""
_NONCE, _BLOCK = 16, 32
_SCHEMA = (
    '{"type":"struct","fields":[{"name":"platform","type":"string","nullable":true,"metadata":{}}]}'
)

_keys: WeakKeyDictionary[Any, tuple[str, bytes]] = WeakKeyDictionary()
"""What plans of a session are sealed with, and its name: a server gives no such setting back."""


def frame_over_connect(spark: SparkSession, planned: PlannedRead) -> DataFrame:
    """A planned read as a frame of a session with the door."""
    name, key = _keys[spark]
    text = sealed(planned.encode(PythonCommand()), key)
    return spark.read.format(SOURCE).options(sealed=text, key=name).load()


def open_over_connect(spark: SparkSession) -> str:
    """Bring the door to a session, and give the system that its workers run on.

    Raises ClosedError, and what Spark raises where something does not do there.
    """
    spark.addArtifacts(str(_jar(spark.version)))
    _keys[spark] = name, key = secrets.token_hex(4), secrets.token_bytes(_BLOCK)
    spark.conf.set(SECRET + name, base64.b64encode(key).decode())
    (answer,) = frame_over_connect(spark, _first_read()).collect()
    return str(answer.platform)


def _jar(release: str) -> Path:
    kept = kept_for(release, os.environ)
    if kept is not None:
        return kept
    jars = installed_jars(release, os.environ)
    java = look_for_java(os.environ, [])
    if jars is None or java is None:
        lacking = "Java" if jars is not None else f"Spark {release} (the package pyspark has it)"
        raise ClosedError(
            f"this machine has no {lacking} to compile its source for the server with"
        )
    with java_with(jars, java.executable) as gateway:
        version = str(gateway.jvm.java.lang.System.getProperty("java.version"))
        try:
            classes = compiled(gateway)
        except Exception as refused:  # its text is Java's, which ends below
            told = str(refused).partition("\n\tat ")[0]
            raise ClosedError(f"Spark {release} does not compile it: {told}") from None
    return keep_jar(jar_path(release, version, os.environ), classes)


def sealed(plain: bytes, key: bytes) -> str:
    """A text that says nothing to those who lack the key; ``Sealed.java`` opens it."""
    nonce = secrets.token_bytes(_NONCE)
    blocks = range(-(-len(plain) // _BLOCK))
    mixed = b"".join(hmac.digest(key, nonce + each.to_bytes(4, "big"), "sha256") for each in blocks)
    number = int.from_bytes(plain, "big") ^ int.from_bytes(mixed[: len(plain)], "big")
    return base64.b64encode(nonce + number.to_bytes(len(plain), "big")).decode()


class _Greeting:
    """Work that reads nothing: one row, with the system that it is done on."""

    reading = SimpleNamespace(schema=pa.schema({"platform": pa.string()}))

    def narrowed(self, names: Sequence[str], where: str | None, limit: int | None) -> _Greeting:
        return self

    def portion(self, message: bytes) -> SimpleNamespace:
        return SimpleNamespace(fragments=())

    def rows(self, portion: SimpleNamespace) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([[sys.platform]], schema=self.reading.schema)


def _first_read() -> PlannedRead:
    return PlannedRead(
        name="the columnar door",
        schema=_SCHEMA,
        work=pickle.dumps(_Greeting()),
        messages=[b""],
        rows=1,
        is_counted=False,
        pruned=0,
        slots=1,
        worthwhile=1,
        most_condition=0,
        widths={},
        needed=(),
        references={},
    )
