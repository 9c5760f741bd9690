"""Manifest stores in DynamoDB, in the layout of pylance's ``s3+ddb://``: both commit to one table.

The table must exist, with hash key ``base_uri`` (S) and range key ``version`` (N). Reads are
strongly consistent and retried; a conditional put is sent once, because one that is sent twice can
conflict with itself. The endpoint is ``dynamodb_endpoint`` of the storage options, or
``DYNAMODB_ENDPOINT`` of the environment, as for pylance; the rest is as for S3.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from lancewood.errors import FormatError, StorageError, UnsupportedError
from lancewood.external.base import ManifestEntry
from lancewood.model.ids import Version
from lancewood.store.options import StorageOptions
from lancewood.version import how_to_install

T = TypeVar("T")
_COMMITTER = "lancewood"
_TOGETHER = 25
"""Number of deletes in one request."""
_WORKERS = 8
_TURNED_AWAY = {
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TransactionConflictException",
}
_NOT_MET = "ConditionalCheckFailedException"
_KEYS = {
    "aws_access_key_id": ("aws_access_key_id", "access_key_id"),
    "aws_secret_access_key": ("aws_secret_access_key", "secret_access_key"),
    "aws_session_token": ("aws_session_token", "aws_token", "session_token", "token"),
    "region_name": ("aws_region", "region", "aws_default_region", "default_region"),
    "endpoint_url": ("dynamodb_endpoint",),
}
"""boto3's name of an option, and its names here."""


@dataclass(frozen=True, repr=False)
class DynamoDBManifests:
    """One table of DynamoDB. The options are pickled with it, and its repr does not show them."""

    _table: str
    _options: StorageOptions
    kind: ClassVar[str] = "dynamodb"

    def __repr__(self) -> str:
        return f"DynamoDBManifests({self._table!r})"

    def get(self, base: str, version: Version) -> ManifestEntry | None:
        found = self._ask(
            lambda client: client.get_item(
                TableName=self._table, Key=_key(base, version), ConsistentRead=True
            )
        )
        return self._entry(found["Item"]) if "Item" in found else None

    def latest(self, base: str) -> ManifestEntry | None:
        found = self._ask(
            lambda client: client.query(
                TableName=self._table,
                KeyConditionExpression="base_uri = :base",
                ExpressionAttributeValues={":base": {"S": base}},
                ScanIndexForward=False,
                Limit=1,
                ConsistentRead=True,
            )
        )
        return self._entry(found["Items"][0]) if found["Items"] else None

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        return self._put(
            base, entry, "attribute_not_exists(base_uri) AND attribute_not_exists(version)"
        )

    def put_if_exists(self, base: str, entry: ManifestEntry) -> bool:
        condition = "attribute_exists(base_uri) AND attribute_exists(version)"
        return self._put(base, entry, condition, may_repeat=True)

    def forget(self, base: str, gone: Mapping[Version, str] | None = None) -> None:
        if gone is None:
            self._forget_all(base)
        elif gone:
            with ThreadPoolExecutor(min(_WORKERS, len(gone))) as pool:
                for _ in pool.map(lambda each: self._forget(base, *each), gone.items()):
                    pass

    def _forget(self, base: str, version: Version, path: str) -> None:
        """Delete one entry; deleting a missing one is fine, so the request may be repeated."""

        def delete(client: Any) -> bool:
            client.delete_item(
                TableName=self._table,
                Key=_key(base, version),
                ConditionExpression="#path = :path",
                ExpressionAttributeNames={"#path": "path"},
                ExpressionAttributeValues={":path": {"S": path}},
            )
            return True

        self._conditional(delete, _clients(self._options).patient)

    def _forget_all(self, base: str) -> None:
        def page(client: Any) -> Any:
            return client.query(
                TableName=self._table,
                KeyConditionExpression="base_uri = :base",
                ExpressionAttributeValues={":base": {"S": base}},
                ProjectionExpression="version",
                Limit=1_000,
                ConsistentRead=True,
            )

        while found := self._ask(page)["Items"]:
            for start in range(0, len(found), _TOGETHER):
                self._delete(
                    [{"base_uri": {"S": base}, **each} for each in found[start:][:_TOGETHER]]
                )

    def _delete(self, keys: Sequence[Mapping[str, Any]]) -> None:
        left = {self._table: [{"DeleteRequest": {"Key": each}} for each in keys]}

        def delete(client: Any) -> Any:
            return client.batch_write_item(RequestItems=left)

        while left:
            left = self._ask(delete)["UnprocessedItems"]

    def _entry(self, item: Any) -> ManifestEntry:
        try:
            size = item["size"]["N"] if "size" in item else None
            return ManifestEntry(
                Version(int(item["version"]["N"])),
                str(item["path"]["S"]),
                None if size is None else int(size),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"an item of table {self._table!r} in DynamoDB is no entry of a manifest store: "
                "expected version (N) and path (S)"
            ) from error

    def _put(
        self, base: str, entry: ManifestEntry, condition: str, *, may_repeat: bool = False
    ) -> bool:
        item = {**_key(base, entry.version), "path": {"S": entry.path}}
        item["committer"] = {"S": _COMMITTER}
        if entry.size is not None:
            item["size"] = {"N": str(entry.size)}

        def put(client: Any) -> bool:
            client.put_item(TableName=self._table, Item=item, ConditionExpression=condition)
            return True

        clients = _clients(self._options)
        return self._conditional(put, clients.patient if may_repeat else clients.once)

    def _conditional(self, action: Callable[[Any], bool], client: Any) -> bool:
        """Whether the condition held."""
        answer = self._try(action, client)
        if isinstance(answer, StorageError):
            if answer.facts.get("code") == _NOT_MET:
                return False
            raise answer
        return answer

    def _ask(self, action: Callable[[Any], T]) -> T:
        answer = self._try(action, _clients(self._options).patient)
        if isinstance(answer, StorageError):
            raise answer
        return answer

    def _try(self, action: Callable[[Any], T], client: Any) -> T | StorageError:
        """What the client returned, or the error for its exception; the caller raises that, so that
        the client's own is not chained."""
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            return action(client)
        except ClientError as error:
            return self._refused(error.response)
        except NoCredentialsError:
            return self._error(
                "no credentials were found; give them in storage_options or in the environment",
                final=True,
                landed=False,
            )
        except BotoCoreError as error:
            return self._error(str(error))

    def _refused(self, response: Any) -> StorageError:
        said = response.get("Error", {})
        code, text = said.get("Code", ""), said.get("Message", "")
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        facts: dict[str, Any] = {"code": code}
        if 400 <= status < 500:
            facts["landed"] = False
            facts["final"] = code not in _TURNED_AWAY
        if code == "ResourceNotFoundException":
            text = (
                "there is no such table; make it with hash key base_uri (S) and range key "
                "version (N)"
            )
        return self._error(f"{code}: {text}" if text else code, **facts)

    def _error(self, said: str, **facts: Any) -> StorageError:
        message = self._options.scrubbed(" ".join(said.split())[:300])
        return StorageError(
            f"the manifest store in table {self._table!r} of DynamoDB failed: {message}",
            table=self._table,
            **facts,
        )


