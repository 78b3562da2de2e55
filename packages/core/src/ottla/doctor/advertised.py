"""Checks that brokers can be reached at their advertised addresses: records go there, not to bootstrap servers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from ottla.doctor import broker_versions
from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Finding, Problem, Status, Step
from ottla.doctor.handshake import KafkaBroker, do_handshakes
from ottla.doctor.names import Server, Unresolved, look_up
from ottla.doctor.tcp import Connected, Endpoint, NotConnected, connect
from ottla.interfaces import Transport
from ottla.protocol import MetadataResponseBroker

SETTING: Final = "advertised.listeners"
_PORTS: Final = range(1, 65536)


@attrs.frozen
class _Reached:
    """The result at one address. `outcome` is a description of the peer, or the problem."""

    outcome: str | Problem
    seconds: float


def advertised(
    brokers: Iterable[MetadataResponseBroker], *, transport: Transport, bounds: Bounds
) -> Mapping[int, Finding]:
    """A finding for each broker, by its id."""
    wanted = {broker.node_id: Server(broker.host, broker.port) for broker in brokers}
    reached = _reach([server for server in wanted.values() if server.port in _PORTS], transport, bounds)
    invalid_port = _Reached(Problem("its port is not from 1 to 65535", ""), 0.0)
    return {number: _finding(number, server, reached.get(server, invalid_port)) for number, server in wanted.items()}


def _reach(servers: Sequence[Server], transport: Transport, bounds: Bounds) -> Mapping[Server, _Reached]:
    started = bounds.clock()
    reached: dict[Server, _Reached] = {}

    def note(server: Server, outcome: str | Problem) -> None:
        reached[server] = _Reached(outcome, bounds.clock() - started)

    endpoints: list[Endpoint] = []
    for found in look_up(servers, transport=transport, canonical=False, setting=SETTING, bounds=bounds):
        if isinstance(found, Unresolved):
            note(found.server, found.problem)
        else:
            endpoints += [Endpoint(server=found.server, address=address, own=found.own) for address in found.addresses]
    opened: dict[Server, Connected] = {}
    for attempt in connect(endpoints, setting=SETTING, bounds=bounds):
        if isinstance(attempt, NotConnected):
            note(attempt.endpoint.server, attempt.problem)
        elif opened.setdefault(attempt.endpoint.server, attempt) is not attempt:
            attempt.sock.close()
    for answer in do_handshakes(list(opened.values()), transport=transport, bounds=bounds):
        if isinstance(answer, KafkaBroker):
            answer.session.close()
            note(answer.endpoint.server, broker_versions.release(answer.versions))
        else:
            note(answer.endpoint.server, answer.problem)
    return reached


def _finding(number: int, server: Server, reached: _Reached) -> Finding:
    subject = f"broker {number} at {server}"
    if isinstance(reached.outcome, str):
        return Finding(
            step=Step.ADVERTISED,
            subject=subject,
            status=Status.OK,
            seconds=reached.seconds,
            message=f"reached: {reached.outcome}",
        )
    problem = Problem(
        f"the broker advertises an address that does not work from here: {reached.outcome.message}",
        f"set {SETTING} of broker {number} to a name and port that its clients can reach",
    )
    return Finding.failed(Step.ADVERTISED, subject, problem, seconds=reached.seconds)
