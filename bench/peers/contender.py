"""What every contender can be asked for. Knows no format, and measures nothing."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from bench.peers.works import EXTRA, Kind


class Cannot(Exception):
    """The format has no way to do it; the text says what there is instead."""


class Contender(ABC):
    """One format in a session of its own: a table at a time, made anew for every pass."""

    def __init__(self, spark: Any, kind: Kind, home: Path, source: Path) -> None:
        self.spark = spark
        self.kind = kind
        self.home = home
        self.source = source
        self.number = 0

    @classmethod
    def settings(cls, home: Path) -> dict[str, str]:
        """What its session needs beside the jars."""
        return {}

    @property
    def table(self) -> Path:
        return self.home / f"table-{self.number}"

    def rows(self) -> Any:
        """What the table is written from."""
        return self.spark.read.parquet(str(self.source))

    def rows_with_extra(self) -> Any:
        return self.rows().selectExpr("*", f"{self.kind.extra_value} AS {EXTRA}")

    def renew(self) -> None:
        """Forget the table, and have the next one written to another place."""
        shutil.rmtree(self.table, ignore_errors=True)
        self.number += 1

    @abstractmethod
    def write(self) -> None: ...

    @abstractmethod
    def frame(self) -> Any:
        """All rows of the newest version."""

    @abstractmethod
    def add_column(self) -> None: ...

    @abstractmethod
    def delete(self) -> None: ...

    @abstractmethod
    def first_version(self) -> Any: ...

    @abstractmethod
    def make_branch(self) -> None: ...

    @abstractmethod
    def append_to_branch(self, rows: Any) -> None: ...

    @abstractmethod
    def branch(self) -> Any: ...


class SqlContender(Contender):
    """What peers have in common that are spoken to in SQL."""

    CATALOG: ClassVar[str] = ""
    BRANCH: ClassVar[str] = "trial"

    @property
    def name(self) -> str:
        """The table in SQL."""
        return f"{self.CATALOG}.db.{self.table.name.replace('-', '_')}"

    def sql(self, text: str) -> Any:
        return self.spark.sql(text)

    def frame(self) -> Any:
        return self.sql(f"SELECT * FROM {self.name}")
