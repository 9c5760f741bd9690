"""obstore's clients for one bucket, the calls that are made of them, and their failures as ours.

Clients are made when first needed, once in each process. There are two: ``patient`` sends a request
again when that may help; ``once`` never does, because a conditional put that is sent twice can
conflict with itself. obstore's threads and sockets do not survive a fork: a child of a process that
has used them would hang for ever, and its parent with it. Such a child is refused; a fork before
the first use, as Spark's, is fine.

A call returns whether its condition held, and raises everything else. obstore's exceptions, and the
texts of S3, GCS and Azure behind them, say which failures are final, which may pass, and which
prove that nothing was written. Our errors never repeat a credential: option values are cut out, and
the client's own exception is not chained.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from lancewood.errors import (
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.store.options import (
    CREDENTIALS_COME_FROM,
    ClientSettings,
    StorageOptions,
    client_settings,
    unknown_option,
)

KINDS = {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure", "abfss": "Azure"}
"""The schemes that obstore and pylance both know, and the usual name of the service."""


class _Runtime:
    """Whether obstore has run in this process, or in the one that it was forked from."""

    def __init__(self) -> None:
        self.is_running = False
        self.is_inherited = False

    def after_fork(self) -> None:
        self.is_inherited = self.is_inherited or self.is_running
        self.is_running = False


_runtime = _Runtime()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_runtime.after_fork)


@lru_cache(maxsize=64)
def clients_for(scheme: str, root: str, options: StorageOptions) -> Clients:
    """The clients for a bucket, whose URL is ``root``: the same ones for the same options, since
    connections are worth keeping. Raises InvalidInputError for invalid options."""
    return Clients(scheme, root, options)


class Clients:
    """The clients for one bucket and one set of options. Picklable: another process finds its own.
    The repr shows no option."""

    def __init__(self, scheme: str, root: str, options: StorageOptions) -> None:
        self.scheme, self.root, self.options = scheme, root, options
        self.settings: ClientSettings = client_settings(options)
        self._made: dict[int, tuple[Any, Any]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return clients_for, (self.scheme, self.root, self.options)

    def __repr__(self) -> str:
        return f"Clients({self.root!r})"

    def check(self) -> None:
        """Raise InvalidInputError for options that no client of this kind takes. Sends nothing."""
        self._here()

    @property
    def patient(self) -> Any:
        """The client for requests that may be sent again."""
        return self._ready()[0]

    @property
    def once(self) -> Any:
        """The client that sends every request once."""
        return self._ready()[1]

    def _ready(self) -> tuple[Any, Any]:
        if _runtime.is_inherited:
            raise UnsupportedError(
                f"{self.root} cannot be used in this process: it was forked from one that had "
                "already used an object store, and its connections do not survive a fork; start "
                "processes with 'spawn' or 'forkserver', or fork before the first use",
                landed=False,
            )
        _runtime.is_running = True
        return self._here()

    def _here(self) -> tuple[Any, Any]:
        """The clients of this process, made if there are none."""
        made = self._made.get(os.getpid())
        if made is None:
            settings = self.settings
            patient = settings.retry.as_obstore()
            once = replace(settings.retry, attempts=1).as_obstore()
            made = self._build(settings.config, patient), self._build(settings.config, once)
            made = self._made.setdefault(os.getpid(), made)
        return made

    def _build(self, config: dict[str, str], retry: dict[str, Any]) -> Any:
        from obstore.exceptions import UnknownConfigurationKeyError

        failure: InvalidInputError
        try:
            return self._construct(config, retry)
        except UnknownConfigurationKeyError:
            failure = unknown_option(self._unknown(config), KINDS[self.scheme])
        except Exception as error:
            found = self.options.scrubbed(str(error).partition("\n\nDebug source")[0].strip())
            failure = InvalidInputError(
                f"the storage options for {self.root} cannot be used "
                f"({', '.join(sorted(self.options)) or 'none given'}): {found}"
            )
        raise failure  # outside the handler, so that the client's exception is not chained

    def _construct(self, config: dict[str, str], retry: dict[str, Any]) -> Any:
        from obstore.store import AzureStore, GCSStore, S3Store

        kind: Any = {"s3": S3Store, "gs": GCSStore}.get(self.scheme, AzureStore)
        return kind.from_url(
            self.root,
            config=config,
            # Even an empty mapping would make obstore ignore the environment, such as
            # AWS_ALLOW_HTTP.
            client_options=self.settings.client_options or None,
            retry_config=retry,
        )

    def _unknown(self, config: dict[str, str]) -> str:
        """The first key that the client does not know, as the user spelled it."""
        from obstore.exceptions import UnknownConfigurationKeyError

        for key in self.options:
            if key.lower() in config:
                try:
                    self._construct({key.lower(): self.options[key]}, {"max_retries": 0})
                except UnknownConfigurationKeyError:
                    return key
                except Exception:
                    continue
        return ", ".join(sorted(self.options))


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


PAGE = 1_000
"""Objects in one answer to a list request, and keys in one bulk delete."""
_CHUNK = 16 << 20
"""Bytes in one request of an upload in parts: S3 takes 10,000 of them."""
_CHUNKS_AT_ONCE = 4
_NOT_THE_CONDITION = ("ConditionalRequestConflict", "NoSuchBucket")
"""Errors that a client reports as a failed condition although they are something else."""


def get_object(client: Any, path: str) -> bytes:
    import obstore

    return bytes(obstore.get(client, path).bytes())


def get_part(client: Any, path: str, start: int, length: int) -> bytes:
    import obstore

    return bytes(obstore.get_range(client, path, start=start, length=length))


def head_object(client: Any, path: str) -> Any:
    import obstore

    return obstore.head(client, path)


def list_objects(client: Any, directory: str, after: str | None) -> Any:
    import obstore

    return iter(obstore.list(client, directory or None, offset=after, chunk_size=PAGE))


def list_directories(client: Any, directory: str) -> list[str]:
    """The paths of the directories directly in one; the client fetches all pages."""
    import obstore

    found = obstore.list_with_delimiter(client, directory or None)
    return [str(each) for each in found["common_prefixes"]]


def put_object(client: Any, path: str, data: bytes, mode: Any = "overwrite") -> bool:
    """Put an object, and return whether it was written; False where a condition did not hold."""
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    try:
        obstore.put(client, path, data, mode=mode)
    except (AlreadyExistsError, PreconditionError) as error:
        if mode == "overwrite" or any(each in str(error) for each in _NOT_THE_CONDITION):
            raise
        return False
    return True


def put_in_parts(client: Any, path: str, parts: Iterator[bytes]) -> None:
    """One upload of several requests, aborted as a whole when one of them, or ``parts``, fails."""
    import obstore

    obstore.put(
        client, path, parts, use_multipart=True, chunk_size=_CHUNK, max_concurrency=_CHUNKS_AT_ONCE
    )


def copy_object(client: Any, source: str, target: str) -> None:
    import obstore

    obstore.copy(client, source, target)


def rename_object(client: Any, source: str, target: str) -> bool:
    """Rename an object, and return whether that was done; False where the new name is taken."""
    import obstore
    from obstore.exceptions import AlreadyExistsError

    try:
        obstore.rename(client, source, target, overwrite=False)
    except AlreadyExistsError:
        return False
    return True


def delete_objects(client: Any, paths: Sequence[str]) -> None:
    import obstore

    obstore.delete(client, paths)
