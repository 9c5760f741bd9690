"""Storage options: checked early, sorted for obstore, and silent."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from lancewood.errors import InvalidInputError
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions, client_settings
from lancewood.store.retry import REQUESTS

SECRET = "correct-horse-battery-staple"


def test_options_show_their_names_and_no_value() -> None:
    options = StorageOptions({"aws_secret_access_key": SECRET, "region": "eu-west-1"})
    for text in (repr(options), str(options), f"{options}", repr([options])):
        assert SECRET not in text
        assert "eu-west-1" not in text
    assert "aws_secret_access_key" in repr(options)


def test_options_are_an_ordinary_mapping_that_travels() -> None:
    plain = {"region": "x", "aws_secret_access_key": SECRET}
    again = pickle.loads(pickle.dumps(StorageOptions(plain)))
    assert dict(again) == plain
    assert again == StorageOptions(plain)
    assert hash(again) == hash(StorageOptions(plain))


@pytest.mark.parametrize(
    "options", [{"region": 1}, {"allow_http": True}, {1: "x"}, {"token": None}, [("a", "b")], "ab"]
)
def test_options_that_are_no_texts_are_refused(options: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"storage[_ ]option"):
        StorageOptions(options)


def test_scrubbing_takes_secrets_out_and_leaves_places_in() -> None:
    options = StorageOptions({"aws_secret_access_key": SECRET, "endpoint": "http://host:1"})
    assert options.scrubbed(f"no {SECRET} at http://host:1") == "no … at http://host:1"


def test_each_option_goes_where_obstore_wants_it() -> None:
    settings = client_settings(
        StorageOptions(
            {
                "AWS_Region": "x",
                "allow_http": "true",
                "timeout": "3s",
                "headers.x-mine": "1",
                "client_max_retries": "2",
                "client_retry_timeout": "30",
                "download_retry_count": "3",
                "lance_aimd_max_rate": "5",
                "expires_at_millis": "1",
            }
        )
    )
    assert settings.config == {"aws_region": "x"}
    assert settings.client_options == {
        "allow_http": "true",
        "timeout": "3s",
        "default_headers": {"x-mine": "1"},
    }
    assert settings.retry == replace(REQUESTS, attempts=3, seconds=30)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"aws_acess_key_id": SECRET}, "'aws_acess_key_id'.*did you mean 'aws_access_key_id'"),
        ({"regoin": "x"}, "'regoin'.*'region'"),
        ({"nonsense": SECRET}, "'nonsense' is not known for S3"),
        ({"client_max_retries": SECRET}, "'client_max_retries' takes a whole number"),
        ({"client_retry_timeout": "-1"}, "'client_retry_timeout' takes a whole number"),
        ({"endpoint": "localhost:9000"}, "'endpoint' takes a URL"),
        ({"endpoint": f"http://me:{SECRET}@host"}, "'endpoint' takes a URL"),
        ({"region": "a", "REGION": "b"}, "'region' and 'REGION' are the same"),
        ({"region": "a", "aws_region": "b"}, "aws_region, region.*Duplicate"),
        ({"allow_http": "perhaps"}, "allow_http"),
        ({"timeout": "soon"}, "timeout"),
    ],
)
def test_a_wrong_option_is_named_before_anything_is_sent(
    options: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told) as refused:
        open_store("s3://bucket/t", storage_options=options)
    error: BaseException | None = refused.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("scheme", ["gs", "az"])
def test_an_unknown_option_is_named_for_other_stores_too(scheme: str) -> None:
    with pytest.raises(InvalidInputError, match="'nonsense' is not known"):
        open_store(f"{scheme}://box/t", storage_options={"nonsense": SECRET})


def test_options_with_the_number_of_a_place_are_laid_over_the_others() -> None:
    options = StorageOptions({"region": "us", "Base_1.region": "eu", "base_12.region": "ap"})
    assert dict(options.scoped(1, options) or {}) == {"region": "eu"}
    assert dict(options.scoped(12, {"timeout": "1s"}) or {}) == {"region": "ap", "timeout": "1s"}
    assert options.scoped(2, options) is None
    assert client_settings(options).config == {"region": "us"}
