"""The peers whose packages are fetched, each as its own documentation says to use it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.peers.contender import Cannot, SqlContender
from bench.peers.works import DELETED, EXTRA


class Delta(SqlContender):
    """With deletion vectors, so that a delete does not rewrite files.

    Its log is read in two tasks, as is right for a table of a few files; by default it is fifty.
    """

    @classmethod
    def settings(cls, home: Path) -> dict[str, str]:
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.databricks.delta.snapshotPartitions": "2",
        }

    @property
    def name(self) -> str:
        return f"delta.`{self.table}`"

    def write(self) -> None:
        writer = self.rows().write.format("delta").option("delta.enableDeletionVectors", "true")
        writer.save(str(self.table))

    def add_column(self) -> None:
        self.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({EXTRA} BIGINT)")
        self.sql(f"UPDATE {self.name} SET {EXTRA} = {self.kind.extra_value}").collect()

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.name} WHERE {DELETED}").collect()

    def first_version(self) -> Any:
        return self.sql(f"SELECT * FROM {self.name} VERSION AS OF 0")

    def make_branch(self) -> None:
        raise Cannot("there are no branches; a shallow clone is a table of its own")

    def append_to_branch(self, rows: Any) -> None:
        self.make_branch()

    def branch(self) -> Any:
        self.make_branch()


class Iceberg(SqlContender):
    """Format 3 with deletes merged on reading, in a catalog that is a directory."""

    CATALOG = "ice"

    @classmethod
    def settings(cls, home: Path) -> dict[str, str]:
        return {
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions"
            ".IcebergSparkSessionExtensions",
            f"spark.sql.catalog.{cls.CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{cls.CATALOG}.type": "hadoop",
            f"spark.sql.catalog.{cls.CATALOG}.warehouse": str(home),
        }

    def renew(self) -> None:
        if self.number:
            self.sql(f"DROP TABLE IF EXISTS {self.name} PURGE")
        self.number += 1

    def write(self) -> None:
        writer = self.rows().writeTo(self.name).tableProperty("format-version", "3")
        writer.tableProperty("write.delete.mode", "merge-on-read").create()

    def add_column(self) -> None:
        self.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({EXTRA} BIGINT)")
        self.sql(f"UPDATE {self.name} SET {EXTRA} = {self.kind.extra_value}").collect()

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.name} WHERE {DELETED}").collect()

    def first_version(self) -> Any:
        history = f"SELECT snapshot_id FROM {self.name}.snapshots ORDER BY committed_at LIMIT 1"
        first = self.sql(history).collect()[0][0]
        return self.sql(f"SELECT * FROM {self.name} VERSION AS OF {first}")

    def make_branch(self) -> None:
        self.sql(f"ALTER TABLE {self.name} CREATE BRANCH {self.BRANCH}")

    def append_to_branch(self, rows: Any) -> None:
        rows.writeTo(f"{self.name}.branch_{self.BRANCH}").append()

    def branch(self) -> Any:
        return self.sql(f"SELECT * FROM {self.name} VERSION AS OF '{self.BRANCH}'")


class LanceSpark(SqlContender):
    """Lance's own connector, in a catalog that is a directory."""

    CATALOG = "lance"

    @classmethod
    def settings(cls, home: Path) -> dict[str, str]:
        return {
            "spark.sql.extensions": "org.lance.spark.extensions.LanceSparkSessionExtensions",
            f"spark.sql.catalog.{cls.CATALOG}": "org.lance.spark.LanceNamespaceSparkCatalog",
            f"spark.sql.catalog.{cls.CATALOG}.impl": "dir",
            f"spark.sql.catalog.{cls.CATALOG}.root": str(home),
            f"spark.sql.catalog.{cls.CATALOG}.single_level_ns": "true",
        }

    @property
    def name(self) -> str:
        return f"{self.CATALOG}.default.{self.table.name.replace('-', '_')}"

    def renew(self) -> None:
        if self.number:
            self.sql(f"DROP TABLE IF EXISTS {self.name} PURGE")
        self.number += 1

    def write(self) -> None:
        writer = self.rows().writeTo(self.name)
        if self.kind.floats:
            size = str(self.kind.floats)
            writer = writer.tableProperty("vector.arrow.fixed-size-list.size", size)
        writer.create()

    def add_column(self) -> None:
        values = f"SELECT _rowaddr, _fragid, {self.kind.extra_value} AS {EXTRA} FROM {self.name}"
        self.sql(f"CREATE OR REPLACE TEMPORARY VIEW extra_values AS {values}")
        self.sql(f"ALTER TABLE {self.name} ADD COLUMNS {EXTRA} FROM extra_values").collect()

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.name} WHERE {DELETED}").collect()

    def first_version(self) -> Any:
        return self.sql(f"SELECT * FROM {self.name} VERSION AS OF 1")

    def make_branch(self) -> None:
        raise Cannot("its statements for branches came after this version")

    def append_to_branch(self, rows: Any) -> None:
        self.make_branch()

    def branch(self) -> Any:
        self.make_branch()
