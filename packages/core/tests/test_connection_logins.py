"""Connections that log in: every stage of it cut, delayed, refused and wrong; and sessions that are renewed."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import attrs
import pytest

import histories
from machine import HelperOfTheTest, Machine
from ottla.accumulator.delivery import Delivery
from ottla.errors import (
    AuthenticationError,
    ConnectionFailedError,
    DeliveryTimeoutError,
    ErrorCode,
    HostnameMismatchError,
    OttlaError,
    RequestTimeoutError,
    SessionExpiredError,
    TopicUnavailableError,
    UnsupportedSaslMechanismError,
)
from ottla.interfaces import Authenticator, Mechanism, Step
from ottla.network.authentication import Authentication
from ottla.network.authentication.login_session import LEAST_SESSION, LoginSession
from ottla.network.connection_stage import Stage
from ottla.protocol import API_VERSIONS
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE
from ottla_testkit.simulation import KnownResponse, LinkConditions, Session, SimulatedCluster, SimulatedLogin
from ottla_testkit.simulation.login import HangUpError
from ottla_testkit.simulation.pending_response import Response, content_of
from third_party_mechanism import Plain, Scripted

SECRET = "the ducks fly south"


def secured(mechanism: Mechanism | None = None, *, login: dict[str, Any] | None = None, **settings: Any) -> Machine:
    """A machine whose one broker lets in ann; topic t is on it."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].require(SimulatedLogin(users={"ann": SECRET, "bob": SECRET}, **(login or {})))
    return Machine(cluster, mechanism=mechanism or Plain(), **settings)


def login_of(machine: Machine, broker: int = 1) -> SimulatedLogin:
    login = machine.cluster.brokers[broker].login
    assert login is not None
    return login


def pass_time(machine: Machine, seconds: float) -> None:
    """Rounds for just so long."""
    end = machine.clock() + seconds
    for _ in range(100_000):
        if machine.clock() >= end:
            return
        machine.sender.run_once(machine.clock(), until=end)
    raise AssertionError("a hundred thousand rounds, and the time is not over")


def learn(machine: Machine, seconds: float = 3.0) -> None:
    """Know topic t, or fail for the reason that the machine gives."""
    machine.metadata.use("t", machine.clock())
    pass_time(machine, seconds)
    machine.metadata.wait_for("t", partition=None, timeout=0.0)


def refusal(machine: Machine, seconds: float = 3.0) -> OttlaError:
    """The error that a call with a timeout of an hour raises."""
    machine.metadata.use("t", machine.clock())
    pass_time(machine, seconds)
    with pytest.raises(OttlaError) as caught:
        machine.metadata.wait_for("t", partition=None, timeout=3600.0)
    return caught.value


def delivered(machine: Machine, *values: bytes) -> None:
    """Send these, and find them in the log."""
    deliveries = [machine.send(value) for value in values]
    machine.run_until_idle()
    assert [delivery.exception() for delivery in deliveries] == [None] * len(values)
    assert machine.log()[-len(values) :] == list(values)


def deliver_steadily(machine: Machine, *, interval: float) -> None:
    """Send 2,000 records, one in each *interval*: all arrive once and in order, behind the one that is there."""
    values = [b"%d" % number for number in range(2000)]
    deliveries = []
    for value in values:
        deliveries.append(machine.send(value))
        pass_time(machine, interval)
    machine.run_until_idle()

    assert [delivery.exception() for delivery in deliveries] == [None] * len(values)
    assert machine.log()[1:] == values


def raising(error: BaseException) -> Callable[[], bytes]:
    def work() -> bytes:
        raise error

    return work


# The way in


@pytest.mark.rule("security.sasl.once")
def test_a_connection_is_ready_after_both_logins_and_one_apiversions() -> None:
    machine = secured()

    learn(machine)

    assert login_of(machine).asked[:2] == [("SaslHandshake", 1), ("SaslAuthenticate", 2)]
    names = [name for name, _version in machine.cluster.brokers[1].requests]
    assert names == ["ApiVersions", "Metadata"] * (len(names) // 2)
    delivered(machine, b"one", b"two")


def test_a_mechanism_gets_the_host_and_port_of_its_broker() -> None:
    mechanism = Scripted(first=lambda: f"\0ann\0{SECRET}".encode())
    machine = secured(mechanism)

    learn(machine)

    assert ("seed", 9092) in mechanism.asked


def test_a_mechanism_may_take_any_number_of_steps() -> None:
    heard: list[bytes] = []

    def reply(data: bytes) -> Step:
        heard.append(data)
        return Step(reply=b"turn %d" % len(heard), done=False)

    def verify(session: Session, token: bytes) -> SaslAuthenticateResponse:
        session.user = "ann" if token == b"turn 3" else None
        return SaslAuthenticateResponse(auth_bytes=b"your turn after " + token)

    last = Step(reply=None, done=True)
    mechanism = Scripted(steps=[reply, reply, reply, lambda _data: last])
    machine = secured(mechanism, login={"verify": verify})

    learn(machine)

    assert heard[:3] == [b"your turn after hello", b"your turn after turn 1", b"your turn after turn 2"]


def test_a_mechanism_that_finished_is_not_called_again() -> None:
    def verify(session: Session, token: bytes) -> SaslAuthenticateResponse:
        session.user = "ann" if token == b"bye" else None
        return SaslAuthenticateResponse(auth_bytes=b"more")

    machine = secured(Scripted(steps=[lambda _data: Step(reply=b"bye", done=True)]), login={"verify": verify})

    learn(machine)


@pytest.mark.rule("security.sasl.v0")
def test_a_broker_without_saslauthenticate_gets_unframed_tokens() -> None:
    machine = secured()
    del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]

    learn(machine)

    assert login_of(machine).asked[:2] == [("SaslHandshake", 0), ("token", 0)]
    delivered(machine, b"one")


@pytest.mark.rule("security.sasl.v0")
def test_the_last_unframed_token_needs_no_response() -> None:
    def verify(session: Session, token: bytes) -> SaslAuthenticateResponse | None:
        if token == b"bye":
            session.user = "ann"
            return None
        return SaslAuthenticateResponse(auth_bytes=b"more")

    machine = secured(Scripted(steps=[lambda _data: Step(reply=b"bye", done=True)]), login={"verify": verify})
    del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]

    learn(machine)

    assert not machine.client.flush_unacknowledged(machine.clock())  # it is no record sent with acks=0
    delivered(machine, b"one")


