"""Changes while a producer runs: sessions end, tokens expire, certificates are replaced. No record is affected."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import attrs
import pytest
from long_forms import LONG
from own_io_thread import io_thread_of

from ottla import Delivery, Producer
from ottla.network.authentication import login_session
from ottla_testkit.kafka_cluster.security import MECHANISMS
from readback import read_back
from secure_broker import USERS, SecureBroker, secure_broker

pytestmark = pytest.mark.kafka

SECONDS = float(os.environ.get("OTTLA_SOAK_SESSIONS", "8"))
"""Seconds of sending; the broker ends a session that is not renewed after three."""

BETWEEN_CHUNKS = 0.005 if LONG else 0.05


@pytest.fixture(scope="module")
def short_sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    folder = tmp_path_factory.mktemp("short")
    with secure_broker(folder, lifetime_s=10, reauthentication_ms=3000) as broker:
        yield broker


def steadily(secure: SecureBroker, producer: Producer, *, seconds: float) -> None:
    """Send for so long, and find every record."""
    topic = f"steady-{uuid.uuid4().hex[:12]}"
    secure.kafka.create_topic(topic)
    deliveries: list[Delivery] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        deliveries += [producer.send(topic, b"%d" % (len(deliveries) + number)) for number in range(20)]
        deliveries[-1].result(60)
        time.sleep(BETWEEN_CHUNKS)  # streams that run at the same time leave each other room
    producer.flush()

    found = read_back(secure.kafka.bootstrap_servers, topic)
    assert [record.value for record in found] == [b"%d" % number for number in range(len(deliveries))]


def connections(producer: Producer) -> list[int]:
    """The connections that a producer makes from now on: a list that grows."""
    selector: Any = io_thread_of(producer._engine)._client._selector
    made: list[int] = []
    connect = selector.connect

    def counting(node: int, *rest: Any) -> None:
        made.append(node)
        connect(node, *rest)

    selector.connect = counting
    return made


@attrs.define
class Streams:
    """Streams of records that run at the same time; the first test that asks for one of them runs them all."""

    streams: Mapping[str, Callable[[], list[int]]]
    ended: dict[str, Future[list[int]]] = attrs.field(factory=dict)

    def connections(self, name: str) -> list[int]:
        """Return the connections that a stream made, or raise its error."""
        if not self.ended:
            with ThreadPoolExecutor(len(self.streams)) as pool:
                self.ended = {each: pool.submit(stream) for each, stream in self.streams.items()}
        return self.ended[name].result()


def stream(
    secure: SecureBroker, mechanism: str, *, encrypted: bool = False, seconds: float = SECONDS, **more: Any
) -> list[int]:
    """Send steadily; return the connections that were made meanwhile."""
    with Producer(secure.sasl(mechanism, encrypted=encrypted) | more) as producer:
        made = connections(producer)
        steadily(secure, producer, seconds=seconds)
        refused = [producer.metrics(f"failed-{what}-total") for what in ("authentication", "reauthentication")]
        assert refused == [0.0, 0.0]
        return made


@pytest.fixture(scope="module")
def long_ones(short_sessions: SecureBroker) -> Streams:
    """A stream with each mechanism, for sessions that count as long."""
    return Streams(
        {each: partial(stream, short_sessions, each, encrypted=each == "SCRAM-SHA-512") for each in MECHANISMS}
        | {"users": partial(stream_of_users, short_sessions)}
    )


def stream_of_users(secure: SecureBroker) -> list[int]:
    """Send steadily with another user for each login."""
    users = itertools.cycle(USERS.items())
    provider: dict[str, Any] = {
        "sasl.credentials.provider": lambda: next(users),
        "sasl.username": None,
        "sasl.password": None,
    }
    return stream(secure, "SCRAM-SHA-256", **provider)


@pytest.fixture(scope="module")
def short_ones(short_sessions: SecureBroker) -> Streams:
    """Streams for sessions that count as short; one token lives for ten seconds."""
    return Streams(
        {
            "sessions": partial(stream, short_sessions, "SCRAM-SHA-256", encrypted=True),
            "tokens": partial(stream, short_sessions, "OAUTHBEARER", encrypted=True, seconds=max(SECONDS, 14.0)),
        }
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_session_is_renewed_on_its_connection(
    long_ones: Streams, mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_session, "SHORT_SESSION", 1.0)  # so that three seconds are a long one
    made = long_ones.connections(mechanism)

    assert sorted(made) == sorted(set(made))  # each broker once, the bootstrap server included


def test_another_user_logs_in_on_a_new_connection(long_ones: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_session, "SHORT_SESSION", 1.0)  # so that three seconds are a long one
    made = long_ones.connections("users")

    assert len(made) > len(set(made))


@pytest.mark.thorough("the gate renews sessions on their connections")
def test_a_short_session_is_replaced_by_a_new_connection_without_loss(short_ones: Streams) -> None:
    assert len(short_ones.connections("sessions")) >= 2  # each in place of the one before


@pytest.mark.thorough("the gate renews a session with each mechanism")
def test_tokens_are_renewed_under_load(short_ones: Streams) -> None:
    assert short_ones.connections("tokens")


def test_a_new_certificate_is_used_by_later_connections(secure: SecureBroker, caplog: pytest.LogCaptureFixture) -> None:
    certificates = secure.security.certificates
    mine = certificates.client("carol")
    settings = secure.mutual_tls() | {"ssl.keystore.location": str(mine), "connections.max.idle.ms": 500}
    with Producer(settings) as producer:
        secure.kafka.create_topic("carols")
        producer.send("carols", b"first", partition=0).result(60)
        made = connections(producer)

        mine.write_bytes(certificates.untrusted.read_bytes())  # no broker trusts it
        producer.send("carols", b"second", partition=0).result(60)
        assert made == []  # the connection that there is goes on
        selector: Any = io_thread_of(producer._engine)._client._selector
        until(lambda: selector.wakeup() or not selector._connections)  # retired, which a round does
        delivery = producer.send("carols", b"third", partition=0)
        until(lambda: "refused our certificate" in caplog.text)
        assert not delivery.done()

        certificates.client("carol")

        assert delivery.result(60).offset == 2


def test_certificate_files_that_hang_delay_no_record(secure: SecureBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network file system whose server is gone: the connection is made with what was read before."""
    mine = str(secure.security.certificates.client("dora"))
    asked, answers = threading.Event(), threading.Event()
    stat = os.stat

    def hang(path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if path == mine:
            asked.set()
            assert answers.wait(60)
        return stat(path, *arguments, **options)

    settings = secure.mutual_tls() | {"ssl.keystore.location": mine, "connections.max.idle.ms": 500}
    with Producer(settings) as producer:
        secure.kafka.create_topic("doras")
        producer.send("doras", b"first", partition=0).result(60)
        selector: Any = io_thread_of(producer._engine)._client._selector
        until(lambda: selector.wakeup() or not selector._connections)
        monkeypatch.setattr(os, "stat", hang)

        assert producer.send("doras", b"second", partition=0).result(20).offset == 1
        assert asked.is_set()
        answers.set()


def until(happened: Callable[[], object]) -> None:
    """Wait until something has happened; a minute is a hang."""
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)
