"""A registry that refuses, fails, is slow or lies: every fault is a typed error in time, and reveals no secret."""

from __future__ import annotations

import random
import socket
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
from hostile_registry import Hostile, hostile_registry, hostile_server, says, trickles
from interrupted_anywhere import Interruption
from without_ipv6 import WithoutIPv6, addresses

from ottla.interfaces import Secret
from ottla_serializer_schema_registry import (
    IncompatibleSchemaError,
    InvalidSchemaError,
    RegistryAccessError,
    RegistryAnswerError,
    RegistryUnavailableError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.client import LATEST, SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import MAX_ANSWER
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry.host_names import HostNames
from ottla_serializer_schema_registry.registry.schemas import AVRO, Schema

hostile = hostile_server

SCHEMA = Schema(kind=AVRO, text='"long"')
NO_WORDS = {"message": 1}


@pytest.fixture
def registry(hostile: Hostile) -> SchemaRegistry:
    return SchemaRegistry(Exchanges([hostile.address], authorization=Authorization.bearer(Secret("hunter2"))))


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, RegistryAccessError),
        (403, RegistryAccessError),
        (404, SchemaNotFoundError),
        (409, IncompatibleSchemaError),
        (422, InvalidSchemaError),
        (302, RegistryAnswerError),
        (418, RegistryAnswerError),
    ],
)
def test_a_refusal_is_typed_and_quotes_the_words(
    hostile: Hostile, registry: SchemaRegistry, status: int, error: type[SchemaRegistryError]
) -> None:
    hostile.last = says({"error_code": 40901, "message": "field\n\x1b[31m'id' is missing"}, status=status)
    with pytest.raises(error, match=r"error code 40901: \"field\\n\\x1b\[31m'id' is missing\"") as caught:
        registry.register("orders-value", SCHEMA, timeout=30)
    assert type(caught.value) is error
    assert len(hostile.requests) == 1, "a refusal is final"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_fault_is_tried_again(hostile: Hostile, registry: SchemaRegistry, status: int) -> None:
    hostile.answers = [says(NO_WORDS, status=status), says(b'{"id"', length=100)]
    assert registry.register("orders-value", SCHEMA, timeout=30).id == 7
    assert len(hostile.requests) == 3


def test_the_time_that_the_registry_asks_for_is_waited(hostile: Hostile) -> None:
    pauses: list[float] = []
    registry = SchemaRegistry(Exchanges([hostile.address], sleep=pauses.append))
    hostile.answers = [says({}, status=429, headers={"Retry-After": "17"})]
    assert registry.register("orders-value", SCHEMA, timeout=30).id == 7
    assert pauses == [pytest.approx(17.0, abs=1.0)]


def test_a_wait_longer_than_the_time_left_ends_at_once(hostile: Hostile) -> None:
    pauses: list[float] = []
    registry = SchemaRegistry(Exchanges([hostile.address], sleep=pauses.append))
    hostile.last = says({}, status=429, headers={"Retry-After": "999999"})
    with pytest.raises(RegistryUnavailableError, match="status 429"):
        registry.register("orders-value", SCHEMA, timeout=30)
    assert pauses == []


@pytest.mark.parametrize("seconds", ["3", "999999"])
def test_the_next_address_is_asked_while_one_asks_for_time(hostile: Hostile, seconds: str) -> None:
    pauses: list[float] = []
    hostile.last = says({}, status=503, headers={"Retry-After": seconds})
    with hostile_registry() as second:
        registry = SchemaRegistry(Exchanges([hostile.address, second.address], sleep=pauses.append))

        assert registry.register("orders-value", SCHEMA, timeout=30).id == 7
        assert pauses == [0.0]


def test_the_address_that_asks_for_less_time_is_asked_again_first(hostile: Hostile) -> None:
    pauses: list[float] = []
    hostile.last = says({}, status=503, headers={"Retry-After": "999999"})
    with hostile_registry() as second:
        registry = SchemaRegistry(Exchanges([hostile.address, second.address], sleep=pauses.append))
        second.answers = [says({}, status=429, headers={"Retry-After": "17"})]

        assert registry.register("orders-value", SCHEMA, timeout=30).id == 7
        assert (len(hostile.requests), len(second.requests)) == (1, 2)
        assert pauses == [0.0, pytest.approx(17.0, abs=1.0)]


def test_all_addresses_that_ask_for_too_much_time_end_the_attempts(hostile: Hostile) -> None:
    hostile.last = says({}, status=503, headers={"Retry-After": "999999"})
    with hostile_registry() as second:
        second.last = hostile.last
        registry = SchemaRegistry(Exchanges([hostile.address, second.address]))
        with pytest.raises(RegistryUnavailableError, match=r"in 2 attempts .* status 503"):
            registry.register("orders-value", SCHEMA, timeout=30)
        assert (len(hostile.requests), len(second.requests)) == (1, 1)


