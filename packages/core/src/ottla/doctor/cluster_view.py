"""Brokers' metadata of their cluster, requested without ever creating a topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.config import SecurityProtocol
from ottla.doctor.bounds import Bounds
from ottla.doctor.findings import Problem, listed
from ottla.doctor.handshake import KafkaBroker, unanswered
from ottla.doctor.tcp import Endpoint
from ottla.doctor.workers import side_by_side
from ottla.errors import BrokerError, ErrorCode, UnsupportedVersionError, counted, error_code, printable, quoted
from ottla.network import Request
from ottla.network.metadata_messages import usable_brokers
from ottla.protocol import (
    METADATA,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
    choose_version,
)
from ottla.protocol.topic_rights import FIRST_WITH_RIGHTS

_NO_CREATION_FROM: Final = 4
"""Before this version, a request for one topic by name may create it: all topics are requested instead."""


@attrs.frozen(kw_only=True)
class ClusterView:
    """The content of a Metadata response. `topic` is the requested one, None if the response lacks it."""

    cluster_id: str | None
    controller: int
    brokers: Mapping[int, MetadataResponseBroker]
    topic: MetadataResponseTopic | None

    def __str__(self) -> str:
        ids = listed(sorted(self.brokers))
        controller = f"controller: {self.controller}" if self.controller >= 0 else "no controller known"
        named = f"cluster {printable(self.cluster_id)}" if self.cluster_id else "cluster without an id"
        return f"{named}, {counted(len(self.brokers), 'broker')}: {ids}; {controller}"


Outcome: TypeAlias = ClusterView | Problem


@attrs.frozen(kw_only=True)
class Answer:
    """One broker's description of its cluster, or the problem if there is no usable response."""

    endpoint: Endpoint
    outcome: Outcome
    seconds: float


def ask_clusters(
    brokers: Sequence[KafkaBroker], *, topic: str | None, protocol: SecurityProtocol, bounds: Bounds
) -> Sequence[Answer]:
    """Request the brokers of their cluster and, if given, *topic* from each of these; one answer for each, in order."""
    started = bounds.clock()

    def work(broker: KafkaBroker) -> Answer:
        outcome = _ask_cluster(broker, topic=topic, protocol=protocol, bounds=bounds)
        return Answer(endpoint=broker.endpoint, outcome=outcome, seconds=bounds.clock() - started)

    late = Problem("the transport did not return in time", "report this to the transport plugin's authors")
    return [
        answer or Answer(endpoint=broker.endpoint, outcome=late, seconds=bounds.clock() - started)
        for broker, answer in zip(brokers, side_by_side(work, brokers, bounds=bounds), strict=True)
    ]


def several_clusters(answers: Sequence[Answer]) -> Problem | None:
    """The problem if brokers are of different clusters; those without an id, before 0.10.1, may be of any."""
    servers: dict[str, list[str]] = {}
    for answer in answers:
        if isinstance(answer.outcome, ClusterView) and answer.outcome.cluster_id:
            servers.setdefault(answer.outcome.cluster_id, []).append(str(answer.endpoint))
    if len(servers) < 2:
        return None
    clusters = ", ".join(f"{quoted(name)} ({', '.join(each)})" for name, each in servers.items())
    return Problem(
        f"these servers belong to {len(servers)} clusters: {clusters}",
        "name servers of one cluster: a producer sends to the cluster whose server answers first",
    )


def _ask_cluster(broker: KafkaBroker, *, topic: str | None, protocol: SecurityProtocol, bounds: Bounds) -> Outcome:
    if METADATA.key not in broker.versions:
        return Problem(
            "the server speaks Kafka but supports no Metadata requests: this is a controller's listener",
            "name a listener for clients in bootstrap.servers",
        )
    started = bounds.clock()
    try:
        version = choose_version(METADATA, *broker.versions[METADATA.key])
        body = broker.session.ask(topic_metadata_request(topic), version)
        return _view(METADATA.response(version).decode(body, exact=False), topic)
    except UnsupportedVersionError as error:
        return Problem.of_error(error, remedy="upgrade ottla")
    except Exception as error:  # including those of the transport plugin
        login = "SASL_SSL" if protocol is SecurityProtocol.SSL else "SASL_PLAINTEXT"
        remedy = f"set security.protocol={login} if this listener requires a login, else check the broker's log"
        return unanswered(error, seconds=bounds.clock() - started, remedy=remedy)


def topic_metadata_request(topic: str | None) -> Request:
    """A request for the brokers and, if given, for a topic; it never creates the topic."""

    def body(version: int) -> list[bytes]:
        topics: list[MetadataRequestTopic] | None = []
        if topic is not None:
            topics = [MetadataRequestTopic(name=topic)] if version >= _NO_CREATION_FROM else _all_topics(version)
        question = MetadataRequest(
            topics=topics,
            allow_auto_topic_creation=version < _NO_CREATION_FROM,
            include_topic_authorized_operations=version >= FIRST_WITH_RIGHTS,
        )
        return [METADATA.request(version).encode(question)]

    return Request(message=METADATA, body=body, on_complete=lambda _completion: None)


def _all_topics(version: int) -> list[MetadataRequestTopic] | None:
    return None if version > 0 else []


def _view(answer: MetadataResponse, topic: str | None) -> Outcome:
    code = error_code(answer.error_code)
    if code is not ErrorCode.NONE:
        return Problem.of_error(BrokerError(code), remedy="check the broker's log")
    brokers, _unusable = usable_brokers(answer.brokers)
    if not brokers:
        return Problem("the metadata lists no brokers", "wait until it has joined its cluster, or check its log")
    return ClusterView(
        cluster_id=answer.cluster_id,
        controller=answer.controller_id,
        brokers=brokers,
        topic=next((found for found in answer.topics if found.name == topic), None) if topic is not None else None,
    )
