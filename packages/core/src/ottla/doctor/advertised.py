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
from ottla.doctor.cluster_view import ClusterView, Outcome, ask_clusters
from ottla.doctor.findings import Finding, Problem, Status, Step
from ottla.doctor.handshake import KafkaBroker, do_handshakes
from ottla.doctor.names import Server, Unresolved, look_up
from ottla.doctor.tcp import Connected, Endpoint, NotConnected, connect
from ottla.errors import quoted
from ottla.interfaces import Transport

SETTING: Final = "advertised.listeners"
_PORTS: Final = range(1, 65536)


@attrs.frozen
class _Reached:
    """The result at one address. `outcome` is a description of the peer, or the problem; `cluster_id` is the peer's."""

    outcome: str | Problem
    seconds: float
    cluster_id: str | None = None


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
    started = bounds.clock()
    reached: dict[Server, _Reached] = {}

    def note(server: Server, outcome: str | Problem, cluster_id: str | None = None) -> None:
        reached[server] = _Reached(outcome, bounds.clock() - started, cluster_id)

    endpoints: list[Endpoint] = []
    for found in look_up(servers, transport=transport, canonical=False, setting=SETTING, bounds=bounds):
        if isinstance(found, Unresolved):
            note(found.server, found.problem)
        else:
            endpoints += [Endpoint(server=found.server, address=address, own=found.own) for address in found.addresses]
    opened: list[Connected] = []
    for attempt in connect(endpoints, setting=SETTING, bounds=bounds):
        if isinstance(attempt, NotConnected):
            note(attempt.endpoint.server, attempt.problem)
        else:
            opened.append(attempt)
    results = do_handshakes(opened, transport=transport, bounds=bounds)
    brokers = [result for result in results if isinstance(result, KafkaBroker)]
    for result in results:
        if not isinstance(result, KafkaBroker):
            note(result.endpoint.server, result.problem)
    answers = list(zip(brokers, _clusters(brokers, protocol, bounds), strict=True))
    # Last come those that work: a problem at one address of a name counts only if there is one at each.
    for broker, outcome in sorted(answers, key=lambda answer: not isinstance(answer[1], Problem)):
        release = broker_versions.release(broker.versions)
        match outcome:
            case Problem():
                note(broker.endpoint.server, outcome)
            case ClusterView(cluster_id=cluster_id):
                note(broker.endpoint.server, release, cluster_id)
            case None:
                note(broker.endpoint.server, release)
    return reached


def _clusters(brokers: Sequence[KafkaBroker], protocol: SecurityProtocol, bounds: Bounds) -> Sequence[Outcome | None]:
    """What each broker says about its cluster; None with SASL. Ends the sessions."""
    try:
        if protocol.sasl:
            return [None] * len(brokers)
        answers = ask_clusters(brokers, topic=None, protocol=protocol, bounds=bounds)
        return [answer.outcome for answer in answers]
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
        f"set {SETTING} of broker {number} to a name and port that its clients can reach",
    )
    return Finding.failed(Step.ADVERTISED, subject, problem, seconds=reached.seconds)
