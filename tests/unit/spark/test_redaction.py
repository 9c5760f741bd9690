"""What Spark is told to hide. Java runs the same patterns in tests/spark/test_secrets.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lancewood.spark.session import NAMES, OF_SETTINGS, TEXTS, hide_secrets
from lancewood.store.options import is_secret

KNOWN = (
    *("access_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "token"),
    *("account_key", "azure_storage_account_key", "azure_storage_sas_key", "sas_token"),
    *("bearer_token", "azure_client_secret", "google_service_account_key", "proxy_url"),
    *("google_application_credentials", "encryption_key", "aws_sse_customer_key_base64"),
    *("headers.authorization", "headers.x-mine", "base_1.account_key", "storage.account_key"),
)
"""Options of obstore and pylance that hold a secret, or lead to one."""


@pytest.mark.parametrize("name", [*KNOWN, "spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY"])
def test_an_option_that_holds_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret(name)
    for pattern in (NAMES, OF_SETTINGS):
        assert re.search(pattern, name)
        assert re.search(pattern, name.upper())


def test_every_option_of_obstore_that_sounds_like_a_secret_is_hidden_by_spark_too() -> None:
    obstore = pytest.importorskip("obstore", reason="obstore is not installed")
    stubs = (Path(obstore.__file__).parent / "_store").glob("*.pyi")
    names = {
        each
        for stub in stubs
        for each in re.findall(r"^    ([a-z_0-9]+): ", stub.read_text(), re.M)
    }
    sounding = {each for each in names if is_secret(each)}
    assert {"account_key", "access_key_id", "service_account_key", "default_headers"} <= sounding
    missed = {each for each in sounding if not re.search(NAMES, each)}
    assert missed == {"authority_host"}, "which says where, not who"


@pytest.mark.parametrize(
    "shown",
    [
        *("region", "aws_endpoint", "account_name", "path", "/data/monkeys.lance", "timeout"),
        *("/jars/hadoop-auth-3.4.jar", "spark.sql.shuffle.partitions", "s3://bucket/keyboards"),
    ],
)
def test_what_is_no_secret_is_to_be_seen(shown: str) -> None:
    assert not re.search(NAMES, shown)


@pytest.mark.parametrize(
    "text",
    [
        'options {\n  key: "account_key"\n  value: "planted"\n}',
        'key: "storage.aws_access_key_id"\n      value: "a\\"planted\\\\"\n}',
        'key: "baseStorageOptions"\n value: "{\\"cold\\": {\\"account_key\\": \\"planted\\"}}"',
        "OPTIONS (path \\'/t\\', account_key \\'planted\\')",
        "OPTIONS (path '/t', `storage.sas_token` = 'planted', region 'eu')",
        'OPTIONS (account_key "planted")',
        'OPTIONS (baseStorageOptions \'{"cold": {"account_key": "planted"}}\')',
        "Map(headers.x-mine -> 'planted')",
    ],
)
def test_a_secret_is_cut_out_of_a_text(text: str) -> None:
    assert "planted" not in re.sub(TEXTS, "(redacted)", text)


def test_the_rest_of_a_text_stays() -> None:
    request = 'key: "path"\n value: "/t"\n} options { key: "account_key" value: "x" } key: "region"'
    left = re.sub(TEXTS, "…", request)
    assert left == 'key: "path"\n value: "/t"\n} options { key: "account_…" } key: "region"'
    for text in ("SELECT key FROM t WHERE keys = 'x1'", "account_key#12 = abc", 'key: "path"'):
        assert re.sub(TEXTS, "…", text) in (text, "SELECT key FROM t WHERE …'")


class Settings:
    """As much of a session as is asked."""

    def __init__(self, **found: str) -> None:
        self.conf = self
        self.found = {name.replace("_", "."): value for name, value in found.items()}

    def get(self, name: str, default: Any) -> Any:
        return self.found.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.found[name] = value


def test_what_a_session_hides_already_stays_hidden() -> None:
    options, texts = "spark.sql.redaction.options.regex", "spark.sql.redaction.string.regex"
    session = Settings(spark_sql_redaction_options_regex="(?i)url")
    hide_secrets(session, ())
    hide_secrets(session, ())
    assert session.found == {options: f"(?i)url|{NAMES}", texts: TEXTS}
    session = Settings(spark_sql_redaction_options_regex="mine")
    hide_secrets(session, {options: "mine"})
    assert session.found == {options: "mine", texts: TEXTS}
