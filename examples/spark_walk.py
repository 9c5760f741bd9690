"""Executors write a table, the driver commits once, executors read it back.

python examples/spark_walk.py [directory for the table]
"""

import pickle
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc

import lancewood as lw
from lancewood.model.transaction import Append
from lancewood.spark import session

ROWS, TASKS = 1_000_000, 4
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("amount", pa.float64(), False)])
START = perf_counter()


def walk(uri: str) -> None:
    first = lw.create(uri, SCHEMA, message="an empty table").version
    say(f"driver     made an empty table, version {first}")
    spark = session("local[2]", app_name="spark_walk")
    say(f"driver     started Spark {spark.version} with two executor threads")

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On an executor: rows become data files, which nobody sees yet."""
        rows = pa.RecordBatchReader.from_batches(SCHEMA, batches)
        fragments = lw.open(uri, version=first).write_fragments(rows)
        yield pa.record_batch({"fragments": [pickle.dumps(fragments)]})

    # One more partition than there are rows for: an empty task is nothing special.
    ids = spark.range(0, ROWS + ROWS // TASKS, numPartitions=TASKS + 1).where(f"id < {ROWS}")
    orders = ids.selectExpr("id", "id * 0.25D AS amount")
    answers = orders.mapInArrow(write, "fragments binary").collect()  # once: it writes files
    fragments = tuple(each for row in answers for each in pickle.loads(row.fragments))
    seen = lw.open(uri).count_rows()
    say(f"executors  wrote {len(fragments)} fragments in {len(answers)} tasks; readers see {seen}")

    before = lw.open(uri, version=first)
    table = before.commit(before.transaction(Append(fragments), message="orders, from Spark"))
    version, stats = table.version, table.stats()
    say(f"driver     committed version {version}: {stats.rows:,} rows, {stats.data_files} files")

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On an executor: the rows of the fragments that this task was given, added up."""
        mine = [each for batch in batches for each in batch["fragment"].to_pylist()]
        for part in lw.open(uri, version=version).scan(["amount"], fragment_ids=mine).to_batches():
            yield pa.record_batch({"rows": [part.num_rows], "amount": [pc.sum(part["amount"])]})

    plan = spark.createDataFrame([(each.id,) for each in table.fragments], "fragment long")
    sums = plan.repartition(2).mapInArrow(read, "rows long, amount double").groupBy().sum()
    rows, amount = sums.collect()[0]
    say(f"executors  read {rows:,} rows worth {amount:,.2f}")
    spark.stop()

    found = (seen, version, stats.rows, rows, amount)
    expected = (0, first + 1, ROWS, table.count_rows(), sum(range(ROWS)) * 0.25)
    if found != expected:
        sys.exit(f"FAILED: expected {expected}, found {found}")
    say(f"all checks hold; the table stays in {uri}. Look at it:")
    print(f"""{sys.executable} -c "import lancewood as lw; print(lw.open('{uri}').head(3))" """)


def say(what: str) -> None:
    print(f"{perf_counter() - START:6.1f} s  {what}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        location = Path(sys.argv[1]).absolute() / "orders.lance"
    else:
        location = Path(__file__).absolute().parents[1] / ".demo" / "orders.lance"
        if lw.exists(location):
            lw.drop(location)
    walk(str(location))