def test_a_disconnect_after_the_last_unframed_token_backs_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def verify(_session: Session, token: bytes) -> SaslAuthenticateResponse | None:
        if token == b"bye":
            raise HangUpError("no")
        return SaslAuthenticateResponse(auth_bytes=b"more")

    machine = secured(Scripted(steps=[lambda _data: Step(reply=b"bye", done=True)]), login={"verify": verify})
    del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]
    machine.metadata.use("t", machine.clock())
    pass_time(machine, 20.0)

    assert machine.network.connects <= 30
    reported = [record.levelname for record in caplog.records if "connecting again" in record.getMessage()]
    assert reported == ["WARNING"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_saslauthenticate_is_supported(version: int) -> None:
    machine = secured(login={"lifetime": 60.0})
    machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key] = (0, version)

    learn(machine)

    assert ("SaslAuthenticate", version) in login_of(machine).asked


# Refusals


@pytest.mark.rule("security.sasl.offers")
def test_an_unsupported_mechanism_is_reported_with_those_of_the_broker() -> None:
    machine = secured(login={"mechanisms": ["SCRAM-SHA-512", "PLAIN"]})

    error = refusal(machine)

    assert isinstance(error, UnsupportedSaslMechanismError)
    assert "X-PLAIN; set sasl.mechanism to one that it offers: SCRAM-SHA-512, PLAIN" in str(error)


def test_a_wrong_password_error_has_broker_message_and_user_only() -> None:
    error = refusal(secured(_Named(password="not it")))

    assert isinstance(error, AuthenticationError)
    assert "refused user 'ann' (X-PLAIN): Authentication failed: Invalid username or password; check x.plain.p" in str(
        error
    )
    assert "not it" not in repr(error)


def test_a_listener_without_sasl_is_reported_as_such() -> None:
    assert "does not use SASL on this listener; set security.protocol" in str(
        refusal(secured(login={"handshake_code": ErrorCode.ILLEGAL_SASL_STATE}))
    )


def test_a_broker_without_saslhandshake_is_reported_as_such() -> None:
    machine = secured()
    del machine.cluster.brokers[1].versions[SASL_HANDSHAKE.key]

    assert isinstance(refusal(machine), AuthenticationError)


def test_unsupported_versions_of_saslhandshake_are_reported() -> None:
    machine = secured()
    machine.cluster.brokers[1].versions[SASL_HANDSHAKE.key] = (7, 9)

    assert "no login at bootstrap server at seed:9092 is possible" in str(refusal(machine))


@pytest.mark.rule("security.sasl.bounds")
def test_the_message_of_a_broker_is_quoted_as_one_short_line() -> None:
    reported = "no\n\x1b[31m" + "x" * 5000
    answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=reported)

    said = str(refusal(secured(login={"verify": lambda _session, _token: answer})))

    assert "no\\n\\x1b[31mxxx" in said
    assert len(said) < 600


def test_any_other_error_code_is_a_refusal_too() -> None:
    answer = SaslAuthenticateResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=None)

    assert "UNSUPPORTED_VERSION (35)" in str(refusal(secured(login={"verify": lambda _session, _token: answer})))


@pytest.mark.parametrize(
    ("mechanism", "said"),
    [
        (Scripted(first=raising(ValueError(SECRET))), "failed: ValueError"),
        (Scripted(first=raising(SystemExit(SECRET))), "failed: SystemExit"),
        (Scripted(first=lambda: "text"), "returned no bytes"),  # type: ignore[arg-type,return-value]
        (Scripted(first=lambda: bytes(600_000)), "is too long: 600000 bytes from the client"),
    ],
)
def test_an_error_of_a_mechanism_is_reported_without_its_text(mechanism: Scripted, said: str) -> None:
    error = refusal(secured(mechanism))

    assert isinstance(error, AuthenticationError)
    assert said in str(error)
    assert SECRET not in str(error)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda _data: Step(reply=None, done=False), "sent no message to the broker"),
        (lambda _data: None, "returned no bytes"),
        (lambda _data: 1 // 0, "failed: ZeroDivisionError"),
    ],
)
def test_a_wrong_result_of_a_mechanism_is_reported(step: Callable[[bytes], Step], said: str) -> None:
    more = SaslAuthenticateResponse(auth_bytes=b"more")
    machine = secured(Scripted(steps=[step]), login={"verify": lambda _session, _token: more})

    assert said in str(refusal(machine))


@pytest.mark.rule("security.sasl.bounds")
def test_an_endless_login_is_ended() -> None:
    steps = [lambda _data: Step(reply=b"more", done=False)] * 1000
    more = SaslAuthenticateResponse(auth_bytes=b"more")
    machine = secured(Scripted(steps=steps), login={"verify": lambda _session, _token: more})

    assert "did not end after 64 messages" in str(refusal(machine))


@pytest.mark.rule("security.sasl.bounds")
@pytest.mark.parametrize("wrapped", [True, False])
def test_the_size_of_a_login_message_is_bounded(wrapped: bool) -> None:
    huge = SaslAuthenticateResponse(auth_bytes=bytes(600_000))
    machine = secured(login={"verify": lambda _session, _token: huge})
    if not wrapped:
        del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]

    assert "is too long: 600000 bytes from bootstrap server at seed:9092" in str(refusal(machine))


def test_an_unreadable_response_is_an_outage_and_not_a_refusal() -> None:
    machine = secured()
    broker = machine.cluster.brokers[1]
    respond = broker.respond

    def garbled(session: Session, frame: bytes, now: float) -> Response:
        correct = respond(session, frame, now)
        login = frame[:2] == SASL_AUTHENTICATE.key.to_bytes(2, "big")
        return KnownResponse(frame[4:8] + b"\0\xff\xff") if login else correct

    broker.respond = garbled  # type: ignore[method-assign]  # a peer that breaks the protocol
    with pytest.raises(TopicUnavailableError, match="unreadable"):
        learn(machine)

    broker.respond = respond  # type: ignore[method-assign]
    learn(machine)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_response_before_its_request_is_written_ends_the_connection(wrapped: bool) -> None:
    machine = secured()
    if not wrapped:
        del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]
    broker, network = machine.cluster.brokers[1], machine.network
    respond = broker.respond

    def answer_hastily(session: Session, frame: bytes, now: float) -> Response:
        response = respond(session, frame, now)
        if login_of(machine).asked[-1:] in ([("SaslHandshake", 1)], [("SaslHandshake", 0)]):
            network.takes.extend([0, 0])
            network.schedule.later(0.0, lambda: network.link(-1).answer(b"\0\0\0\0"))
        return response

    broker.respond = answer_hastily  # type: ignore[method-assign]  # a peer that knows what we will say
    with pytest.raises(TopicUnavailableError, match="a response to a request that is not written yet"):
        learn(machine)


# A broker that hangs up, or says nothing


