"""What a client's exceptions mean: found or not, final or passing, certain or unclear."""

from __future__ import annotations

import pytest

from lancewood.errors import (
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.store.answers import FailureAnswer, read_answer
from lancewood.store.options import StorageOptions

SECRET = "correct-horse-battery-staple"
OPTIONS = StorageOptions({"aws_secret_access_key": SECRET, "endpoint": "http://host:1"})
SAID = "Generic S3 error: Error performing PUT http://host:1/b/k in 1ms - "


class GenericError(Exception):
    pass


class NotSupportedError(Exception):
    pass


def answer(error: BaseException) -> FailureAnswer:
    return read_answer(error, "write", "k", "s3://b/t", OPTIONS)


def refused(status: str, code: str, text: str = "because") -> GenericError:
    return GenericError(
        f"{SAID}Server returned non-2xx status code: {status} Some Reason: "
        f"<Error><Code>{code}</Code><Message>{text}</Message></Error>\n\nDebug source:\nGeneric"
    )


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (refused("404", "NoSuchBucket"), "bucket does not exist; create it"),
        (FileNotFoundError("… <Code>NoSuchBucket</Code> …"), "bucket does not exist"),
        (refused("403", "AccessDenied", "Access Denied"), r"403 AccessDenied \(Access Denied\)"),
        (refused("401", "Unauthorized"), "check the credentials"),
        (refused("400", "InvalidRequest", "no such thing"), r"400 InvalidRequest \(no such thing"),
        (refused("301", "PermanentRedirect"), "another region; give 'region'"),
        (GenericError("Received redirect without LOCATION, this normally …"), "another region"),
        (GenericError(f"{SAID}HTTP error: builder error"), "'allow_http': 'true'"),
        (
            GenericError("Error performing PUT http://169.254.169.254/latest/api/token in 1s"),
            "no credentials were found",
        ),
    ],
)
def test_a_certain_refusal_is_final_and_nothing_landed(error: Exception, told: str) -> None:
    found = answer(error)
    assert isinstance(found.error, StorageError)
    assert found.error.facts["landed"] is False
    assert found.error.facts["final"] is True
    assert not found.is_passing
    with pytest.raises(StorageError, match=told):
        raise found.error


@pytest.mark.parametrize(
    ("error", "throttle"),
    [
        (refused("503", "SlowDown"), True),
        (refused("429", "TooManyRequests"), True),
        (refused("503", "ServiceUnavailable"), True),
        (refused("500", "InternalError"), False),
        (refused("502", "BadGateway"), False),
        (refused("408", "RequestTimeout"), False),
        (refused("409", "ConditionalRequestConflict"), False),
        (GenericError(f"{SAID}HTTP error: error sending request"), False),
        (GenericError("Delete of k failed: <Code>SlowDown</Code>"), True),
    ],
)
def test_what_may_pass_is_unclear(error: Exception, throttle: bool) -> None:
    found = answer(error)
    assert isinstance(found.error, StorageError)
    assert "landed" not in found.error.facts
    assert found.is_passing
    assert found.is_throttle == throttle


@pytest.mark.parametrize(
    ("debug", "told"),
    [
        ("HttpError { kind: Timeout }", "no answer in time; a larger 'timeout'"),
        ("HttpError { kind: Connect, Os { kind: ConnectionRefused } }", "nothing listens"),
        ('HttpError { kind: Connect, "dns error" }', "name is not known"),
        ("HttpError { kind: Connect }", "no connection to the endpoint"),
        ("HttpError { kind: Interrupted }", "connection broke"),
        ("HttpError { kind: Unknown }", "error sending request"),
    ],
)
def test_trouble_on_the_way_is_told_in_words(debug: str, told: str) -> None:
    error = GenericError(f"{SAID}HTTP error: error sending request\n\nDebug source:\n{debug}")
    assert told in str(answer(error).error)


def test_other_answers_have_their_own_kind() -> None:
    assert isinstance(answer(FileNotFoundError("Object at k not found: 404")).error, NotFoundError)
    assert isinstance(answer(ValueError("Could not parse path")).error, InvalidInputError)
    unsupported = answer(NotSupportedError("Operation not supported")).error
    assert isinstance(unsupported, UnsupportedError)
    assert unsupported.facts["landed"] is False
    assert answer(refused("416", "InvalidRange")).is_beyond


def test_no_answer_repeats_a_secret() -> None:
    signed = f"https://host/k?sig={SECRET}&x=1"
    for error in (
        refused("403", "Denied", f"the key {SECRET} is wrong"),
        refused("418", SECRET, SECRET),
        refused("500", SECRET),
        GenericError(f"{SAID}at {signed}"),
        GenericError(f"HTTP error at {signed}"),
        NotSupportedError(signed),
        ValueError(signed),
    ):
        found = answer(error).error
        assert SECRET not in str(found)
        assert SECRET not in str(found.facts)
