"""Ctrl-C while a stream runs: the first asks it to end after the batch under way, the next one
does what it always does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def asked_to_stop(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` at the first Ctrl-C while the block runs; it may be called at any point.

    Elsewhere than in the main thread Python does not tell of signals, and nothing happens.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if before is None or not is_main:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        stop()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