def hang_up(machine: Machine) -> None:
    """Cut the connection in the middle of its login."""
    login_of(machine).silent = True
    machine.metadata.use("t", machine.clock())
    for _ in range(8):
        machine.client.poll(0.01, machine.clock())
    machine.network.cut(1)
    for _ in range(2):
        machine.client.poll(0.0, machine.clock())


@pytest.mark.rule("security.sasl.wordless")
def test_an_old_broker_that_closes_in_a_login_may_mean_bad_credentials() -> None:
    machine = secured(Plain(password="wrong"))
    del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]

    error = refusal(machine)

    assert isinstance(error, AuthenticationError)
    assert "closed the connection during the login" in str(error)
    assert "credentials may be wrong" in str(error)


@pytest.mark.rule("security.sasl.wordless")
def test_a_newer_broker_that_closes_in_a_login_is_an_outage() -> None:
    machine = secured()
    hang_up(machine)

    with pytest.raises(TopicUnavailableError, match="during the login of our X-PLAIN credentials") as caught:
        machine.metadata.wait_for("t", partition=None, timeout=0.0)
    assert type(caught.value.__cause__) is ConnectionFailedError

    login_of(machine).silent = False
    learn(machine)


class Keeping(Plain):
    """Keeps its credentials, and is informed of a broker's refusal."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.refusals: list[bool] = []
        self.error = error

    def authenticator(self, host: str, port: int) -> Any:
        return _KeptExchange(self, super().authenticator(host, port))


@attrs.define
class _KeptExchange:
    keeping: Keeping
    exchange: Any

    def start(self) -> bytes:
        return self.exchange.start()  # type: ignore[no-any-return]

    def challenge(self, data: bytes) -> Step:
        return self.exchange.challenge(data)  # type: ignore[no-any-return]

    def refused(self, *, certain: bool) -> None:
        self.keeping.refusals.append(certain)
        if self.keeping.error is not None:
            raise self.keeping.error


@pytest.mark.rule("security.sasl.refused")
def test_a_mechanism_is_notified_of_a_refusal_by_an_error_code() -> None:
    answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    mechanism = Keeping()

    refusal(secured(mechanism, login={"verify": lambda _session, _token: answer}))
    assert set(mechanism.refusals) == {True}


@pytest.mark.rule("security.sasl.refused")
def test_a_mechanism_is_notified_of_a_disconnect_in_its_login() -> None:
    def verify(_session: Session, _token: bytes) -> SaslAuthenticateResponse | None:
        raise HangUpError("no word")

    mechanism = Keeping()
    machine = secured(mechanism, login={"verify": verify})
    machine.metadata.use("t", machine.clock())
    pass_time(machine, 3.0)
    assert set(mechanism.refusals) == {False}

    login_of(machine).verify = None
    mechanism.refusals.clear()
    learn(machine)
    assert mechanism.refusals == []


@pytest.mark.rule("security.sasl.refused")
def test_a_disconnect_by_an_old_broker_is_its_refusal() -> None:
    mechanism = Keeping()
    mechanism.password = "wrong"
    machine = secured(mechanism)
    del machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key]

    refusal(machine)
    assert set(mechanism.refusals) == {True}


def close_at_first_requests(machine: Machine, number: int) -> None:
    """The broker accepts logins, and closes this number of connections at the first request after it."""
    login, remaining = login_of(machine), [number]
    belongs = login.belongs

    def closing(session: Session, frame: bytes, now: float) -> bool:
        if not belongs(session, frame, now) and session.user is not None and remaining[0] > 0:
            remaining[0] -= 1
            raise HangUpError("the token has expired")
        return belongs(session, frame, now)

    login.belongs = closing  # type: ignore[method-assign]


@pytest.mark.rule("security.sasl.refused")
def test_credentials_are_refused_if_first_requests_end_two_connections() -> None:
    mechanism = Keeping()
    machine = secured(mechanism)
    close_at_first_requests(machine, 2)

    learn(machine)

    assert mechanism.refusals == [False, True]


@pytest.mark.rule("security.sasl.refused")
def test_an_error_at_the_first_request_after_a_login_names_the_login() -> None:
    machine = secured(Keeping())
    close_at_first_requests(machine, 1_000)

    with pytest.raises(
        TopicUnavailableError, match="at the first request after it had accepted the login of our X-PLA"
    ):
        learn(machine)


def test_a_password_that_was_accepted_is_not_blamed_for_a_disconnect() -> None:
    """It does not expire, as a token does: the broker is stopping, or does not understand the request."""
    machine = secured(Plain())
    close_at_first_requests(machine, 1_000)

    with pytest.raises(TopicUnavailableError) as caught:
        learn(machine)
    assert "had accepted the login" not in str(caught.value)


def test_a_connection_that_ends_after_a_response_refuses_no_credentials() -> None:
    mechanism = Keeping()
    machine = secured(mechanism)
    learn(machine)
    machine.send(b"one")
    machine.network.hang_up(1)
    delivered(machine, b"two")

    assert mechanism.refusals == []


def test_an_idle_connection_that_ends_refuses_no_credentials() -> None:
    mechanism = Keeping()
    machine = secured(mechanism)
    learn(machine)
    delivered(machine, b"one")
    machine.client._connections[1].received_any = False  # as of a connection that was made, and not used yet
    machine.network.hang_up(1)
    pass_time(machine, 0.01)
    delivered(machine, b"later")

    assert mechanism.refusals == []


def test_a_mechanism_whose_token_was_not_sent_is_not_notified() -> None:
    mechanism = Keeping()

    refusal(secured(mechanism, login={"handshake_code": ErrorCode.ILLEGAL_SASL_STATE}))
    assert mechanism.refusals == []


@pytest.mark.rule("security.sasl.refused")
def test_a_mechanism_is_not_notified_of_a_failure_to_connect() -> None:
    def verify(_session: Session, _token: bytes) -> SaslAuthenticateResponse | None:
        raise HangUpError("no word")

    mechanism = Keeping()
    machine = secured(mechanism, login={"verify": verify})
    machine.metadata.use("t", machine.clock())
    while not mechanism.refusals:
        machine.round()
    notified = len(mechanism.refusals)
    machine.network.hosts.refusing.add("seed")
    pass_time(machine, 3.0)

    assert len(mechanism.refusals) == notified


def test_an_error_of_a_mechanism_in_its_notification_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    error = refusal(secured(Keeping(ValueError(SECRET)), login={"verify": lambda _session, _token: answer}))

    assert "refused our X-PLAIN credentials" in str(error)
    assert "refused() of the mechanism X-PLAIN raised ValueError" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.rule("security.sasl.setup")
def test_the_setup_timeout_includes_the_login() -> None:
    machine = secured(login={"silent": True}, setup_timeout=10.0)
    machine.metadata.use("t", machine.clock())
    while machine.metadata.last_error is None:
        machine.client.poll(60.0, machine.clock())

    assert machine.clock() == pytest.approx(10.0, abs=0.1)
    assert isinstance(machine.metadata.last_error, RequestTimeoutError)
    assert "socket.connection.setup.timeout.ms (the client was still logging in)" in str(machine.metadata.last_error)


def test_a_refusal_followed_by_a_disconnect_is_reported_as_a_refusal() -> None:
    machine = secured(Plain(password="wrong"))
    poll = machine.network.poll
    ended = threading.Event()

    def poll_and_cut(timeout: float) -> None:
        poll(timeout)
        asked = login_of(machine).asked[-1:]
        if asked == [("SaslAuthenticate", 2)] and machine.network.received and not ended.is_set():
            ended.set()
            del machine.network._links[-1]
            machine.network.disconnected = {-1: ConnectionFailedError("reset")}

    machine.network.poll = poll_and_cut  # type: ignore[method-assign]  # a reset on the heels of the answer
    while not ended.is_set():
        machine.client.poll(0.01, machine.clock())

    assert isinstance(machine.metadata.last_error, AuthenticationError)


# Mechanisms that may block


@pytest.mark.rule("security.sasl.blocking")
def test_a_blocking_mechanism_runs_elsewhere_without_delaying_others() -> None:
    helper = HelperOfTheTest()
    machine = secured(attrs.evolve(Plain(), blocking=True), helper=helper)
    machine.metadata.use("t", machine.clock())
    for _ in range(20):
        machine.client.poll(0.01, machine.clock())
    assert not machine.cluster.brokers[1].requests[1:]
    assert len(helper.thoughts) == 1

    for _ in range(20):
        helper.compute()
        machine.client.poll(0.01, machine.clock())

    assert machine.metadata.wait_for("t", partition=None, timeout=0.0).leaders == (1,)


@pytest.mark.rule("security.sasl.setup")
def test_a_mechanism_that_times_out_is_reported_and_its_result_dropped() -> None:
    helper = HelperOfTheTest()
    machine = secured(attrs.evolve(Plain(), blocking=True), helper=helper, setup_timeout=10.0)
    machine.metadata.use("t", machine.clock())
    while machine.metadata.last_error is None:
        machine.client.poll(60.0, machine.clock())

    assert "(the client was still logging in, and the mechanism X-PLAIN was still busy with other logins)" in str(
        machine.metadata.last_error
    )
    assert helper.forgotten == helper.thoughts[:1]


@pytest.mark.rule("security.sasl.setup")
def test_a_login_that_timed_out_has_no_part_in_the_next_connection() -> None:
    helper = HelperOfTheTest()
    machine = secured(attrs.evolve(Plain(), blocking=True), helper=helper, setup_timeout=10.0)
    machine.metadata.use("t", machine.clock())
    pass_time(machine, 1.0)
    machine.network.hosts.black_holes.add("seed")
    pass_time(machine, 9.5)
    assert "the mechanism X-PLAIN was still busy" in str(machine.metadata.last_error)

    helper.compute()
    pass_time(machine, 15.0)

    assert "(the client was still connecting)" in str(machine.metadata.last_error)


@attrs.define
class Concurrent(Scripted):
    """A mechanism that allows concurrent logins."""

    blocking: bool = True
    concurrent_logins: bool = True


def poll_often(machine: Machine) -> None:
    for _ in range(20):
        machine.client.poll(0.01, machine.clock())


@pytest.mark.rule("security.sasl.concurrent")
def test_first_messages_of_concurrent_logins_have_their_own_worker() -> None:
    first, others = HelperOfTheTest(), HelperOfTheTest()
    mechanism = Concurrent(first=lambda: f"\0ann\0{SECRET}".encode())
    machine = secured(mechanism, helper=others, first_helper=first)
    machine.metadata.use("t", machine.clock())
    poll_often(machine)
    assert (len(first.thoughts), others.thoughts) == (1, [])
    assert mechanism.asked == [("seed", 9092)]  # announced, although nothing was computed yet

    first.compute()
    poll_often(machine)
    assert (first.thoughts, len(others.thoughts)) == ([], 1)

    others.compute()
    poll_often(machine)
    assert machine.metadata.wait_for("t", partition=None, timeout=0.0).leaders == (1,)
    machine.client.shutdown()
    assert (first.closed, others.closed) == (True, True)


@pytest.mark.rule("security.sasl.concurrent")
@pytest.mark.parametrize("mechanism", [Concurrent(concurrent_logins=False), Scripted(blocking=True)])
def test_a_mechanism_that_does_not_allow_it_has_one_worker_for_all(mechanism: Scripted) -> None:
    first, others = HelperOfTheTest(), HelperOfTheTest()
    machine = secured(mechanism, helper=others, first_helper=first)
    machine.metadata.use("t", machine.clock())
    poll_often(machine)

    assert (first.thoughts, len(others.thoughts), mechanism.asked) == ([], 1, [])


@pytest.mark.rule("security.sasl.concurrent")
def test_an_error_of_an_announced_login_is_reported_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = Concurrent()
    monkeypatch.setattr(Concurrent, "authenticator", lambda *_: raising(ValueError(SECRET))())
    machine = secured(mechanism, first_helper=HelperOfTheTest())

    error = refusal(machine)

    assert type(error) is AuthenticationError
    assert "the mechanism X-PLAIN" in str(error)
    assert "ValueError" in str(error)
    assert SECRET not in str(error)


@pytest.mark.rule("security.sasl.setup")
def test_a_slow_mechanism_is_not_blamed_on_the_network() -> None:
    helper = HelperOfTheTest()
    machine = secured(Concurrent(first=lambda: f"\0ann\0{SECRET}".encode()), helper=helper, setup_timeout=10.0)
    machine.metadata.use("t", machine.clock())
    poll_often(machine)
    for _ in range(2):  # the login at the bootstrap server
        helper.compute()
        poll_often(machine)
    delivery = machine.send(b"never sent")
    pass_time(machine, 11.0)  # nothing computes for the login at broker 1

    error = str(machine.metadata.last_error)
    assert not delivery.done()
    assert "broker 1 at broker-1:9092 was not ready" in error
    assert "the mechanism X-PLAIN was still busy with other logins" in error
    assert "what it asks for, such as a password, a token or a ticket, takes too long" in error
    assert "advertised.listeners" not in error


def test_closing_the_client_ends_the_worker_of_logins() -> None:
    helper = HelperOfTheTest()
    machine = secured(Scripted(), helper=helper)

    machine.client.shutdown()

    assert helper.closed


class _Named(Plain):
    identity = "ann"
    remedy = "check x.plain.password"


# Which calls a refusal ends, and which retry


@pytest.mark.rule("security.refusal.first")
def test_a_refusal_before_the_first_accepted_login_is_raised_at_once() -> None:
    machine = secured(Plain(password="wrong"))

    assert isinstance(refusal(machine, 0.5), AuthenticationError)
    assert machine.clock() < 1.0


@pytest.mark.rule("security.refusal.first")
def test_a_refused_certificate_is_raised_at_once_too() -> None:
    machine = secured()
    machine.network.hosts.untrusted["seed"] = HostnameMismatchError("the certificate is for others")

    assert isinstance(refusal(machine, 0.5), HostnameMismatchError)


def several_seeds(machine: Machine, *names: str) -> None:
    brokers = {
        -1 - n: attrs.evolve(machine.metadata.cluster.brokers[-1], id=-1 - n, host=h) for n, h in enumerate(names)
    }
    machine.metadata.cluster = attrs.evolve(machine.metadata.cluster, brokers=brokers)


@pytest.mark.rule("security.refusal.others")
def test_a_refusal_by_one_server_is_not_raised_while_another_may_accept(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_they_come(population: Sequence[object], _k: int) -> list[object]:
        return list(population)  # the one that refuses comes first

    machine = secured()
    monkeypatch.setattr(machine.client._connections._chance, "sample", as_they_come)
    several_seeds(machine, "seed", "other")
    machine.network.hosts.untrusted["seed"] = HostnameMismatchError("the certificate is for others")
    machine.network.hosts.black_holes.add("other")
    machine.metadata.use("t", machine.clock())
    pass_time(machine, 5.0)
    with pytest.raises(TopicUnavailableError):
        machine.metadata.wait_for("t", partition=None, timeout=0.0)

    machine.network.hosts.black_holes.clear()
    learn(machine, 15.0)


@pytest.mark.rule("security.refusal.others")
def test_a_refusal_is_raised_when_no_other_server_remains() -> None:
    machine = secured()
    several_seeds(machine, "seed", "other")
    machine.network.hosts.untrusted["seed"] = HostnameMismatchError("the certificate is for others")
    machine.network.hosts.refusing.add("other")

    assert isinstance(refusal(machine), HostnameMismatchError)


@pytest.mark.rule("security.refusal.advertised")
def test_refusals_by_all_known_brokers_fail_queued_records() -> None:
    machine = secured()
    machine.network.hosts.untrusted["broker-1"] = HostnameMismatchError("the certificate is for others")
    learn(machine)

    delivery = machine.send(b"one")
    pass_time(machine, 0.5)

    error = delivery.exception(timeout=0)
    assert error is not None
    assert isinstance(error.__cause__, HostnameMismatchError)
    machine.network.hosts.untrusted.clear()
    pass_time(machine, 2.0)
    delivered(machine, b"two")


@pytest.mark.rule("security.refusal.later")
def test_a_later_refusal_is_retried_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = secured()
    learn(machine)
    delivered(machine, b"one")
    login = login_of(machine)
    login.users = {}
    machine.network.cut(1)

    delivery = machine.send(b"two")
    pass_time(machine, 20.0)
    assert not delivery.done()
    warned = [
        r.getMessage() for r in caplog.records if r.levelname == "WARNING" and "Invalid username" in r.getMessage()
    ]
    assert len({line.split(":")[1] for line in warned}) == len(warned)  # one for each broker

    login.users = {"ann": SECRET}
    machine.run_until_idle()
    assert delivery.exception() is None


def test_a_refusal_is_logged_also_during_another_outage(caplog: pytest.LogCaptureFixture) -> None:
    machine = secured()
    learn(machine)
    delivered(machine, b"one")
    machine.cluster.brokers[1].up = False
    machine.send(b"two")
    pass_time(machine, 5.0)
    assert "refused our X-PLAIN credentials" not in caplog.text

    login_of(machine).users = {}
    machine.cluster.brokers[1].up = True
    pass_time(machine, 5.0)

    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert sum("refused our X-PLAIN credentials" in line for line in warned) >= 1


@pytest.mark.rule("security.refusal.later")
def test_a_record_that_expires_at_a_refusing_broker_has_that_cause() -> None:
    machine = secured(delivery_timeout=30.0)
    learn(machine)
    delivered(machine, b"one")
    login_of(machine).users = {}
    machine.network.cut(1)
    delivery = machine.send(b"two")
    started = machine.clock()

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, AuthenticationError)
    assert "Invalid username or password" in str(error)
    assert machine.clock() - started == pytest.approx(30.0, abs=0.1)


@pytest.mark.rule("security.refusal.later")
def test_a_later_refusal_fails_no_waiting_record() -> None:
    machine = secured()
    learn(machine)
    delivered(machine, b"one")
    login_of(machine).users = {}
    machine.network.cut(1)
    delivery = machine.send(b"two")
    machine.metadata.use("new", machine.clock())
    pass_time(machine, 20.0)

    assert machine.metadata.fatal_error is None
    assert not delivery.done()
    with pytest.raises(TopicUnavailableError, match="is not available: no broker answered"):
        machine.metadata.wait_for("new", partition=None, timeout=0.0)


@pytest.mark.rule("selector.close.delayed")
def test_a_broker_that_refuses_the_login_is_retried_less_and_less_often() -> None:
    machine = secured()
    learn(machine)
    delivered(machine, b"one")
    login_of(machine).users = {}
    machine.network.cut(1)
    machine.send(b"two")
    before = machine.network.connects

    pass_time(machine, 20.0)

    assert 15 <= machine.network.connects - before <= 50


# Sessions


@pytest.mark.rule("security.session.renewed")
def test_a_session_is_renewed_on_its_connection_by_a_late_request() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    connects, logins = machine.network.connects, login_of(machine).logins
    pass_time(machine, 52.0)
    delivered(machine, b"two")
    assert login_of(machine).logins == logins  # at nine tenths, not before

    pass_time(machine, 2.5)
    delivered(machine, b"three")

    assert login_of(machine).logins == logins + 1
    assert login_of(machine).asked[-2:] == [("SaslHandshake", 1), ("SaslAuthenticate", 2)]
    assert machine.network.connects == connects


@pytest.mark.rule("security.session.renewed")
def test_a_session_begins_with_the_last_request_of_its_login() -> None:
    """The response may take any time, but the broker's clock runs since it has read the request."""
    session = LoginSession(asked_at=100.0)

    session.begin(60.0, renewal_after=51.0, now=104.0)
    assert (session.renew_at, session.ends_at) == (151.0, 160.0)

    session.begin(1.0, renewal_after=0.9, now=104.0)
    assert session.renew_at == 104.0 + LEAST_SESSION, "otherwise it would log in again and again, and send nothing"


