"""Secrets are handed over, and shown nowhere."""

from __future__ import annotations

import copy
import json
import pickle
import tempfile
import traceback
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.pipeline.definition_files import GOOD, HEAD, SOURCE, TARGET, loaded, refused

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import canonical
from lancewood.pipeline.definition.model import Secret
from lancewood.pipeline.definition.toml_file import Filling, hide, read_toml

WITH_SECRETS = (
    HEAD
    + 'storage_options = { key = "${env:STORE_KEY}" }\n'
    + SOURCE
    + '[params]\nhost = "db"\n'
    + '[sources.db]\nformat = "jdbc"\n'
    + 'options.url = "jdbc:x://${host}?p=${env:DB_PASSWORD}&u=${env:DB_USER}"\n'
    + "options.fetchsize = 1\n"
    + TARGET
)
ENVIRONMENT = {"STORE_KEY": "kEy-1", "DB_PASSWORD": "geheim", "DB_USER": "Ümläut & co", "X": "no"}


def test_an_option_with_a_secret_shows_its_template(tmp_path: Path) -> None:
    found = loaded(tmp_path, WITH_SECRETS, {}, ENVIRONMENT)
    url = found.sources[1].options["url"]
    assert isinstance(url, Secret)
    assert str(url) == "jdbc:x://db?p=${env:DB_PASSWORD}&u=${env:DB_USER}"
    assert url.text == "jdbc:x://db?p=geheim&u=Ümläut & co"
    assert found.sources[1].options["fetchsize"] == "1"
    assert found.storage_options == {"key": Secret("${env:STORE_KEY}", "other")}
    assert found.parameters == {"host": "db"}


def test_a_pipeline_survives_pickling_with_its_secrets(tmp_path: Path) -> None:
    found = loaded(tmp_path, WITH_SECRETS, {}, ENVIRONMENT)
    again = pickle.loads(pickle.dumps(found))
    assert again == found == copy.deepcopy(found)
    assert again.storage_options["key"].text == "kEy-1"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing here", "nothing here"),
        ("geheim", "${env:DB_PASSWORD}"),
        ("no such user: geheimgeheim!", "no such user: ${env:DB_PASSWORD}${env:DB_PASSWORD}!"),
        (
            "cannot open jdbc:x://db?p=geheim&u=Ümläut & co",
            "cannot open jdbc:x://db?p=${env:DB_PASSWORD}&u=${env:DB_USER}",
        ),
        (quote("Ümläut & co"), "${env:DB_USER}"),
        (quote_plus("Ümläut & co"), "${env:DB_USER}"),
        (json.dumps({"u": "Ümläut & co"}), '{"u": "${env:DB_USER}"}'),
        ("kEy-1", "${env:STORE_KEY}"),
    ],
)
def test_secrets_of_a_text_are_hidden(tmp_path: Path, text: str, shown: str) -> None:
    assert hide(loaded(tmp_path, WITH_SECRETS, {}, ENVIRONMENT), text) == shown


def test_an_empty_variable_hides_nothing(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "STORE_KEY": ""}
    assert hide(loaded(tmp_path, WITH_SECRETS, {}, environment), "a text") == "a text"
    assert hide(loaded(tmp_path, GOOD), "geheim") == "geheim"


def test_a_variable_that_is_not_set_is_named(tmp_path: Path) -> None:
    text = GOOD + '[sources.db]\nformat = "jdbc"\noptions.p = "x${env:DB_PASSWORD}" #!\n'
    told = refused(tmp_path, text, "sources.db.options.p", {}, {"X": "geheim"})
    assert told == "the environment variable DB_PASSWORD is not set"


@pytest.mark.parametrize("location", ["", "env:", "env:1", "env:A B", "env:A-B"])
def test_what_is_no_variable_is_refused(tmp_path: Path, location: str) -> None:
    text = GOOD + f'[sources.db]\nformat = "jdbc"\noptions.p = "${{{location}}}" #!\n'
    refused(tmp_path, text, "sources.db.options.p")


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        ('[pipeline]\nname = "zoo"\nmessage = "${env:A}" #!\n', "pipeline.message"),
        (HEAD + '[spark]\nspark.x = "${env:A}" #!\n', "spark.spark.x"),
        (HEAD + '[sources.s]\ntable = "t"\nbad = "${env:A}" #!\n', "sources.s.bad"),
        (HEAD + '[sources.s]\nformat = "csv"\npath = "${env:A}" #!\n', "sources.s.path"),
        (HEAD + "[steps.s]\nsql = \"SELECT '${env:A}'\" #!\n", "steps.s.sql"),
        (
            HEAD + '[steps.s]\npython = "m:f"\ninputs = ["animals"]\narguments.a = "${env:A}" #!\n',
            "steps.s.arguments.a",
        ),
        (
            HEAD + '[[checks]]\ntable = "t"\ncolumn = "c"\naccepted = ["${env:A}"] #!\n',
            "checks[0].accepted[0]",
        ),
    ],
)
def test_secrets_are_refused_in_texts_that_are_shown(tmp_path: Path, lines: str, key: str) -> None:
    told = refused(tmp_path, lines + SOURCE + TARGET, key, {}, {"A": "geheim"})
    assert "secrets are allowed in the options of sources and in storage_options" in told


SECRETS = st.text(min_size=8, max_size=20).map(lambda text: f"s3cr3t{text}".replace("\0", ""))
FAULTS = st.sampled_from(
    [
        "",
        '[sources.x]\nformat = "jdbc"\noptions.a = [1]\n',
        '[sources.x]\nformat = "jdbc"\noptions = { a = "${env:STORE_KEY}", b = "${env:NONE}" }\n',
        '[sources.x]\nformat = "jdbc"\noptions = { "a.b" = "${env:STORE_KEY}", a.b = "" }\n',
        '[sources.x]\nformat = "jdbc"\noptions.a = "${env:STORE_KEY}"\nschema = 1\n',
        '[steps.s]\nsql = "SELECT * FROM ${env:STORE_KEY}"\n',
        '[steps.s]\nsql = "SELECT * FROM nothing"\n',
        '[quarantine]\nmost_rows = "${env:STORE_KEY}"\n',
        '[spark]\nspark.a = "${env:STORE_KEY}"\n',
        "[[checks]]\n",
    ]
)


@settings(max_examples=150, deadline=None)
@given(SECRETS, SECRETS, FAULTS)
def test_no_secret_is_ever_shown(password: str, key: str, fault: str) -> None:
    environment = {"STORE_KEY": key, "DB_PASSWORD": password, "DB_USER": key}
    with tempfile.TemporaryDirectory() as folder:
        text = WITH_SECRETS + fault
        try:
            found = loaded(Path(folder), text, {}, environment)
        except InvalidInputError as error:
            shown = "".join(traceback.format_exception(error)) + repr(error) + repr(error.facts)
            assert fault
        else:
            assert not fault
            data, spot = read_toml(Path(folder) / "zoo.toml")
            said = canonical(data, Filling(found.parameters, environment), spot)
            options = f"{found.sources[1].options} {found.storage_options}"
            url = found.sources[1].options["url"]
            told = f"{key} {password!r} {json.dumps(key)} {quote(password)} {url}"
            shown = f"{found!r} {found} {said} {options} {hide(found, told)} {found.digest}"
    for secret in (password, key):
        for spelling in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], quote(secret)):
            assert spelling not in shown
