"""Sets of storage options by name: read where the source is made, and never shown."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError, LancewoodError, NotFoundError
from lancewood.spark.source.options import (
    SourceOptions,
    credentials_file,
    parse_options,
    with_credentials,
)

SETS = """
[lake]
account_name = "lake"
account_key = "planted"
[archive]
sas_token = "planted-too"
"""


def asked(**options: str) -> SourceOptions:
    return parse_options({"path": "t.lance", **options})


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "sets.toml").write_text(SETS)
    return {"LANCEWOOD_CREDENTIALS": str(tmp_path / "sets.toml")}


def test_a_set_takes_the_place_of_its_name_and_what_is_said_besides_wins(
    environ: dict[str, str],
) -> None:
    bases = json.dumps({"cold": {"credentials": "archive", "region": "eu"}, "warm": {"a": "b"}})
    given = asked(credentials="lake", account_name="pond", baseStorageOptions=bases)
    found = with_credentials(given, environ)
    assert dict(found.storage_options or {}) == {"account_name": "pond", "account_key": "planted"}
    assert found.base_storage_options == {
        "cold": {"sas_token": "planted-too", "region": "eu"},
        "warm": {"a": "b"},
    }
    assert "planted" not in repr(found)


def test_without_a_name_no_file_is_looked_for() -> None:
    given = asked(region="eu", baseStorageOptions='{"cold": {"region": "us"}}')
    assert with_credentials(given, {"LANCEWOOD_CREDENTIALS": "/not/there"}) is given


def test_the_file_is_where_configuration_is_unless_it_is_named() -> None:
    assert str(credentials_file({"HOME": "/home/me"})) == (
        "/home/me/.config/lancewood/credentials.toml"
    )
    assert str(credentials_file({"XDG_CONFIG_HOME": "/etc/x"})) == (
        "/etc/x/lancewood/credentials.toml"
    )
    assert str(credentials_file({"LANCEWOOD_CREDENTIALS": "/a/b", "HOME": "/c"})) == "/a/b"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (None, NotFoundError, r"there is none: write it, or name another with LANCEWOOD_CREDENT"),
        ("", NotFoundError, "no credentials 'lake' in .*: it has none"),
        ("lake = 'planted'", NotFoundError, "no credentials 'lake' in .*: it has 'lake'"),
        ("[pond]\na = 'planted'", NotFoundError, "it has 'pond'"),
        ("[lake]\naccount_key = planted", InvalidInputError, "cannot read the credentials of"),
        ("[lake]\ntimeout = 3", InvalidInputError, "timeout is no text; write it in quotes"),
    ],
)
def test_what_is_wrong_with_the_file_is_told_without_a_value(
    tmp_path: Path, text: str | None, kind: type[LancewoodError], words: str
) -> None:
    path = tmp_path / "sets.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(kind, match=words) as refused:
        with_credentials(asked(credentials="lake"), {"LANCEWOOD_CREDENTIALS": str(path)})
    assert "planted" not in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