@pytest.mark.rule("security.session.renewed")
def test_no_request_arrives_after_the_end_of_a_session_far_away() -> None:
    """Found by a random history: a session of 1.5 s, and 0.2 s from one end of the connection to the other."""
    histories.run("secured", 413)


@pytest.mark.rule("security.session.renewed")
def test_an_unused_session_is_not_renewed() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    logins = login_of(machine).logins

    pass_time(machine, 200.0)

    assert login_of(machine).logins == logins


@pytest.mark.rule("security.session.lossless")
def test_renewals_under_load_lose_nothing_and_open_no_connection() -> None:
    machine = secured(login={"lifetime": 12.0}, linger=0.0)
    learn(machine)
    delivered(machine, b"first")
    connects = machine.network.connects

    deliver_steadily(machine, interval=0.06)

    assert machine.network.connects == connects
    assert login_of(machine).logins >= 10


Held: TypeAlias = list[tuple[Session, bytes, float]]


def sent_around_a_renewal(machine: Machine, *others: bytes) -> tuple[Delivery, Delivery, Held]:
    """A record before the session is to be renewed, one after; from then on the broker only keeps what it gets.

    *others* are sent behind the first record.
    """
    connection, broker = machine.client._connections[1], machine.cluster.brokers[1]
    connection.session.renew_at = float("inf")
    held: Held = []

    def hold(session: Session, frame: bytes, now: float) -> KnownResponse:
        held.append((session, frame, now))
        return KnownResponse()

    broker.respond = hold  # type: ignore[method-assign]  # a broker that takes its time
    early = machine.send(b"early")
    for other in [None, *others]:
        if other is not None:
            machine.send(other)
        for _ in range(2):
            machine.sender.run_once(machine.clock(), until=machine.clock())
    connection.session.renew_at = 0.0
    late = machine.send(b"late")
    for _ in range(5):
        machine.client.ready(1, machine.clock())
        machine.client.poll(0.0, machine.clock())
    return early, late, held


