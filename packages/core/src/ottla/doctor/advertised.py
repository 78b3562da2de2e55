"""Checks that brokers can be reached at their advertised addresses: records go there, not to bootstrap servers.

Without SASL, the peer is asked for its cluster. With SASL that would need a login at each broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from ottla.config import SecurityProtocol
from ottla.doctor import broker_versions
from ottla.doctor.bounds import Bounds
from ottla.doctor.cluster_view import Answer, ClusterView, ask_clusters
from ottla.doctor.findings import Finding, Problem, Status, Step
from ottla.doctor.handshake import KafkaBroker, do_handshakes
from ottla.doctor.names import Server, Unresolved, look_up
from ottla.doctor.tcp import Connected, Endpoint, NotConnected, connect
from ottla.errors import SecurityError, quoted
from ottla.interfaces import Transport

SETTING: Final = "advertised.listeners"
_PORTS: Final = range(1, 65536)


@attrs.frozen
class _Reached:
    """The result at one address. `outcome` is a description of the peer, or the problem; `cluster_id` is the peer's.

    `refused`: the address leads to a TLS server that the client does not trust, or that does not trust the client.
    """

    outcome: str | Problem
    seconds: float
    cluster_id: str | None = None
    refused: bool = False


def advertised(
    view: ClusterView, *, transport: Transport, protocol: SecurityProtocol, bounds: Bounds
) -> Mapping[int, Finding]:
    """A finding for each broker of a cluster, by its id."""
    wanted = {broker.node_id: Server(broker.host, broker.port) for broker in view.brokers.values()}
    reached = _reach([server for server in wanted.values() if server.port in _PORTS], transport, protocol, bounds)
    invalid_port = _Reached(Problem("its port is not from 1 to 65535", ""), 0.0)
    return {
        number: _finding(number, server, reached.get(server, invalid_port), view.cluster_id)
        for number, server in wanted.items()
    }


def _reach(
    servers: Sequence[Server], transport: Transport, protocol: SecurityProtocol, bounds: Bounds
) -> Mapping[Server, _Reached]:
    reached: dict[Server, _Reached] = {}
    endpoints: list[Endpoint] = []
    for found in look_up(servers, transport=transport, canonical=False, setting=SETTING, bounds=bounds):
        if isinstance(found, Unresolved):
            reached[found.server] = _Reached(found.problem, found.seconds)
        else:
            endpoints += [Endpoint(server=found.server, address=address, own=found.own) for address in found.addresses]
    opened: dict[Endpoint, Connected] = {}
    for attempt in connect(endpoints, setting=SETTING, bounds=bounds):
        if isinstance(attempt, NotConnected):
            reached[attempt.endpoint.server] = _Reached(attempt.problem, attempt.seconds)
        else:
            opened[attempt.endpoint] = attempt
    brokers: list[KafkaBroker] = []
    for result in do_handshakes(list(opened.values()), transport=transport, bounds=bounds):
        if isinstance(result, KafkaBroker):
            brokers.append(result)
        else:
            seconds = opened[result.endpoint].seconds + result.seconds
            refused = isinstance(result.error, SecurityError)
            reached[result.endpoint.server] = _Reached(result.problem, seconds, refused=refused)
    answers = [
        _answered(broker, answer, opened[broker.endpoint].seconds)
        for broker, answer in zip(brokers, _clusters(brokers, protocol, bounds), strict=True)
    ]
    # Last come those that work: a problem at one address of a name counts only if there is one at each.
    for server, one in sorted(answers, key=lambda pair: isinstance(pair[1].outcome, str)):
        reached[server] = one
    return reached


def _answered(broker: KafkaBroker, answer: Answer | None, connected_after: float) -> tuple[Server, _Reached]:
    """The result for a broker that answered ApiVersions and, without SASL, was asked for its cluster."""
    server, release = broker.endpoint.server, broker_versions.release(broker.versions)
    seconds = connected_after + broker.handshake_seconds + broker.seconds
    if answer is None:
        return server, _Reached(release, seconds)
    seconds += answer.seconds
    if isinstance(answer.outcome, Problem):
        return server, _Reached(answer.outcome, seconds)
    return server, _Reached(release, seconds, answer.outcome.cluster_id)


def _clusters(brokers: Sequence[KafkaBroker], protocol: SecurityProtocol, bounds: Bounds) -> Sequence[Answer | None]:
    """What each broker says about its cluster; None with SASL. Ends the sessions."""
    try:
        if protocol.sasl:
            return [None] * len(brokers)
        return ask_clusters(brokers, topic=None, protocol=protocol, bounds=bounds)
    finally:
        for broker in brokers:
            broker.session.close()


def _finding(number: int, server: Server, reached: _Reached, cluster_id: str | None) -> Finding:
    subject = f"broker {number} at {server}"
    if cluster_id and reached.cluster_id and reached.cluster_id != cluster_id:
        problem = Problem(
            f"the broker advertises an address of another cluster, {quoted(reached.cluster_id)}; it is in "
            f"{quoted(cluster_id)}",
            f"set {SETTING} of broker {number} to its own address, and check where its name or load balancer leads",
        )
        return Finding.failed(Step.ADVERTISED, subject, problem, seconds=reached.seconds)
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
        # Another address would not help against an expired certificate: the handshake knows what does.
        reached.outcome.remedy
        if reached.refused
        else f"set {SETTING} of broker {number} to a name and port that its clients can reach",
    )
    return Finding.failed(Step.ADVERTISED, subject, problem, seconds=reached.seconds)
