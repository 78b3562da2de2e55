"""The servers to begin with."""

from __future__ import annotations

import time

import pytest

from ottla.config import ConfigDraft
from ottla.errors import ConfigError


def problems(servers: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        ConfigDraft.read({"bootstrap.servers": servers}).finish()
    return caught.value.problems


@pytest.mark.parametrize(
    ("written", "addresses"),
    [
        ("kafka:9092", [("kafka", 9092)]),
        (" a:1 , b.example.com:65535 ,", [("a", 1), ("b.example.com", 65535)]),
        (["a:1", "b:2"], [("a", 1), ("b", 2)]),
        (("a:1",), [("a", 1)]),
        ("10.0.0.1:9092", [("10.0.0.1", 9092)]),
        ("[::1]:9092,[fe80::1%eth0]:9093", [("::1", 9092), ("fe80::1%eth0", 9093)]),
        ("a:1,a:1", [("a", 1)]),
    ],
)
def test_servers_are_a_list_or_a_string_with_commas(written: object, addresses: list[object]) -> None:
    assert tuple(addresses) == ConfigDraft.read({"bootstrap.servers": written}).config.connection.bootstrap_servers


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("kafka", "'kafka' has no port"),
        ("[::1]", "'[::1]' has no port"),
        ("kafka:", "'kafka:' has no valid port"),
        ("kafka:0", "a port is a number from 1 to 65535"),
        ("kafka:65536", "a port is a number from 1 to 65535"),
        ("kafka:9_0", "a port is a number from 1 to 65535"),
        (":9092", "has no valid host"),
        ("my host:9092", "has no valid host"),
        ("::1:9092", "write an IPv6 address in brackets"),
        ("[kafka]:9092", "no valid IPv6 address in its brackets"),
        ("SASL_SSL://kafka:9092", "write only host:port, and SASL_SSL as security.protocol"),
        ("ssl://kafka:9092", "write only host:port, and ssl as security.protocol"),
        (9092, "9092 is not a string"),
    ],
)
def test_a_wrong_entry_is_named_with_a_remedy(entry: object, reason: str) -> None:
    [problem] = problems(["good:9092", entry])

    assert problem.startswith("bootstrap.servers: ")
    assert reason in problem


@pytest.mark.parametrize("scheme", ["http", "https", "tcp", "kafka"])
def test_a_scheme_that_is_not_a_security_protocol_is_refused_as_such(scheme: str) -> None:
    [problem] = problems(f"{scheme}://kafka:9092")

    assert problem.endswith("has a scheme; write only host:port")


def test_every_bad_entry_is_named() -> None:
    first, second = problems("a,good:9092,b:x")

    assert "'a'" in first
    assert "'b:x'" in second


def test_a_long_entry_is_refused_at_once() -> None:
    started = time.process_time()
    [problem] = problems("x" * 1_000_000)  # each character was once the begin of another search

    assert len(problem) < 300
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize("nothing", ["", " , ", []])
def test_an_empty_list_is_refused(nothing: object) -> None:
    assert problems(nothing) == ("bootstrap.servers: the list is empty; name at least one server as host:port",)


def test_servers_are_required() -> None:
    assert problems(None) == ("bootstrap.servers: required; name at least one server as host:port",)


def test_credentials_in_an_address_are_not_repeated() -> None:
    [problem] = problems("me:hunter2@kafka:9092")

    assert "hunter2" not in problem
    assert "[hidden]@kafka:9092" in problem