def answer_all(machine: Machine, held: Held) -> None:
    """The broker answers what it has kept, and everything behind it."""
    broker, link = machine.cluster.brokers[1], machine.network.link(1)
    del broker.respond  # the method is there again
    for content in [content_of(broker.respond(*each)) for each in held]:
        assert content is not None
        link.answer(content)
    machine.run_until_idle()


@pytest.mark.rule("security.session.order")
def test_earlier_responses_are_read_in_order_during_a_renewal() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 55.0)
    early, late, held = sent_around_a_renewal(machine)
    assert [int.from_bytes(frame[:2], "big") for _session, frame, _now in held] == [0, SASL_HANDSHAKE.key]

    answer_all(machine, held)

    assert (early.exception(), late.exception()) == (None, None)
    assert machine.log() == [b"one", b"early", b"late"]


def test_a_broker_without_session_lifetimes_is_logged_in_to_once() -> None:
    machine = secured(login={"lifetime": 60.0})
    machine.cluster.brokers[1].versions[SASL_AUTHENTICATE.key] = (0, 0)
    learn(machine)
    delivered(machine, b"one")

    assert machine.client._connections[1].session.renew_at == float("inf")


@pytest.mark.rule("security.session.renewed")
def test_a_session_is_renewed_at_85_to_95_percent_of_its_lifetime() -> None:
    authentication = Authentication(Plain(), worker=HelperOfTheTest())

    drawn = [authentication.renewal_after(1000.0) for _ in range(1000)]

    assert 850.0 <= min(drawn) < 860.0
    assert 940.0 < max(drawn) <= 950.0
    assert authentication.renewal_after(0.0) == float("inf")
    assert authentication.renewal_after(0.001) == LEAST_SESSION


