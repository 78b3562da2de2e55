"""The doctor and servers that are not Kafka in plain text, or no servers: each has its own finding, in time."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator

import pytest
from broker_on_a_socket import SocketBroker

from ottla.doctor import Examination, Finding, Status, Step, examine
from ottla.plugins.registry.installed import announced
from ottla_testkit.simulation import SimulatedCluster
from wrong_peers import Conduct, closes_connection, says, serving, stays_silent

TLS_ALERT = bytes.fromhex("15030300020246")
TLS_HELLO = bytes.fromhex("160303007a0200")
TIMEOUT = 60.0
IMPATIENT = 1.2
"""Seconds for everything, a sixth of it for each wait."""


def of(examination: Examination, step: Step) -> list[Finding]:
    return [finding for finding in examination.findings if finding.step is step]


def statuses(examination: Examination) -> dict[Step, set[Status]]:
    return {step: {finding.status for finding in of(examination, step)} for step in Step}


@contextlib.contextmanager
def refused_port() -> Iterator[int]:
    """A port without a listener, which no other process gets meanwhile."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


@pytest.mark.parametrize(
    ("conduct", "said", "remedy"),
    [
        (says(TLS_ALERT), "this listener expects TLS", "set security.protocol=SSL"),
        (says(TLS_HELLO), "this listener expects TLS", "set security.protocol=SSL"),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "answered in HTTP", "check the ports in bootstrap.servers"),
        (says(b"SSH-2.0-OpenSSH_9.6\r\n"), "answered as an SSH server", "check the ports in bootstrap.servers"),
        (says(bytes.fromhex("7fffffff")), "announced 2147483647 bytes", "no Kafka listener"),
        (says(bytes.fromhex("00000002 0001")), "responded, but not in Kafka's protocol", "security.protocol"),
        (says(bytes.fromhex("0000000a 00000007 0000 00000000")), "responded, but not in Kafka's protocol", "the port"),
        (closes_connection, "closed the connection without a response", "set security.protocol=SSL or SASL_SSL"),
        (closes_connection, "closed the connection without a response", "the broker behind it"),
    ],
)
def test_another_protocol_is_recognised_by_its_first_bytes(conduct: Conduct, said: str, remedy: str) -> None:
    with serving(conduct) as (host, port):
        examination = examine({"bootstrap.servers": f"{host}:{port}"}, timeout=TIMEOUT)

    [finding] = of(examination, Step.API_VERSIONS)
    assert said in finding.message
    assert remedy in finding.remedy
    assert examination.cause == finding
    assert finding.sentence.startswith(f"{host}:{port}: ")


def test_a_silent_server_is_abandoned_after_its_share_of_the_timeout() -> None:
    started = time.monotonic()
    with serving(stays_silent) as (host, port):
        examination = examine({"bootstrap.servers": f"{host}:{port}"}, timeout=IMPATIENT)

    [finding] = of(examination, Step.API_VERSIONS)
    # Seconds as they were measured, which a busy machine lengthens.
    assert re.search(r"sent nothing for \d\.\d s", finding.message)
    assert "check whether the broker is running" in finding.remedy
    assert time.monotonic() - started < TIMEOUT


def test_many_silent_servers_take_no_longer_than_one() -> None:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(stays_silent)) for _ in range(20)]
        listed = ",".join(f"{host}:{port}" for host, port in servers)
        examination = examine({"bootstrap.servers": listed}, timeout=IMPATIENT)

    assert {finding.status for finding in of(examination, Step.API_VERSIONS)} == {Status.FAILED}
    assert sum("sent nothing for " in finding.message for finding in of(examination, Step.API_VERSIONS)) == 20


def test_a_refused_connection_is_a_failure_and_later_steps_are_skipped() -> None:
    with refused_port() as port:
        examination = examine({"bootstrap.servers": f"127.0.0.1:{port}"}, topic="t", send=True, timeout=TIMEOUT)

    [finding] = of(examination, Step.TCP)
    assert "refused" in finding.message
    assert "bootstrap.servers" in finding.remedy
    after = list(Step)[list(Step).index(Step.TCP) + 1 :]
    assert [(found.status, found.message) for step in after for found in of(examination, step)] == [
        (Status.SKIPPED, "no bootstrap server accepted a connection") for _ in after
    ]
    assert examination.failures == [finding]


