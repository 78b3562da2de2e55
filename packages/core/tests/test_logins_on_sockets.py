"""A whole producer that logs in over real sockets: the helper thread, refusals, renewals, and no leaked secret."""

from __future__ import annotations

import logging
import threading
import time
import traceback

import pytest
from broker_on_a_socket import SECRET, SocketBroker, settings, third_party_installed
from own_io_thread import io_thread_of

import third_party_mechanism
from ottla import Producer, check_config
from ottla.errors import AuthenticationError, ConfigError, InvalidPluginError, OttlaError, UnsupportedSaslMechanismError
from ottla.hookspecs import hookimpl
from ottla.interfaces import Mechanism, PluginConfig, Step
from ottla.network.authentication import login_session
from ottla_testkit.simulation import Session, SimulatedLogin
from ottla_testkit.simulation.pending_response import Response

__all__ = ["third_party_installed"]

pytestmark = [pytest.mark.unmeasured, pytest.mark.usefixtures("third_party_installed")]

ANN = {"ann": SECRET}
TIMEOUT = 20.0


@pytest.fixture
def mechanisms(monkeypatch: pytest.MonkeyPatch) -> list[Mechanism]:
    """The mechanism that the plugin returns, if a test sets one."""
    made: list[Mechanism] = []
    ordinary = third_party_mechanism.ottla_authenticator

    @hookimpl
    def ottla_authenticator(config: PluginConfig) -> Mechanism:
        return made[0] if made else ordinary(config)

    monkeypatch.setattr(third_party_mechanism, "ottla_authenticator", ottla_authenticator)
    return made


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ottla-login-")]


def test_records_are_delivered_after_a_login() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users=ANN))
    with broker.serving() as servers, Producer(settings(servers)) as producer:
        deliveries = [producer.send("t", b"%d" % number) for number in range(100)]
        producer.flush(TIMEOUT)

    assert [delivery.exception() for delivery in deliveries] == [None] * 100
    assert helpers() == []  # none was needed


@pytest.mark.rule("security.sasl.blocking")
def test_a_blocking_mechanism_wakes_the_io_thread_when_it_is_done(mechanisms: list[Mechanism]) -> None:
    computed_by: list[threading.Thread] = []

    def first() -> bytes:
        computed_by.append(threading.current_thread())
        return f"\0ann\0{SECRET}".encode()

    mechanism = third_party_mechanism.Scripted(
        first=first, steps=[lambda _data: Step(reply=None, done=True)], blocking=True
    )
    mechanisms.append(mechanism)
    broker = SocketBroker.secured(SimulatedLogin(users=ANN))
    with broker.serving() as servers, Producer(settings(servers, client_id="me")) as producer:
        producer.send("t", b"one").result(TIMEOUT)

    assert {thread.name for thread in computed_by} == {"ottla-login-me"}
    assert mechanism.closed == 1
    for thread in computed_by:
        thread.join(TIMEOUT)
    assert helpers() == []


@pytest.mark.rule("security.refusal.first", "security.sasl.secret")
def test_a_wrong_password_is_raised_by_send_as_authentication_error() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users=ANN))
    with (
        broker.serving() as servers,
        Producer(settings(servers, password="wrong as can be", max_block_ms=3_600_000)) as producer,
        pytest.raises(AuthenticationError, match="Invalid username or password") as caught,
    ):
        producer.send("t", b"one")

    assert "wrong as can be" not in "".join(traceback.format_exception(caught.value))


def test_an_unsupported_mechanism_is_raised_with_those_of_the_broker() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users=ANN, mechanisms=["PLAIN", "GSSAPI"]))
    with (
        broker.serving() as servers,
        Producer(settings(servers)) as producer,
        pytest.raises(UnsupportedSaslMechanismError, match=r"set sasl\.mechanism to one that it offers: PLAIN, GSSAPI"),
    ):
        producer.send("t", b"one")