@pytest.mark.rule("security.session.short")
def test_records_of_short_sessions_arrive_once_and_in_order() -> None:
    machine = secured(login={"lifetime": 3.0}, linger=0.0)
    learn(machine)
    delivered(machine, b"first")
    connects = machine.network.connects

    deliver_steadily(machine, interval=0.015)

    assert machine.network.connects - connects >= 5
    assert login_of(machine).asked.count(("SaslHandshake", 1)) == machine.network.connects


@pytest.mark.rule("security.session.short")
@pytest.mark.parametrize("lifetime", [0.001, 0.5, 5.0, 9.999])
def test_sessions_of_a_millisecond_cause_no_login_loop(lifetime: float) -> None:
    machine = secured(login={"lifetime": lifetime}, linger=0.0)
    machine.cluster.brokers[1].respond = _endless_sessions(machine)  # type: ignore[assignment,method-assign]
    learn(machine)
    login = login_of(machine)
    before = login.logins
    deliveries = []
    for number in range(600):
        deliveries.append(machine.send(b"%d" % number))
        pass_time(machine, 0.1)
    machine.run_until_idle()

    assert [delivery.exception() for delivery in deliveries] == [None] * 600
    assert login.logins - before <= 60.0 / 0.8 + 5  # a minute at reconnect.backoff.max.ms, 20 % of which is chance
    assert login.asked.count(("SaslHandshake", 1)) == machine.network.connects


@pytest.mark.rule("security.session.short")
def test_a_long_session_ends_the_backoff_of_short_ones() -> None:
    machine = secured(login={"lifetime": 2.0}, linger=0.0)
    learn(machine)
    for _ in range(20):
        delivered(machine, b"x")
        pass_time(machine, 1.0)
    connection = machine.client._connections[1]
    assert connection.attempts >= 3

    login_of(machine).lifetime = 60.0
    pass_time(machine, 2.0)
    delivered(machine, b"y")

    assert connection.attempts == 0


@pytest.mark.rule("security.session.short")
def test_a_short_session_ends_after_its_unconfirmed_records(caplog: pytest.LogCaptureFixture) -> None:
    machine = secured(login={"lifetime": 2.0}, linger=0.0, acks=0)
    learn(machine)
    for number in range(200):
        machine.send(b"%d" % number)
        pass_time(machine, 0.05)
    machine.run_until_idle()

    assert machine.log() == [b"%d" % number for number in range(200)]
    assert machine.network.connects > 5
    assert "may be lost" not in caplog.text


@pytest.mark.rule("security.session.short")
def test_a_short_session_ends_after_every_response() -> None:
    machine = secured(login={"lifetime": 5.0})
    learn(machine)
    delivered(machine, b"one")
    connection, connects = machine.client._connections[1], machine.network.connects
    early, late, held = sent_around_a_renewal(machine)
    assert (connection.stage, len(connection.in_flight), len(held)) == (Stage.READY, 1, 1)

    answer_all(machine, held)

    assert (early.exception(), late.exception()) == (None, None)
    assert machine.log() == [b"one", b"early", b"late"]
    assert machine.network.connects == connects + 1