def test_an_address_that_drops_packets_is_not_reported_as_refusing() -> None:
    with socket.socket() as full:  # no connection is accepted, and the queue is full: further ones hang
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host, port = full.getsockname()
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                filler = stack.enter_context(contextlib.closing(socket.socket()))
                filler.setblocking(False)
                filler.connect_ex((host, port))
            examination = examine({"bootstrap.servers": f"{host}:{port}"}, timeout=IMPATIENT)

    [finding] = of(examination, Step.TCP)
    assert re.search(r"the connection was neither accepted nor refused within \d\.\d s", finding.message)  # measured
    assert "firewalls" in finding.remedy


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (socket.EAI_NONAME, "has no address here (because)", "correct the name in bootstrap.servers"),
        (
            socket.EAI_AGAIN,
            "could not be looked up (because)",
            "check this machine's name servers, and the name in boot",
        ),
    ],
    ids=["unknown", "no answer"],
)
def test_a_name_without_an_address_is_reported_with_the_setting(
    code: int, said: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_given: object, **_options: object) -> None:
        raise socket.gaierror(code, "because")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", fail)
        examination = examine({"bootstrap.servers": "nowhere.invalid:9092"}, timeout=TIMEOUT)

    [finding] = of(examination, Step.NAMES)
    assert finding.status is Status.FAILED
    assert f"'nowhere.invalid' {said}" in finding.message
    assert remedy in finding.remedy
    assert statuses(examination)[Step.TCP] == {Status.SKIPPED}


def test_a_failing_address_next_to_a_working_one_is_only_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def both(host: str, port: int, *, flags: int = 0, **_asked: object) -> list[object]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not in digits")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in ("127.0.0.2", "127.0.0.1")]

    with serving(closes_connection) as (_host, port), monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", both)
        examination = examine({"bootstrap.servers": f"two.invalid:{port}"}, timeout=TIMEOUT)

    assert [(finding.subject, finding.status) for finding in of(examination, Step.TCP)] == [
        (f"two.invalid:{port} (127.0.0.2)", Status.WARNING),
        (f"two.invalid:{port} (127.0.0.1)", Status.OK),
    ]
    assert "another address of this name works" in of(examination, Step.TCP)[0].message
    assert [finding.step for finding in examination.failures] == [Step.API_VERSIONS]


@pytest.mark.parametrize("conduct", [closes_connection, says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), stays_silent])
def test_a_wrong_server_at_one_address_of_a_name_is_only_a_warning(
    conduct: Conduct, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = SimulatedCluster.of(1)
    there.create("t", 1)
    with serving(conduct) as wrong, SocketBroker(there.brokers[1]).serving() as servers, monkeypatch.context() as patch:
        right = servers.rsplit(":", 1)

        def both(host: str, port: int, *, flags: int = 0, **_asked: object) -> list[object]:
            if flags & socket.AI_NUMERICHOST:
                raise socket.gaierror(socket.EAI_NONAME, "not in digits")
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in (wrong, (right[0], int(right[1])))
            ]

        there.address = None
        there.brokers[1].address = ("two.invalid", 1)
        patch.setattr(socket, "getaddrinfo", both)
        examination = examine({"bootstrap.servers": "two.invalid:1"}, topic="t", send=True, timeout=14.0)

    first, second = of(examination, Step.API_VERSIONS)
    assert (first.status, second.status) == (Status.WARNING, Status.OK)
    assert first.message.endswith("; another address of this name works")
    assert of(examination, Step.RECORD)[0].message.startswith("acknowledged: ")
    assert examination.healthy


def test_a_numeric_address_needs_no_dns_and_ipv6_is_shown_in_brackets() -> None:
    with refused_port() as port:
        examination = examine({"bootstrap.servers": f"[::1]:{port}"}, timeout=TIMEOUT)

    [name] = of(examination, Step.NAMES)
    [connection] = of(examination, Step.TCP)
    assert (name.status, name.message) == (Status.OK, "::1")
    assert connection.subject == f"[::1]:{port}"
    assert connection.status is Status.FAILED


def test_without_a_valid_configuration_no_connection_is_made() -> None:
    examination = examine({"bootstrap.servers": "127.0.0.1:9", "lingr.ms": 1, "acks": "two"}, timeout=TIMEOUT)

    assert [finding.status for finding in of(examination, Step.CONFIGURATION)] == [Status.FAILED] * 2
    assert "did you mean 'linger.ms'?" in str(of(examination, Step.CONFIGURATION))
    assert statuses(examination)[Step.NAMES] == {Status.SKIPPED}
    assert len(examination.findings) == 2 + len(Step) - 1


def test_a_missing_plugin_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    others = [entry for entry in announced() if entry.group != "ottla.authenticators"]
    monkeypatch.setattr("ottla.plugins.registry.lookup.announced", lambda: others)

    examination = examine(
        {"bootstrap.servers": "127.0.0.1:9", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
        timeout=TIMEOUT,
    )

    assert examination.cause is not None
    assert "pip install" in examination.cause.sentence
    assert "ottla-authenticator-sasl" in examination.cause.sentence
