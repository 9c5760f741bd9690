"""Storage options: one dictionary for both clients of an object store.

Separates the keys for obstore from those that only pylance takes, and hides every value. Does not
read the environment (both clients do that by themselves).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, NamedTuple

from lancewood.errors import InvalidInputError
from lancewood.store.retry import REQUESTS, Retry

RETRIES_KEY = "client_max_retries"
RETRY_TIMEOUT_KEY = "client_retry_timeout"
_HEADER = "headers."
_ONLY_PYLANCE = re.compile(
    r"download_retry_count|use_opendal|expires_at_millis|refresh_offset_millis|lance_aimd_\w+"
    r"|base_\d+\..+|dynamodb_endpoint"
)
_SCOPED = re.compile(r"base_\d+\.")
_OF_THE_CONNECTION = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
_HARMLESS = (_OF_THE_CONNECTION | {RETRIES_KEY, RETRY_TIMEOUT_KEY}) - {"proxy_url"}
_COMMON = (
    *_OF_THE_CONNECTION,
    RETRIES_KEY,
    RETRY_TIMEOUT_KEY,
    "account_key",
    "account_name",
    "aws_access_key_id",
    "aws_endpoint",
    "aws_region",
    "aws_secret_access_key",
    "aws_session_token",
    "aws_virtual_hosted_style_request",
    "azure_storage_account_key",
    "azure_storage_account_name",
    "azure_storage_sas_token",
    "endpoint",
    "google_service_account",
    "google_service_account_key",
    "region",
    "sas_token",
)
_WHOLE_NUMBER = re.compile(r"\d{1,6}")


SECRET_WORDS = (
    *("auth", "credential", "header", "key", "password", "private", "proxy", "sas", "secret"),
    *("signature", "token"),
)
"""Parts of the names of options whose values are secrets; see ``is_secret``."""

CREDENTIALS_COME_FROM = (
    "storage_options or the environment; a base path in another bucket than its table has its own "
    "in base_storage_options"
)


class StorageOptions(Mapping[str, str]):
    """Credentials, endpoints and settings. Shows its keys, never a value."""

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        if options is not None and not isinstance(options, Mapping):
            raise InvalidInputError(
                f"storage_options takes a dictionary of texts, got a {type(options).__name__}"
            )
        for key, value in (options or {}).items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidInputError(
                    f"storage option {key!r} is not allowed: names and values are texts, "
                    f"its value is a {type(value).__name__}"
                )
        self._options = dict(options or {})

    def __getitem__(self, key: str) -> str:
        return self._options[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def __hash__(self) -> int:
        return hash(frozenset(self._options.items()))

    def __repr__(self) -> str:
        return f"<StorageOptions {', '.join(sorted(self._options)) or 'none'}>"

    def scoped(self, number: int, shared: Mapping[str, str] | None) -> StorageOptions | None:
        """The options for one of several base paths, which pylance numbers: those called
        ``base_<number>.…``, over the ``shared`` ones; None if there are none."""
        prefix = f"base_{number}."
        own = {
            key[len(prefix) :]: each for key, each in self.items() if key.lower().startswith(prefix)
        }
        if not own:
            return None
        rest = {key: each for key, each in (shared or {}).items() if not _SCOPED.match(key.lower())}
        return StorageOptions({**rest, **own})

    def without_credentials(self) -> StorageOptions:
        """The options that say where or how, and not who."""
        return StorageOptions({key: each for key, each in self.items() if is_harmless(key)})

    def scrubbed(self, text: str) -> str:
        """The text without any of the values that are long enough to be recognised.

        Endpoints, regions and the like are kept.
        """
        for key, value in self._options.items():
            if len(value) >= 4 and not is_harmless(key):
                text = text.replace(value, "…")
        return text


def is_secret(name: str) -> bool:
    """Whether an option's value is secret, judging by its name, even if misspelt."""
    return any(each in name.lower() for each in SECRET_WORDS)


def is_harmless(key: str) -> bool:
    """Whether an option says where or how, and not who. False for an unknown one."""
    lower = key.lower()
    return lower in _HARMLESS or lower.endswith(
        (
            "endpoint",
            "endpoint_url",
            "endpoint_url_s3",
            "region",
            "account_name",
            "bucket",
            "_style_request",
            "skip_signature",
        )
    )


class ClientSettings(NamedTuple):
    """The options, sorted into what obstore takes separately."""

    config: dict[str, str]
    client_options: dict[str, Any]
    retry: Retry


def client_settings(options: StorageOptions) -> ClientSettings:
    """The settings for obstore; what only pylance understands is left out.

    Raises InvalidInputError for an invalid number, and for one key under two spellings.
    """
    config: dict[str, str] = {}
    connection: dict[str, Any] = {}
    headers: dict[str, str] = {}
    retry = REQUESTS
    seen: dict[str, str] = {}
    for key, value in options.items():
        lower = key.lower()
        if lower in seen:
            raise InvalidInputError(f"storage options {seen[lower]!r} and {key!r} are the same one")
        seen[lower] = key
        if lower == RETRIES_KEY:
            retry = replace(retry, attempts=_number(key, value) + 1)
        elif lower == RETRY_TIMEOUT_KEY:
            retry = replace(retry, seconds=_number(key, value))
        elif lower.startswith(_HEADER):
            headers[key[len(_HEADER) :]] = value
        elif lower in _OF_THE_CONNECTION:
            connection[lower] = value
        elif not _ONLY_PYLANCE.fullmatch(lower):
            config[lower] = value
        if lower.endswith(("endpoint", "endpoint_url", "endpoint_url_s3")):
            _check_endpoint(key, value)
    if headers:
        connection["default_headers"] = headers
    return ClientSettings(config, connection, retry)


def unknown_option(key: str, kind: str) -> InvalidInputError:
    """The error for an option that no client of this kind of store takes."""
    near = get_close_matches(key.lower(), _COMMON, n=1, cutoff=0.7)
    hint = f"; did you mean {near[0]!r}?" if near else "; remove it, or correct its name"
    return InvalidInputError(f"storage option {key!r} is not known for {kind}{hint}", option=key)


def _number(key: str, value: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(value):
        raise InvalidInputError(f"storage option {key!r} takes a whole number", option=key)
    return int(value)


def _check_endpoint(key: str, value: str) -> None:
    if not re.fullmatch(r"https?://[^/\s@]+(/\S*)?", value, re.IGNORECASE):
        raise InvalidInputError(
            f"storage option {key!r} takes a URL that begins with https:// or http://, "
            "without a name or password in it",
            option=key,
        )