def test_a_registry_that_stays_broken_ends_the_attempts(hostile: Hostile) -> None:
    registry = SchemaRegistry(Exchanges([hostile.address], sleep=lambda _seconds: None))
    hostile.last = says({}, status=500)
    random.seed(1)
    chance = random.getstate()
    with pytest.raises(RegistryUnavailableError, match=r"in 10 attempts and .* s; last: .* status 500"):
        registry.register("orders-value", SCHEMA, timeout=60)
    assert len(hostile.requests) == 10
    assert random.getstate() == chance, "numbers of the program's own sequence were taken"


def test_headers_that_trickle_end_at_the_deadline(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = trickles
    with pytest.raises(RegistryUnavailableError, match="Timeout"):
        registry.register("orders-value", SCHEMA, timeout=0.5)


def test_the_next_address_answers_for_a_dead_one(hostile: Hostile) -> None:
    registry = SchemaRegistry(Exchanges(["http://127.0.0.1:1", hostile.address]))
    assert registry.register("orders-value", SCHEMA, timeout=30).id == 7


def with_addresses(monkeypatch: pytest.MonkeyPatch, port: int, *families: socket.AddressFamily) -> SchemaRegistry:
    """A registry whose name has an address of each family, on a host without IPv6."""
    found = addresses(port, *families)
    monkeypatch.setattr(HostNames, "addresses", lambda *_arguments, **_keywords: found)
    monkeypatch.setattr(socket, "socket", WithoutIPv6)
    return SchemaRegistry(Exchanges([f"http://registry.invalid:{port}"], sleep=lambda _seconds: None))


def test_without_ipv6_the_other_addresses_are_tried(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(hostile.address.rpartition(":")[2])
    registry = with_addresses(monkeypatch, port, socket.AF_INET6, socket.AF_INET)
    assert registry.register("orders-value", SCHEMA, timeout=30).id == 7


@pytest.mark.parametrize(
    ("families", "reason"),
    [
        ([socket.AF_INET6, socket.AF_INET], "refused"),
        ([socket.AF_INET, socket.AF_INET6], "refused"),
        ([socket.AF_INET6], "Address family not supported"),
    ],
)
def test_without_ipv6_the_error_is_that_of_another_address(
    monkeypatch: pytest.MonkeyPatch, families: list[socket.AddressFamily], reason: str
) -> None:
    registry = with_addresses(monkeypatch, 1, *families)
    with pytest.raises(RegistryUnavailableError, match=reason):
        registry.register("orders-value", SCHEMA, timeout=30)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b"[" * 100_000,
        b'{"id": ' + b"9" * 5000 + b"}",
        b'{"id": 1}trailing',
        *({"id": wrong} for wrong in ("7", -1, 2**31, True, None, 1.0, [7])),
        {},
        b"\xff\xfe",
    ],
)
def test_an_answer_without_a_valid_id_is_refused(hostile: Hostile, registry: SchemaRegistry, body: Any) -> None:
    hostile.last = says(body)
    with pytest.raises(RegistryAnswerError):
        registry.register("orders-value", SCHEMA, timeout=30)


def test_a_huge_answer_is_not_read_to_its_end(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says(b'{"id": 7}' + b" " * MAX_ANSWER)
    with pytest.raises(RegistryAnswerError, match="larger than"):
        registry.register("orders-value", SCHEMA, timeout=30)


def test_an_answer_for_another_subject_is_refused(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"subject": "users-value", "id": 7, "version": 1, "schema": SCHEMA.text})
    with pytest.raises(RegistryAnswerError, match="another subject: 'users-value'"):
        registry.look_up("orders-value", SCHEMA, timeout=30)
    with pytest.raises(RegistryAnswerError, match="another subject"):
        registry.version("orders-value", LATEST, kind=AVRO, timeout=30)


def test_a_schema_that_is_not_avro_is_refused(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"subject": "a", "id": 7, "schema": "syntax = 3;", "schemaType": "PROTOBUF"})
    with pytest.raises(InvalidSchemaError, match="PROTOBUF"):
        registry.version("a", LATEST, kind=AVRO, timeout=30)


