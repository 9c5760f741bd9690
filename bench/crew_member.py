"""One process of the crew: an order comes in, "ready" goes out, "go" comes in, a report goes out.

An append that fails is reported and not tried again: trying is the library's own affair.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from bench.contenders import open_appender, ten_rows


def main() -> None:
    for line in sys.stdin:
        _round(json.loads(line))


def _round(order: dict[str, Any]) -> None:
    handle = open_appender(
        order["library"], order["table"], fsync=order["fsync"], options=order["options"]
    )
    firsts = [order["first_id"] + 10 * number for number in range(order["appends"])]
    batches = [(first, ten_rows(first)) for first in firsts]
    _say("ready")
    sys.stdin.readline()
    waits: list[float] = []
    acknowledged: list[int] = []
    errors: list[str] = []
    started = time.monotonic()
    for first, data in batches:
        before = time.monotonic()
        try:
            handle.append(data)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:500])
        else:
            acknowledged.append(first)
        waits.append(time.monotonic() - before)
    ended = time.monotonic()
    _say(
        {
            "started": started,
            "ended": ended,
            "waits": waits,
            "acknowledged": acknowledged,
            "errors": errors,
        }
    )


def _say(word: object) -> None:
    print(json.dumps(word), flush=True)


if __name__ == "__main__":
    main()