def test_short_sessions_are_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    machine = secured(login={"lifetime": 2.0}, linger=0.0)
    learn(machine)
    for _ in range(20):
        delivered(machine, b"x")
        pass_time(machine, 1.0)

    lines = [record.getMessage() for record in caplog.records if "ends sessions after" in record.getMessage()]
    assert len(lines) == 1
    assert "ends sessions after 2.000 s" in lines[0]
    assert "connections.max.reauth.ms" in lines[0]


def test_a_late_response_does_not_shorten_the_session_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    machine = secured(login={"lifetime": 2.0}, linger=0.0)
    machine.network.wire = LinkConditions(round_trip=0.2)
    learn(machine)
    for _ in range(20):
        delivered(machine, b"x")
        pass_time(machine, 1.0)

    [line] = [record.getMessage() for record in caplog.records if "ends sessions after" in record.getMessage()]
    assert "ends sessions after 2.000 s" in line


def test_a_tiny_session_lifetime_allows_requests() -> None:
    machine = secured(login={"lifetime": 0.001})
    login = login_of(machine)
    machine.cluster.brokers[1].respond = _endless_sessions(machine)  # type: ignore[assignment,method-assign]
    learn(machine)

    delivered(machine, *[b"%d" % number for number in range(20)])

    assert login.logins > 1


def _endless_sessions(machine: Machine) -> Callable[[Session, bytes, float], Response]:
    broker = machine.cluster.brokers[1]
    respond = broker.respond

    def kind(session: Session, frame: bytes, now: float) -> Response:
        session.ends_at = float("inf")
        return respond(session, frame, now)

    return kind


@pytest.mark.rule("security.session.failed")
def test_another_user_on_the_same_connection_is_refused() -> None:
    mechanism = Plain()
    machine = secured(mechanism, login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 58.0)
    mechanism.user = "bob"

    delivered(machine, b"two")

    assert isinstance(machine.client._connections[1].last_failure, AuthenticationError)
    assert "Cannot change principals during re-authentication from ann to bob" in str(
        machine.client._connections[1].last_failure
    )


class NamedPlain(Plain):
    """Names its user, and takes another one for each login, as a store of secrets does that makes them."""

    def __init__(self, users: Iterable[str]) -> None:
        super().__init__()
        self.users = iter(users)
        self.identity: str | None = None

    def authenticator(self, host: str, port: int) -> Authenticator:
        self.identity = self.user = next(self.users)
        return super().authenticator(host, port)


@pytest.mark.parametrize("acks", [0, 1])
def test_another_user_logs_in_on_a_new_connection(caplog: pytest.LogCaptureFixture, acks: int) -> None:
    mechanism = NamedPlain(itertools.cycle(["ann", "bob", "bob", "ann"]))
    machine = secured(mechanism, login={"lifetime": 60.0}, acks=acks)
    learn(machine)
    for number in range(4):
        pass_time(machine, 58.0)
        delivered(machine, *(b"%d-%d" % (number, each) for each in range(50)))

    assert len(machine.log()) == 200
    assert [each.getMessage() for each in caplog.records if each.levelno > logging.DEBUG] == []
    assert machine.client._connections[1].last_failure is None


@pytest.mark.rule("security.session.failed")
def test_a_broker_that_disconnects_during_a_renewal_ended_the_session() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 58.0)
    login_of(machine).silent = True
    delivery = machine.send(b"two")
    for _ in range(4):
        machine.round()
        if machine.client._connections[1].doing == "logging in again":
            break
    machine.network.cut(1)
    login_of(machine).silent = False
    machine.run_until_idle()

    assert delivery.exception() is None
    assert isinstance(machine.client._connections[1].last_failure, SessionExpiredError)


@pytest.mark.rule("security.session.failed")
def test_a_connection_ended_with_its_session_is_reported_as_such() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 70.0)
    machine.network.cut(1)
    machine.round()
    delivered(machine, b"two")

    assert isinstance(machine.client._connections[1].last_failure, SessionExpiredError)
    assert "connections.max.reauth.ms" in str(machine.client._connections[1].last_failure)
    assert machine.client._closer._counters.refusals.total == 0  # the login was accepted


def test_a_renewal_that_takes_too_long_ends_the_connection() -> None:
    machine = secured(login={"lifetime": 60.0}, setup_timeout=10.0)
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 58.0)
    login_of(machine).silent = True
    machine.send(b"two")
    pass_time(machine, 11.0)

    failure = machine.client._connections[1].last_failure
    assert isinstance(failure, RequestTimeoutError)
    assert "(the client was still logging in again)" in str(failure)


@pytest.mark.rule("security.session.setup")
def test_a_renewal_does_not_cut_off_requests_before_it() -> None:
    machine, early, late = renewing_behind_a_slow_request()
    connects = machine.network.connects
    pass_time(machine, 12.0)  # the set-up time-out is 10 s; a request may take 30 s

    machine.network.held.clear()
    machine.run_until_idle()

    assert [early.exception(), late.exception()] == [None, None]
    assert machine.log() == [b"one", b"early", b"late"]
    assert machine.network.connects == connects


@pytest.mark.rule("security.session.setup")
def test_the_timeout_of_a_renewal_waits_for_every_earlier_response() -> None:
    machine = secured(login={"lifetime": 60.0}, request_timeout=30.0, setup_timeout=10.0)
    learn(machine)
    delivered(machine, b"one")
    machine.client._connections[1].session.renew_at = float("inf")
    broker, link = machine.cluster.brokers[1], machine.network.link(1)
    respond = broker.respond
    first, late, held = sent_around_a_renewal(machine, b"second")
    connects = machine.network.connects
    content = content_of(respond(*held.pop(0)))
    assert content is not None
    link.answer(content)
    pass_time(machine, 12.0)  # the set-up time-out is 10 s, and a request may take 30 s
    answer_all(machine, held)

    assert (first.exception(), late.exception()) == (None, None)
    assert machine.log() == [b"one", b"early", b"second", b"late"]
    assert machine.network.connects == connects


@pytest.mark.rule("security.session.setup", "network.throttle.time-out")
@pytest.mark.parametrize("throttle_ms", [0, 7_000])
def test_a_renewal_times_out_relative_to_the_last_earlier_response(throttle_ms: int) -> None:
    machine, early, _late = renewing_behind_a_slow_request(throttle_ms)
    login_of(machine).silent = True
    pass_time(machine, 12.0)
    machine.network.held.clear()
    while not early.done():
        machine.round()
    answered_at = machine.clock()
    while machine.client._connections[1].last_failure is None:
        machine.round()

    assert machine.clock() - answered_at == pytest.approx(10.0 + throttle_ms / 1000)
    assert "(the client was still logging in again)" in str(machine.client._connections[1].last_failure)