def test_errors_and_reprs_reveal_no_secret(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.answers = [says({}, status=401)]
    with pytest.raises(RegistryAccessError) as caught:
        registry.register("orders-value", SCHEMA, timeout=30)
    [(_line, headers, _body)] = hostile.requests
    assert headers["Authorization"] == "Bearer hunter2"
    assert "hunter2" not in f"{caught.value!r} {registry!r} {vars(registry)!r}"


def test_a_subject_is_quoted_in_the_path(hostile: Hostile, registry: SchemaRegistry) -> None:
    registry.register("a/../b?c#d-välue", SCHEMA, timeout=30)
    [(line, _headers, _body)] = hostile.requests
    assert line == "POST /subjects/a%2F..%2Fb%3Fc%23d-v%C3%A4lue/versions"


def test_a_name_server_that_is_silent_takes_no_longer_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    answered, asked = threading.Event(), []

    def silent(host: str, port: int, **more: Any) -> Any:
        if more.get("flags"):
            raise socket.gaierror("a name")
        asked.append(host)
        answered.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 9))]

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    registry = SchemaRegistry(Exchanges(["http://registry.invalid:8081"]))
    try:
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(RegistryUnavailableError, match=r"'registry\.invalid' was not looked up"):
                registry.register("s", SCHEMA, timeout=0.3)
            assert time.monotonic() - began < 20
        assert asked == ["registry.invalid"], "a lookup that is running is not repeated"
    finally:
        answered.set()


def test_the_address_of_a_name_is_looked_up_again_for_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have another one by now."""
    addresses = ["192.0.2.1", "192.0.2.2"]

    def changing(host: str, port: int, **more: Any) -> Any:
        if more.get("flags"):
            raise socket.gaierror("a name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses.pop(0), port))]

    monkeypatch.setattr(socket, "getaddrinfo", changing)
    names = HostNames()
    found = [names.addresses("registry.invalid", 8081, timeout=30) for _ in range(2)]

    assert [address for [(*_kind, (address, _port))] in found] == ["192.0.2.1", "192.0.2.2"]


@pytest.mark.parametrize("error", [socket.gaierror(8, "no such name"), UnicodeError("label too long")])
def test_a_name_without_an_address_is_an_error_with_the_name(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(host: str, port: int, **_more: Any) -> Any:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    registry = SchemaRegistry(Exchanges(["http://registry.invalid:8081"]))
    with pytest.raises(RegistryUnavailableError, match=f"'registry.invalid' has no address: .*{error.args[-1]}"):
        registry.register("s", SCHEMA, timeout=3)


def test_the_address_that_answered_is_asked_first_from_then_on(hostile: Hostile) -> None:
    with hostile_registry() as second:
        registry = SchemaRegistry(Exchanges([hostile.address, second.address]))
        hostile.last = says({}, status=503)
        for _ in range(3):
            assert registry.register("orders-value", SCHEMA, timeout=30).id == 7
        assert (len(hostile.requests), len(second.requests)) == (1, 3)


def test_a_silent_address_leaves_time_for_the_next(hostile: Hostile) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry = SchemaRegistry(Exchanges([f"http://127.0.0.1:{silent.getsockname()[1]}", hostile.address]))
        assert registry.register("orders-value", SCHEMA, timeout=4).id == 7


def test_an_answer_without_a_subject_is_refused(hostile: Hostile, registry: SchemaRegistry) -> None:
    hostile.last = says({"id": 7, "version": 1, "schema": SCHEMA.text})
    with pytest.raises(RegistryAnswerError, match="another subject: None"):
        registry.look_up("orders-value", SCHEMA, timeout=30)


@pytest.mark.parametrize("version", [0, -1, 2**31, True, "1", None])
def test_an_answer_without_a_valid_version_is_refused(hostile: Hostile, registry: SchemaRegistry, version: Any) -> None:
    hostile.last = says({"subject": "orders-value", "id": 7, "version": version})
    with pytest.raises(RegistryAnswerError, match="no valid version"):
        registry.look_up("orders-value", SCHEMA, timeout=30)


def test_a_name_whose_lookup_got_no_thread_is_looked_up_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = HostNames()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="the system has no thread for looking up 'localhost'"):
            names.addresses("localhost", 8081, timeout=30)

    assert names.addresses("localhost", 8081, timeout=30)


@pytest.mark.unmeasured
def test_after_an_interrupted_lookup_the_next_call_looks_the_name_up() -> None:
    def raise_ctrl_c(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    names = HostNames()
    for number in range(1_000):
        interruption = Interruption(number, raise_ctrl_c)
        with suppress(KeyboardInterrupt):
            interruption.during(lambda: names.addresses("localhost", 8081, timeout=30))
        assert names.addresses("localhost", 8081, timeout=30), interruption.where
        if not interruption.where:
            break
    assert number > 8
