"""Java's archive of the classes that Spark loads: a Java of the tests starts in half the time.

``python -m tests.spark.archive`` makes it: a session does a little, and Java writes down what it
has loaded when it ends. A Java that the archive does not fit passes it over; one that cannot make
it leaves none, and the tests go on without.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from tests.spark.clusters.kinds import LOCAL
from tests.spark.clusters.sessions import Sessions
from tests.spark.environment import ARCHIVE, WITHOUT_ARCHIVE

from lancewood.errors import UnsupportedError

_PATIENCE = 120.0


def make(archive: Path) -> None:
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    options = f"{WITHOUT_ARCHIVE} -Xlog:disable -XX:ArchiveClassesAtExit={archive}"
    with contextlib.suppress(UnsupportedError):  # the packaged Java does not even start with them
        record(options)
    print(f"made {archive}" if archive.exists() else "this Java makes no archive of its classes")


def record(options: str) -> None:
    """A session that does a little, in a Java with these options that is ended afterwards."""
    sessions = Sessions()
    try:
        spark = sessions.use(LOCAL, {"spark.driver.extraJavaOptions": options})
        gateway = spark.sparkContext._gateway
        with tempfile.TemporaryDirectory(prefix="lancewood-archive-") as folder:
            do_a_little(spark, Path(folder))
        sessions.stop()
        with contextlib.suppress(Py4JError, OSError):  # who ends Java hears no answer
            gateway.jvm.java.lang.System.exit(0)
        gateway.proc.wait(_PATIENCE)
    finally:
        sessions.close()


def do_a_little(spark: Any, folder: Path) -> None:
    """What most tests make Java do: files in, SQL, rows out."""
    frame = spark.range(20).selectExpr("id", "concat('n', id % 3) AS name")
    frame.write.csv(str(folder / "csv"), header=True)
    named = spark.read.schema("id LONG, name STRING").csv(str(folder / "csv"), header=True)
    named.createOrReplaceTempView("named")
    spark.sql("SELECT name, count(*) AS n FROM named GROUP BY name ORDER BY n").collect()
    frame.join(named, "id").toArrow()


if __name__ == "__main__":
    make(ARCHIVE)
