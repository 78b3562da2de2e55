"""The bootstrap servers, step by step: names, connections, handshakes, first responses.

An address that does not work is only a warning if another address of its name does: clients try all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final

from ottla.config import DnsLookup
from ottla.doctor import broker_versions, security
from ottla.doctor.bounds import Bounds
from ottla.doctor.configuration import Checked
from ottla.doctor.findings import Finding, Step, Verdict
from ottla.doctor.greeting import Greeted, Greeting, NoHandshake, NotKafka, greet
from ottla.doctor.names import Lookup, Server, Unresolved, look_up
from ottla.doctor.tcp import Attempt, Connected, Endpoint, connect

SETTING: Final = "bootstrap.servers"


def resolved(checked: Checked, bounds: Bounds) -> Generator[Finding, None, Sequence[Endpoint]]:
    """The addresses of all bootstrap servers."""
    servers = [Server(host, port) for host, port in checked.connection.bootstrap_servers]
    canonical = checked.connection.dns_lookup is DnsLookup.RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY
    lookups = look_up(servers, transport=checked.transport, canonical=canonical, setting=SETTING, bounds=bounds)
    yield from map(_named, lookups)
    return [
        Endpoint(server=found.server, address=address)
        for found in lookups
        if not isinstance(found, Unresolved)
        for address in found.addresses
    ]


def connected(endpoints: Sequence[Endpoint], bounds: Bounds) -> Generator[Finding, None, Sequence[Connected]]:
    """The connections that succeeded."""
    attempts = connect(endpoints, setting=SETTING, bounds=bounds)
    served = {attempt.endpoint.server for attempt in attempts if isinstance(attempt, Connected)}
    for attempt in attempts:
        yield _attempted(attempt, served=attempt.endpoint.server in served)
    return [attempt for attempt in attempts if isinstance(attempt, Connected)]


def greeted(
    opened: Sequence[Connected], checked: Checked, bounds: Bounds
) -> Generator[Finding, None, Sequence[Greeted]]:
    """The brokers that answered; the caller closes their sessions."""
    greetings = greet(opened, transport=checked.transport, bounds=bounds)
    protocol = checked.connection.security_protocol
    yield from map(_shaken, greetings)
    yield from security.tls(protocol, greetings)
    answered = [greeting for greeting in greetings if not isinstance(greeting, NoHandshake)]
    yield from map(_answered, answered)
    return [greeting for greeting in answered if isinstance(greeting, Greeted)]


def _named(found: Lookup) -> Finding:
    subject = str(found.server)
    if isinstance(found, Unresolved):
        return Finding.failed(Step.NAMES, subject, found.problem, seconds=found.seconds)
    listed = ", ".join(dict.fromkeys(_shown(address.target.sockaddr) for address in found.addresses))
    said = f"the transport goes by {listed}" if found.own else listed
    return Finding(step=Step.NAMES, subject=subject, verdict=Verdict.OK, seconds=found.seconds, said=said)


def _shown(sockaddr: object) -> str:
    return str(sockaddr[0]) if isinstance(sockaddr, tuple) else str(sockaddr)


def _attempted(attempt: Attempt, *, served: bool) -> Finding:
    subject = str(attempt.endpoint)
    if isinstance(attempt, Connected):
        return Finding(step=Step.TCP, subject=subject, verdict=Verdict.OK, seconds=attempt.seconds, said="connected")
    if served:
        return Finding(
            step=Step.TCP,
            subject=subject,
            verdict=Verdict.WARNING,
            seconds=attempt.seconds,
            said=f"{attempt.problem.said}; another address of this name works",
        )
    return Finding.failed(Step.TCP, subject, attempt.problem, seconds=attempt.seconds)


def _shaken(greeting: Greeting) -> Finding:
    subject = str(greeting.endpoint)
    if isinstance(greeting, NoHandshake):
        return Finding.failed(Step.HANDSHAKE, subject, greeting.problem, seconds=greeting.seconds)
    return Finding(
        step=Step.HANDSHAKE, subject=subject, verdict=Verdict.OK, seconds=greeting.handshake_seconds, said="done"
    )


def _answered(greeting: Greeted | NotKafka) -> Finding:
    subject = str(greeting.endpoint)
    if isinstance(greeting, NotKafka):
        return Finding.failed(Step.API_VERSIONS, subject, greeting.problem, seconds=greeting.seconds)
    said = f"{broker_versions.release(greeting.versions)}, by the {len(greeting.versions)} requests it takes"
    return Finding(step=Step.API_VERSIONS, subject=subject, verdict=Verdict.OK, seconds=greeting.seconds, said=said)
