"""From failures of an object store's client to our errors.

Interprets obstore's exceptions and the texts of S3, GCS and Azure behind them: which failures are
final, which may pass, and which prove that nothing was written. Never repeats a credential: option
values are cut out, and the client's own exception is not chained.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from lancewood.errors import (
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.store.options import CREDENTIALS_COME_FROM, StorageOptions

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>\s*([^<]{1,80})</Code>|\"(?:code|reason)\":\s*\"([^\"]{1,80})\"")
_TEXT = re.compile(r"<Message>\s*([^<]{1,300})</Message>|\"message\":\s*\"([^\"]{1,300})\"")
_QUERY = re.compile(r"(https?://[^\s?\"']+)\?[^\s\"')]*")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "The specified bucket does not exist")
_NO_CREDENTIALS = ("169.254.169.254", "169.254.170.2", "token request", "CredentialsError")
_TURNED_AWAY = {"SlowDown", "ServerBusy", "RequestLimitExceeded", "TooManyRequests", "Throttling"}
_PASSING_CODES = {"InternalError", "ServiceUnavailable", "RequestTimeout", "OperationTimedOut"}


class FailureAnswer(NamedTuple):
    """What is known about a failure."""

    error: LancewoodError
    is_passing: bool = False
    """Whether the same request may succeed a moment later."""
    is_throttle: bool = False
    """Whether the store asked for fewer requests."""
    is_beyond: bool = False
    """Whether a range began after the object's end."""


def read_answer(
    error: BaseException, verb: str, key: str, uri: str, options: StorageOptions
) -> FailureAnswer:
    """The error to raise for what a client raised; the caller must raise it outside its handler.

    ``facts["landed"]`` is False where the store certainly did not write.
    """
    whole = str(error)
    text, _, debug = whole.partition("\n\nDebug source")
    name = type(error).__name__
    facts: dict[str, Any] = {"key": key, "uri": uri}
    asked = f"cannot {verb} {key!r} in {uri}" if key else f"cannot {verb} {uri}"
    status = _first(_STATUS, text)
    code = _first(_CODE, text)

    def final(found: str) -> FailureAnswer:
        message = options.scrubbed(f"{asked}: {found}")
        return FailureAnswer(StorageError(message, landed=False, final=True, **facts))

    if any(each in text for each in _NO_BUCKET):
        return final("the bucket does not exist; create it, or correct the name")
    if any(each in text for each in _NO_CREDENTIALS) and status != "404":
        return final(f"no credentials were found: they come from {CREDENTIALS_COME_FROM}")
    if isinstance(error, FileNotFoundError):
        return FailureAnswer(NotFoundError(f"{key!r} not found in {uri}", **facts))
    if name in ("NotSupportedError", "NotImplementedError") or status == "501":
        message = options.scrubbed(f"{asked}: the store does not support it ({_brief(text)})")
        return FailureAnswer(UnsupportedError(message, landed=False, **facts))
    if isinstance(error, ValueError):
        message = options.scrubbed(f"{asked}: {_brief(text)}")
        return FailureAnswer(InvalidInputError(message, landed=False, **facts))
    if "redirect without LOCATION" in text or status in ("301", "307"):
        return final("the bucket is in another region; give 'region' in storage_options")
    if "builder error" in text:
        return final("an http:// endpoint needs 'allow_http': 'true' in storage_options")
    if status in ("401", "403"):
        said = _first(_TEXT, text) or "no reason given"
        return final(
            f"the store refused with {status} {code or ''}".rstrip()
            + f" ({said}); check the credentials and what they may do: they come from "
            + CREDENTIALS_COME_FROM
        )
    if status == "416":
        return FailureAnswer(
            StorageError(f"{asked}: the range is beyond its end", **facts), is_beyond=True
        )
    throttle = status in ("429", "503") or code in _TURNED_AWAY
    if throttle or (status or "")[:1] == "5" or status == "408" or code in _PASSING_CODES:
        said = f"the store answered {status or ''} {code or ''}".rstrip()
        hint = "; it asks for fewer requests" if throttle else ""
        message = options.scrubbed(f"{asked}: {said}{hint}")
        return FailureAnswer(StorageError(message, **facts), is_passing=True, is_throttle=throttle)
    if status == "409":
        return FailureAnswer(
            StorageError(f"{asked}: the store answered 409 {code or ''}", **facts), True
        )
    if status is not None and status[:1] == "4":
        said = _first(_TEXT, text) or _brief(text)
        return final(f"the store refused with {status} {code or ''}".rstrip() + f" ({said})")
    message = options.scrubbed(f"{asked}: {_transport(text, debug)}")
    return FailureAnswer(StorageError(message, **facts), is_passing=_is_transport(text, debug))


def _is_transport(text: str, debug: str) -> bool:
    return "HTTP error" in text or "HttpError" in debug


def _transport(text: str, debug: str) -> str:
    """What went wrong in transport, as far as the client says."""
    if "kind: Timeout" in debug or "TimedOut" in debug:
        return "no answer in time; a larger 'timeout' in storage_options waits longer"
    if "ConnectionRefused" in debug:
        return "nothing listens at the endpoint; check it"
    if "dns error" in debug.lower():
        return "the endpoint's name is not known; check it"
    if "kind: Connect" in debug:
        return "no connection to the endpoint; check it, and whether it speaks https"
    if "kind: Interrupted" in debug or "ConnectionReset" in debug:
        return "the connection broke before an answer came"
    return _brief(text)


def _brief(text: str) -> str:
    """One line of the client's own message, without the queries of URLs, which may hold tokens."""
    line = " ".join(text.split())
    return _QUERY.sub(r"\1", line)[:300]


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return next((each.strip() for each in found.groups() if each), None) if found else None
