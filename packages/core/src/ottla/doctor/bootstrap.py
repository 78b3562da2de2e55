"""The bootstrap servers, step by step: names, connections, handshakes, first responses.

An address that does not work is only a warning if another address of its name does: clients try all of them.
"""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

from ottla.config import DnsLookup
from ottla.doctor import broker_versions, security
from ottla.doctor.bounds import Bounds
from ottla.doctor.configuration import Checked
from ottla.doctor.findings import Finding, Status, Step, excused
from ottla.doctor.handshake import HandshakeResult, KafkaBroker, NoHandshake, NotKafka, do_handshakes
from ottla.doctor.names import Lookup, Server, Unresolved, look_up
from ottla.doctor.session import BrokerSession
from ottla.doctor.tcp import Attempt, Connected, Endpoint, connect
from ottla.plugins.transports.layer_details import THROUGH

SETTING: Final = "bootstrap.servers"


def resolved(checked: Checked, bounds: Bounds) -> Generator[Finding, None, Sequence[Endpoint]]:
    """The addresses of all bootstrap servers."""
    servers = [Server(host, port) for host, port in checked.connection.bootstrap_servers]
    canonical = checked.connection.dns_lookup is DnsLookup.RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
    lookups = look_up(servers, transport=checked.transport, canonical=canonical, setting=SETTING, bounds=bounds)
    yield from map(_named, lookups)
    return [
        Endpoint(server=found.server, address=address, own=found.own)
        for found in lookups
        if not isinstance(found, Unresolved)
        for address in found.addresses
    ]


def connected(endpoints: Sequence[Endpoint], bounds: Bounds) -> Generator[Finding, None, Sequence[Connected]]:
    """The connections that succeeded."""
    attempts = connect(endpoints, setting=SETTING, bounds=bounds)
    opened = [attempt for attempt in attempts if isinstance(attempt, Connected)]
    served = {attempt.endpoint.server for attempt in opened}
    with _closed_unless_returned(attempt.sock for attempt in opened):
        for attempt in attempts:
            yield excused(_attempted(attempt), attempt.endpoint.server in served)
    return opened


def brokers_found(
    opened: Sequence[Connected], checked: Checked, bounds: Bounds
) -> Generator[Finding, None, Sequence[KafkaBroker]]:
    """The brokers that answered; the caller closes their sessions."""
    results = do_handshakes(opened, transport=checked.transport, bounds=bounds)
    protocol = checked.connection.security_protocol
    brokers = [result for result in results if isinstance(result, KafkaBroker)]
    served = {broker.endpoint.server for broker in brokers}
    with _closed_unless_returned(broker.session for broker in brokers):
        for result in results:
            yield excused(_handshake_finding(result), result.endpoint.server in served)
        yield from security.tls(protocol, results)
        answered = [result for result in results if not isinstance(result, NoHandshake)]
        for result in answered:
            yield excused(_answered(result), result.endpoint.server in served)
        if not answered:
            yield Finding.skipped(Step.API_VERSIONS, "no handshake was completed")
    return brokers


@contextmanager
def _closed_unless_returned(connections: Iterable[socket.socket | BrokerSession]) -> Iterator[None]:
    """Close connections if the examination ends in the block, while it shows a finding; otherwise the caller does."""
    with ExitStack() as opened:
        for connection in connections:
            opened.callback(connection.close)
        yield
        opened.pop_all()


def _named(found: Lookup) -> Finding:
    subject = str(found.server)
    if isinstance(found, Unresolved):
        return Finding.failed(Step.NAMES, subject, found.problem, seconds=found.seconds)
    listed = ", ".join(dict.fromkeys(_shown(address.target.sockaddr) for address in found.addresses))
    message = f"the transport connects to {listed}" if found.own else listed
    return Finding(step=Step.NAMES, subject=subject, status=Status.OK, seconds=found.seconds, message=message)


def _shown(sockaddr: object) -> str:
    return str(sockaddr[0]) if isinstance(sockaddr, tuple) else str(sockaddr)


def _attempted(attempt: Attempt) -> Finding:
    subject = str(attempt.endpoint)
    if isinstance(attempt, Connected):
        return Finding(step=Step.TCP, subject=subject, status=Status.OK, seconds=attempt.seconds, message="connected")
    return Finding.failed(Step.TCP, subject, attempt.problem, seconds=attempt.seconds)


def _handshake_finding(result: HandshakeResult) -> Finding:
    subject = str(result.endpoint)
    if isinstance(result, NoHandshake):
        return Finding.failed(Step.HANDSHAKE, subject, result.problem, seconds=result.seconds)
    through = [text for label, text in result.details if label == THROUGH]
    return Finding(
        step=Step.HANDSHAKE,
        subject=subject,
        status=Status.OK,
        seconds=result.handshake_seconds,
        message=f"done, through {', '.join(through)}" if through else "done",
    )


def _answered(result: KafkaBroker | NotKafka) -> Finding:
    subject = str(result.endpoint)
    if isinstance(result, NotKafka):
        return Finding.failed(Step.API_VERSIONS, subject, result.problem, seconds=result.seconds)
    message = (
        f"{broker_versions.release(result.versions)}, by the {len(result.versions)} request types that it supports"
    )
    return Finding(step=Step.API_VERSIONS, subject=subject, status=Status.OK, seconds=result.seconds, message=message)