@pytest.mark.rule("security.sasl.setup", "network.throttle.time-out")
def test_throttle_time_does_not_count_towards_the_login_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = secured(setup_timeout=10.0)
    broker = machine.cluster.brokers[1]
    answer = broker._api_versions
    monkeypatch.setattr(broker, "_api_versions", lambda: attrs.evolve(answer(), throttle_time_ms=7_000))
    login_of(machine).silent = True
    machine.metadata.use("t", machine.clock())
    while machine.metadata.last_error is None:
        machine.round()

    assert machine.clock() == pytest.approx(17.0)


def renewing_behind_a_slow_request(throttle_ms: int = 0) -> tuple[Machine, Delivery, Delivery]:
    """A session is renewed while one request has no answer yet; two records, the second waits for the renewal."""
    machine = secured(login={"lifetime": 60.0}, request_timeout=30.0, setup_timeout=10.0)
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 52.0)
    machine.network.held.add(1)
    machine.cluster.brokers[1].throttle_ms = throttle_ms
    early = machine.send(b"early")
    pass_time(machine, 3.0)
    late = machine.send(b"late")
    pass_time(machine, 1.0)
    assert machine.client._connections[1].stage is Stage.RENEWING
    return machine, early, late


def test_a_request_timeout_during_a_renewal_is_reported_as_such() -> None:
    machine = secured(login={"lifetime": 60.0}, request_timeout=3.0, setup_timeout=10.0)
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 52.0)
    machine.cluster.brokers[1].silent = True
    login_of(machine).silent = True
    machine.send(b"two")
    pass_time(machine, 2.5)
    machine.send(b"three")
    pass_time(machine, 1.0)

    failure = machine.client._connections[1].last_failure
    assert isinstance(failure, RequestTimeoutError)
    assert "did not answer a Produce request within request.timeout.ms" in str(failure)


def test_the_response_to_a_renewal_confirms_earlier_acks_0_records() -> None:
    machine = secured(login={"lifetime": 60.0}, acks=0)
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 52.0)
    delivered(machine, b"two")
    connection = machine.client._connections[1]
    assert connection.in_flight.unconfirmed is not None
    pass_time(machine, 6.0)
    delivery = machine.send(b"three")
    while connection.in_flight.unconfirmed is not None:
        assert not delivery.done()
        machine.sender.run_once(machine.clock(), until=machine.clock())

    assert connection.doing == "logging in again"


def test_a_mechanism_withdrawn_by_the_broker_is_reported_at_a_renewal() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    pass_time(machine, 58.0)
    login_of(machine).mechanisms = ["OTHER"]
    machine.send(b"two")
    pass_time(machine, 0.5)

    assert isinstance(machine.client._connections[1].last_failure, UnsupportedSaslMechanismError)


@pytest.mark.rule("security.sasl.once")
def test_apiversions_is_sent_once_per_connection_and_not_at_a_renewal() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    asked = machine.cluster.brokers[1].requests.count(("ApiVersions", API_VERSIONS.max_version))
    pass_time(machine, 58.0)
    delivered(machine, b"two")

    assert machine.cluster.brokers[1].requests.count(("ApiVersions", API_VERSIONS.max_version)) == asked


# Figures


def counts(machine: Machine) -> tuple[float, ...]:
    """Logins, refusals, renewals, renewals that were refused."""
    of = machine.client._counters.producer
    return tuple(counter.total for counter in (of.logins, of.refusals, of.renewals, of.lost_renewals))


def test_the_latency_of_a_renewal_is_in_milliseconds() -> None:
    machine, _early, late = renewing_behind_a_slow_request()
    decided_at = machine.client._connections[1].session.renewing_since
    pass_time(machine, 5.0)
    machine.network.held.clear()
    while not late.done():
        machine.round()

    took = machine.client._counters.producer.renewal_times
    assert took.count == 1
    assert 5_000 <= took.total <= (machine.clock() - decided_at) * 1000


@pytest.mark.rule("producer.metrics")
def test_logins_renewals_and_refusals_are_counted_separately() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    delivered(machine, b"one")
    logins, *others = counts(machine)
    assert logins == login_of(machine).logins
    assert others == [0, 0, 0]

    pass_time(machine, 55.0)
    delivered(machine, b"two")
    assert counts(machine) == (logins, 0, 1, 0)
    took = machine.client._counters.producer.renewal_times
    assert took.count == 1
    assert 0 <= took.total < 1000

    login_of(machine).users = {}
    pass_time(machine, 57.0)
    machine.send(b"three")
    pass_time(machine, 1.0)
    _logins, refusals, renewals, lost_renewals = counts(machine)
    assert (renewals, lost_renewals) == (1, 1)
    assert refusals >= 1
    machine.client.shutdown()
    of = machine.client._counters.producer
    assert of.connected.total == of.closed.total


@pytest.mark.rule("producer.metrics")
def test_each_refused_connection_is_counted_once() -> None:
    machine = secured()
    login_of(machine).users = {}
    refusal(machine)

    assert counts(machine) == (0, machine.network.connects, 0, 0)


def test_a_failed_connection_after_a_login_is_no_login_error() -> None:
    machine = secured()
    learn(machine)
    machine.network.hosts.refusing.add("broker-1")
    machine.network.cut(1)
    machine.send(b"value")
    pass_time(machine, 1.0)

    assert "could not connect" in str(machine.client._connections[1].last_failure)


def test_a_connection_that_ends_after_its_login_cancels_no_computation() -> None:
    helper = HelperOfTheTest()
    machine = secured(helper=helper)
    learn(machine)
    machine.network.cut(1)
    pass_time(machine, 1.0)

    assert helper.forgotten == []


@pytest.mark.parametrize("accepted", [False, True])
def test_refusals_of_bootstrap_servers_alone_fail_no_queued_record(accepted: bool) -> None:
    machine = secured()
    login_of(machine).users = {"ann": "another password"}
    machine.metadata.use("t", machine.clock())
    pass_time(machine, 3.0)
    machine.client._connections.accepted = accepted
    brokers = machine.metadata.cluster.brokers.values()

    assert machine.client._connections.refused_by_all(brokers) is not None
    assert machine.client.obstacles.refused_by_all() is None


def test_each_login_and_each_renewal_is_counted_once() -> None:
    machine = secured(login={"lifetime": 60.0})
    learn(machine)
    counters = machine.client._counters.producer
    logins = login_of(machine).logins
    assert counters.logins.total == logins > 0
    pass_time(machine, 52.0)
    delivered(machine, b"value")
    pass_time(machine, 5.0)

    assert counters.logins.total + counters.renewals.total == login_of(machine).logins > logins
