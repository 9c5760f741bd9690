"""What the contenders run on, fetched once into ``build/peers``: a Spark, and jars of the peers.

Fetched by the ordinary clients as they are set up on this machine: pip, and Spark's own for
``spark.jars.packages``. Nothing is installed into the environment.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.peers.packages import refusal

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "build" / "peers"
_SECONDS = 900


class Unavailable(Exception):
    """Something could not be fetched; the text says what."""


def own_spark() -> str:
    """The version of PySpark in this environment."""
    return importlib.metadata.version("pyspark")


def environment(spark: str, store: Path = STORE) -> dict[str, str]:
    """Of a process that is to run on that Spark, which is fetched if it is not here.

    The interpreter and every other package stay those of this environment.
    """
    env = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    if spark != own_spark():
        path = _fetch_spark(spark, store)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), env.get("PYTHONPATH"))))
    return env


def fetch_jars(package: str, env: Mapping[str, str], store: Path = STORE) -> tuple[str, ...]:
    """The files of a package and of what it needs; asks nobody if they are here.

    Raises Unavailable where Spark's client does not get them.
    """
    known = store / "jars" / f"{package.replace(':', '_')}.json"
    if known.exists():
        jars = tuple(json.loads(known.read_text()))
        if all(Path(each).exists() for each in jars):
            return jars
    ivy = store / "ivy" / package.replace(":", "_")
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers.fetch", package, str(ivy)],
        cwd=ROOT,
        env=dict(env),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
    )
    if done.returncode:
        raise Unavailable(refusal(package, done.stdout + done.stderr))
    jars = tuple(json.loads(done.stdout.splitlines()[-1]))
    known.parent.mkdir(parents=True, exist_ok=True)
    known.write_text(json.dumps(jars))
    return jars


def _fetch_spark(version: str, store: Path) -> Path:
    target = store / f"pyspark-{version}"
    if target.exists():
        return target
    store.mkdir(parents=True, exist_ok=True)
    unfinished = store / f"unfinished-{os.getpid()}"
    what = ("--quiet", "--no-deps", "--target", str(unfinished), f"pyspark=={version}")
    done = subprocess.run(
        (sys.executable, "-m", "pip", "install", *what),
        capture_output=True,
        timeout=_SECONDS,
    )
    if done.returncode:
        raise Unavailable(
            f"PySpark {version} cannot be fetched: pip ended with {done.returncode}; "
            f"--spark {own_spark()} takes the one that is here"
        )
    unfinished.rename(target)
    return target