def test_several_waiting_threads_all_get_the_error() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users=ANN))
    reported: list[OttlaError] = []

    def send(producer: Producer) -> None:
        try:
            producer.send("t", b"one")
        except OttlaError as error:
            reported.append(error)

    with broker.serving() as servers, Producer(settings(servers, password="wrong")) as producer:
        threads = [threading.Thread(target=send, args=(producer,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)

    assert [type(error) for error in reported] == [AuthenticationError] * 5


@pytest.mark.rule("security.session.lossless")
def test_sessions_are_renewed_under_load_on_the_same_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_session, "SHORT_SESSION", 1.0)  # so that two seconds are a long one
    broker = SocketBroker.secured(SimulatedLogin(users=ANN, lifetime=2.0))
    respond = broker.broker.respond

    # A renewal that comes late on a busy machine is accepted; without any, the test does not end.
    def patient(session: Session, frame: bytes, now: float) -> Response:
        return respond(session, frame, min(now, session.ends_at - 0.001))

    broker.broker.respond = patient  # type: ignore[method-assign]
    values = [b"%d" % number for number in range(20_000)]
    with broker.serving() as servers, Producer(settings(servers)) as producer:
        producer.send("t", b"first").result(TIMEOUT)
        connections = broker.connections
        deliveries = []
        login = broker.broker.login
        assert login is not None
        while login.logins < 3:
            deliveries += [producer.send("t", value) for value in values[:500]]
            producer.flush(TIMEOUT)

    assert all(delivery.exception() is None for delivery in deliveries)
    assert broker.connections == connections
    log = [record.value for record in broker.broker.cluster.topics["t"].log[0]]
    assert log == [b"first", *values[:500] * (len(deliveries) // 500)]


@pytest.mark.rule("security.session.short")
def test_sessions_of_a_millisecond_cause_few_logins() -> None:
    broker = SocketBroker.secured(SimulatedLogin(users=ANN, lifetime=0.001))
    login = broker.broker.login
    assert login is not None
    respond = broker.broker.respond

    def kind(session: Session, frame: bytes, now: float) -> Response:
        session.ends_at = float("inf")  # it says that sessions end, and does not end them
        return respond(session, frame, now)

    broker.broker.respond = kind  # type: ignore[method-assign]
    with broker.serving() as servers, Producer(settings(servers)) as producer:
        producer.send("t", b"first").result(TIMEOUT)
        before, end, sent = login.logins, time.monotonic() + 1.5, 0
        while time.monotonic() < end:
            producer.send("t", b"x").result(TIMEOUT)
            sent += 1

    assert login.logins - before <= 10
    assert sent > 20  # records do not wait for logins all the time


# Secrets


@pytest.mark.rule("security.sasl.secret")
def test_no_log_line_and_no_repr_shows_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    broker = SocketBroker.secured(SimulatedLogin(users=ANN, lifetime=0.2))
    with broker.serving() as servers, Producer(settings(servers)) as producer:
        login = broker.broker.login
        assert login is not None
        while login.logins < 3:
            producer.send("t", b"one").result(TIMEOUT)
        engine = producer._engine
        client = io_thread_of(engine)._client
        shown = repr([*client._connections, client._opener, vars(client), engine])

    assert "is ready" in caplog.text
    for reported in (caplog.text, shown):
        assert SECRET not in reported
        assert SECRET.encode().hex() not in reported


@pytest.mark.parametrize(
    "others", [{"linger.ms": -1}, {"no.such.key": 1}, {"metrics.recording.level": 3}, {"x.plain.passwort": SECRET}]
)
def test_no_error_about_a_refused_or_unused_key_shows_a_secret_value(
    others: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    reported = ""
    try:
        check_config({**settings("127.0.0.1:9"), **others})
    except ConfigError as error:
        reported = repr(error) + str(error)

    assert SECRET not in reported + caplog.text


def test_an_error_that_contains_the_password_is_reported_without_it(
    mechanisms: list[Mechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    @hookimpl
    def ottla_authenticator(config: PluginConfig) -> Mechanism:
        raise ValueError(f"no such password: {config['x.plain.password']!r}")

    monkeypatch.setattr(third_party_mechanism, "ottla_authenticator", ottla_authenticator)

    with pytest.raises(InvalidPluginError, match=r"ValueError: no such password: '\[hidden\]'") as caught:
        check_config(settings("127.0.0.1:9"))

    assert SECRET not in "".join(traceback.format_exception(caught.value))