class _Clients:
    """boto3's clients for one set of options in one process. Thread-safe."""

    def __init__(self, options: StorageOptions) -> None:
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError
        except ImportError as missing:
            raise UnsupportedError(
                f"a manifest store in DynamoDB needs boto3: {how_to_install('dynamodb')}"
            ) from missing
        lower = {key.lower(): value for key, value in options.items()}
        known = {
            name: next((lower[each] for each in names if each in lower), None)
            for name, names in _KEYS.items()
        }
        endpoint = known.pop("endpoint_url") or os.environ.get("DYNAMODB_ENDPOINT") or None
        # boto3 reads only AWS_DEFAULT_REGION; the clients of S3, and pylance, read this one too.
        known["region_name"] = known["region_name"] or os.environ.get("AWS_REGION") or None
        failure: str
        try:
            session = boto3.session.Session(**known)
            self.patient, self.once = (
                session.client(
                    "dynamodb",
                    endpoint_url=endpoint,
                    config=Config(retries={"total_max_attempts": each, "mode": "standard"}),
                )
                for each in (8, 1)
            )
            return
        except (BotoCoreError, ValueError) as error:
            failure = options.scrubbed(str(error))
        raise StorageError(
            f"DynamoDB cannot be reached: {failure} Give aws_region and credentials "
            "in storage_options or in the environment",
            final=True,
            landed=False,
        )


_made: dict[tuple[int, StorageOptions], _Clients] = {}
_making = threading.Lock()


def _clients(options: StorageOptions) -> _Clients:
    """The clients of this process: a forked child does not share those of its parent."""
    key = (os.getpid(), options)
    found = _made.get(key)
    if found is None:
        with _making:
            found = _made.get(key) or _Clients(options)
            _made[key] = found
    return found


def _key(base: str, version: Version) -> dict[str, dict[str, str]]:
    return {"base_uri": {"S": base}, "version": {"N": str(version)}}
