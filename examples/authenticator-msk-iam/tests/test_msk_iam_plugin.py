"""The plugin as the core sees it: found by its name, its keys checked, its logins as AWS writes them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.config import ConfigDraft
from ottla.config.allow_lists import options_of_others
from ottla.errors import AuthenticationError, ConfigError, ConnectionFailedError
from ottla.interfaces import Authenticator, Mechanism, MetricName, Step
from ottla.plugins.registry import Registry
from ottla_authenticator_msk_iam_example import Credentials, MskIamMechanism
from ottla_testkit.conformance import metric_values, plugin_context

HOST = "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com"
NOON = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
KEYS = {"aws.msk.access.key.id": "AKID", "aws.msk.secret.access.key": "s3cret"}


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)


def made(settings: dict[str, Any]) -> Mechanism:
    """The mechanism for these settings, as the core makes it."""
    plugin = Registry().plugin("authenticator", "aws_msk_iam")
    draft = ConfigDraft.read({"bootstrap.servers": "kafka:9098"} | settings)
    values = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish()
    mechanism: Mechanism = plugin.create(values)
    return mechanism


def said(settings: dict[str, Any], host: str = HOST) -> dict[str, str]:
    """The first message to a broker."""
    message: dict[str, str] = json.loads(made(settings).authenticator(host, 9098).start())
    return message


def exchange(credentials: Callable[[], Credentials]) -> Authenticator:
    mechanism = MskIamMechanism(credentials, region=None, context=plugin_context(), clock=lambda: NOON)
    return mechanism.authenticator(HOST, 9098)


def test_the_plugin_is_found_by_name_and_has_the_required_attributes() -> None:
    mechanism = made(KEYS)

    assert mechanism.name == "AWS_MSK_IAM"
    assert isinstance(mechanism, Mechanism)
    assert isinstance(mechanism.authenticator(HOST, 9098), Authenticator)


def test_each_login_is_counted() -> None:
    context = plugin_context()
    keys = Credentials(access_key="AKID", secret_key="s3cret", session_token=None)
    mechanism = MskIamMechanism(lambda: keys, region=None, context=context)
    for host in (HOST, HOST, "another.example.com"):
        mechanism.authenticator(host, 9098)

    assert metric_values(context) == {MetricName("plugins", "aws-msk-iam-logins-total"): 3}


def test_the_first_message_equals_that_of_the_aws_library() -> None:
    keys = Credentials(access_key="AKID", secret_key="s3cret", session_token="t0ken")

    message = json.loads(exchange(lambda: keys).start())
    assert len(message.pop("x-amz-signature")) == 64
    assert message == {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "ottla-authenticator-msk-iam-example",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKID/20261121/eu-central-1/kafka-cluster/aws4_request",
        "x-amz-date": "20261121T120000Z",
        "x-amz-security-token": "t0ken",
        "x-amz-signedheaders": "host",
        "x-amz-expires": "900",
    }


def test_credentials_are_requested_again_at_each_login() -> None:
    numbers = iter(range(10))
    settings = {"aws.msk.credentials.provider": lambda: (f"AKID{next(numbers)}", "s3cret", "t0ken")}
    mechanism = made(settings)
    messages = [json.loads(mechanism.authenticator(HOST, 9098).start()) for _ in range(2)]

    assert [message["x-amz-credential"][:5] for message in messages] == ["AKID0", "AKID1"]


def test_keys_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "t0ken")

    assert said({})["x-amz-credential"].startswith("ENV/")
    assert said({})["x-amz-security-token"] == "t0ken"
    assert "x-amz-security-token" not in said(KEYS)


def test_options_of_others_use_no_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    monkeypatch.delenv("OTTLA_ALLOWED_LOGINS", raising=False)
    with options_of_others(), pytest.raises(ConfigError, match="can allow it with OTTLA_ALLOWED_LOGINS=aws"):
        made({})
    with options_of_others():
        made(KEYS)
        monkeypatch.setenv("OTTLA_ALLOWED_LOGINS", "aws")
        made({})


@pytest.mark.parametrize(
    ("settings", "host", "region"),
    [
        ({}, HOST, "eu-central-1"),
        ({}, "boot-x.c3.kafka-serverless.us-east-1.amazonaws.com", "us-east-1"),
        ({}, "b-1.x.c2.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ({"aws.msk.region": "us-west-2"}, HOST, "us-west-2"),
        ({"aws.msk.region": "us-west-2"}, "localhost", "us-west-2"),
    ],
)
def test_the_region_is_read_from_the_broker_name_unless_it_is_set(
    settings: dict[str, str], host: str, region: str
) -> None:
    assert said(KEYS | settings, host)["x-amz-credential"].split("/")[2] == region


def test_the_region_of_this_machine_counts_only_without_one_in_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")

    regions = [said(KEYS, host)["x-amz-credential"].split("/")[2] for host in (HOST, "kafka.internal")]
    assert regions == ["eu-central-1", "us-east-1"]


def test_a_missing_region_is_reported_as_required() -> None:
    with pytest.raises(ConnectionFailedError, match=r"aws\.msk\.region is needed: .*'localhost' does not say it"):
        made(KEYS).authenticator("localhost", 9098).start()


def test_a_receipt_ends_the_login() -> None:
    answer = b'{"version": "2020_10_22", "request-id": "7"}'

    assert made(KEYS).authenticator(HOST, 9098).challenge(answer) == Step(reply=None, done=True)


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"version": "2030_01_01"}'])
def test_a_response_that_is_not_a_receipt_is_refused(answer: bytes) -> None:
    with pytest.raises(AuthenticationError, match="which is no receipt") as caught:
        made(KEYS).authenticator(HOST, 9098).challenge(answer)

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "needs aws.msk.access.key.id and aws.msk.secret.access.key, aws.msk.credentials.provider, or AWS_ACC"),
        ({"aws.msk.access.key.id": "AKID"}, "needs aws.msk.access.key.id and aws.msk.secret.access.key"),
        (KEYS | {"aws.msk.credentials.provider": lambda: ("a", "b")}, "are both given; leave one out"),
        ({"aws.msk.credentials.provider": "s3cret"}, "a function that returns the keys, as a tuple"),
        (KEYS | {"aws.msk.session.token": b"s3cret"}, "aws.msk.session.token=[hidden]"),
    ],
)
def test_unusable_settings_are_refused_with_a_remedy(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(settings)

    assert words in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("given", [None, "s3cret", ("s3cret",), ("AKID", ""), ("AKID", 7), ("a", "b", "c", "s3cret")])
def test_a_function_with_a_wrong_result_is_refused_with_the_right_type(given: Any) -> None:
    with pytest.raises(AuthenticationError, match="must return access key, secret key and") as caught:
        said({"aws.msk.credentials.provider": lambda: given})

    assert "s3cret" not in str(caught.value)


def test_an_error_of_a_function_is_the_cause_and_is_not_quoted() -> None:
    def provide() -> None:
        raise RuntimeError("s3cret")

    with pytest.raises(AuthenticationError, match="provider raised RuntimeError") as caught:
        said({"aws.msk.credentials.provider": provide})
    assert "s3cret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_the_secret_keys_are_declared_as_secrets() -> None:
    keys = Registry().plugin("authenticator", "AWS_MSK_IAM").config_keys()

    assert {key.name for key in keys if key.secret} == {"aws.msk.secret.access.key", "aws.msk.session.token"}
