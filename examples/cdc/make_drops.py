"""Makes what a database would drop: a snapshot, and files of changes.

    python make_drops.py FOLDER            the snapshot: 200 customers
    python make_drops.py FOLDER --day N    the changes of day 1, 2, …

Changes come twice, out of order, and days late. The same files on every machine.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CUSTOMERS, CHANGES, TWICE, LATE = 200, 120, 15, 12
CITIES = ["Aachen", "Bergen", "Como", "Delft", "Evora", "Florence"]
ROW = {"id": pa.int64(), "name": pa.string(), "city": pa.string(), "balance": pa.float64()}
SNAPSHOT = pa.schema({**ROW, "sequence": pa.int64()})
DROP = pa.schema({**ROW, "sequence": pa.int64(), "operation": pa.string()})


def make_snapshot(folder: Path) -> None:
    chance = random.Random("snapshot")
    rows = [{**customer(number, chance), "sequence": number} for number in range(1, CUSTOMERS + 1)]
    save(rows, SNAPSHOT, folder / "snapshot" / "part-0.parquet")


def make_changes(folder: Path, day: int) -> None:
    """Two files: most of the day's changes, some of them twice, and some of the day before."""
    today = changes_of(day)
    chance = random.Random(f"drop {day}")
    late = today[:LATE]
    before = changes_of(day - 1)[:LATE] if day > 1 else []
    rows = [*today[LATE:], *chance.sample(today[LATE:], TWICE), *before]
    chance.shuffle(rows)
    if day == 1:
        rows.append({**late[0], "operation": "truncate", "id": None})
    half = len(rows) // 2
    for part, some in enumerate((rows[:half], rows[half:])):
        save(some, DROP, folder / "changes" / f"day-{day}-{part}.parquet")


def changes_of(day: int) -> list[dict[str, object]]:
    """What happened on a day, in order."""
    chance = random.Random(f"day {day}")
    found: list[dict[str, object]] = []
    for position in range(CHANGES):
        operation = chance.choices(["insert", "update", "delete"], [2, 7, 1])[0]
        number = chance.randrange(1, CUSTOMERS + 1)
        if operation == "insert":
            number = 1000 * day + position
        sequence = 100_000 * day + position
        row = {**customer(number, chance), "sequence": sequence, "operation": operation}
        if operation == "delete":
            row |= {"name": None, "city": None, "balance": None}
        found.append(row)
    return found


def customer(number: int, chance: random.Random) -> dict[str, object]:
    return {
        "id": number,
        "name": f"customer {number}",
        "city": chance.choice(CITIES),
        "balance": chance.randrange(100_000) / 100,
    }


def save(rows: list[dict[str, object]], schema: pa.Schema, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), file)
    print(f"{len(rows)} rows in {file}")


if __name__ == "__main__":
    location = Path(sys.argv[1])
    if "--day" in sys.argv:
        make_changes(location, int(sys.argv[sys.argv.index("--day") + 1]))
    else:
        make_snapshot(location)
