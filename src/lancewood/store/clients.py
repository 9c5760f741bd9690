"""obstore's clients for one bucket: made when first needed, once in each process.

There are two: ``patient`` sends a request again when that may help; ``once`` never does, because a
conditional put that is sent twice can conflict with itself.

obstore's threads and sockets do not survive a fork: a child of a process that has used them would
hang for ever, and its parent with it. Such a child is refused; a fork before the first use, as
Spark's, is fine.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.store.options import ClientSettings, StorageOptions, client_settings, unknown_option

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
