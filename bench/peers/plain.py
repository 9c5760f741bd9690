"""Lancewood, and plain Parquet as the yardstick: the two that need no package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lancewood as lw
import lancewood.spark as lws
from bench.peers.contender import Cannot, Contender
from bench.peers.works import DELETED, EXTRA, KEPT


class Lancewood(Contender):
    """By the fast door."""

    def write(self) -> None:
        lws.write(self.rows(), self.table, schema=self.kind.schema)

    def frame(self) -> Any:
        return lws.read(self.spark, self.table)

    def add_column(self) -> None:
        lws.add_columns(self.spark, self.table, {EXTRA: self.kind.extra_value})

    def delete(self) -> None:
        lw.open(self.table).delete(DELETED, runner=lws.runner(self.spark))

    def first_version(self) -> Any:
        return lws.read(self.spark, self.table, version=1)

    def make_branch(self) -> None:
        lw.open(self.table).branches.create("trial")

    def append_to_branch(self, rows: Any) -> None:
        lws.write(rows, self.table, mode="append", branch="trial")

    def branch(self) -> Any:
        return lws.read(self.spark, self.table, branch="trial")


class Parquet(Contender):
    """A directory of files: to change anything is to write everything anew beside it."""

    def write(self) -> None:
        self.rows().write.parquet(str(self.table))

    def frame(self) -> Any:
        return self.spark.read.parquet(str(self.table))

    def add_column(self) -> None:
        self._rewrite(self.frame().selectExpr("*", f"{self.kind.extra_value} AS {EXTRA}"))

    def delete(self) -> None:
        self._rewrite(self.frame().where(KEPT))

    def first_version(self) -> Any:
        raise Cannot("there is only the newest: what was written before is overwritten")

    def make_branch(self) -> None:
        raise Cannot("there are no names for states of a directory; a copy takes all bytes again")

    def append_to_branch(self, rows: Any) -> None:
        self.make_branch()

    def branch(self) -> Any:
        self.make_branch()

    def _rewrite(self, frame: Any) -> None:
        anew = Path(f"{self.table}-anew")
        frame.write.parquet(str(anew))
        shutil.rmtree(self.table)
        anew.rename(self.table)
