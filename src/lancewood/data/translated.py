"""What pylance raises becomes an error of ours, panics included."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeAlias

from lancewood.errors import LancewoodError, UnsupportedError

Judge: TypeAlias = Callable[[str, BaseException], LancewoodError]
"""The error for what pylance says, and what it raised."""
_SOURCE_PLACE = re.compile(r",? ?/\S+\.rs:\d+(:\d+)?")


class Translated:
    """Around calls of pylance: what they raise is judged. Errors of ours, interruptions and a want
    of memory pass."""

    __slots__ = ("_judge",)

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        cause: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if cause is None or isinstance(cause, LancewoodError | MemoryError):
            return
        # A panic of pylance is a BaseException; every other BaseException passes.
        if isinstance(cause, Exception) or type(cause).__name__ == "PanicException":
            # Keeping the error must not keep a half-written file alive.
            traceback.clear_frames(cause.__traceback__)
            raise self._judge(_SOURCE_PLACE.sub("", str(cause)).strip(), cause) from cause


def not_imported(asked: str, text: str, **facts: Any) -> UnsupportedError:
    """The error where pylance is missing."""
    return UnsupportedError(
        f"{asked}: pylance, which does it, does not import here ({text}); install lancewood with "
        "its dependencies wherever tables are read, written and searched",
        **facts,
    )
