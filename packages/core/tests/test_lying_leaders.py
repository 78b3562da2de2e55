"""Brokers that name leaders as it suits them: what a producer does costs no more than brokers that are merely lost."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import attrs
import pytest
from broker_on_a_socket import SocketBroker

from machine import Machine
from ottla import Producer
from ottla.errors import ErrorCode, ResponseTooLargeError, TopicUnavailableError
from ottla.protocol import PRODUCE, ProduceRequest, ProduceResponse
from ottla.protocol.messages.produce import LeaderIdAndEpoch, NodeEndpoint
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster
from ottla_testkit.simulation.pending_response import Response


@attrs.define(kw_only=True, slots=False)
class LyingBroker(SimulatedBroker):
    """Leads nothing by its own words; `liars` are the leaders that it names, one after the other, then it is honest."""

    leaders: Iterator[NodeEndpoint] = attrs.field(factory=lambda: iter(()))
    terms: Iterator[int] = attrs.field(factory=lambda: itertools.count(10))

    named: NodeEndpoint | None = None

    def answer(self, frame: bytes) -> Response:
        if int.from_bytes(frame[:2], "big") == PRODUCE.key:
            self.named = next(self.leaders, None)
            if self.named is not None:
                self.codes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return super().answer(frame)

    def edit(self, request: ProduceRequest, response: ProduceResponse) -> ProduceResponse:
        leader = self.named
        if leader is None:
            return response
        for topic in response.responses:
            for partition in topic.partition_responses:
                partition.current_leader = LeaderIdAndEpoch(leader_id=leader.node_id, leader_epoch=next(self.terms))
        response.node_endpoints = [leader]
        return response


def lying_cluster(leaders: Iterator[NodeEndpoint], *nodes: int) -> SimulatedCluster:
    cluster, terms = SimulatedCluster(), itertools.count(10)
    for node in nodes:
        cluster.brokers[node] = LyingBroker(cluster=cluster, id=node, leaders=leaders, terms=terms)
    cluster.create("t", nodes[0])
    return cluster


def produced(cluster: SimulatedCluster) -> int:
    return sum(name == "Produce" for broker in cluster.brokers.values() for name, _ in broker.requests)


def endpoint(node: int) -> NodeEndpoint:
    return NodeEndpoint(node_id=node, host=f"broker-{node}", port=9092)


@pytest.mark.rule("metadata.hint.two")
def test_brokers_that_name_each_other_forever_are_retried_after_backoff() -> None:
    cluster = lying_cluster(map(endpoint, itertools.cycle([2, 1])), 1, 2)
    machine = Machine(cluster, delivery_timeout=10.0)
    delivery = machine.send(b"a")

    machine.run(3.0)

    assert not delivery.done()
    assert produced(cluster) <= 3 + 3 / 0.05  # the machine's backoff is constant


@pytest.mark.rule("metadata.hint.two")
def test_a_record_is_sent_once_brokers_name_the_right_leader() -> None:
    cluster = lying_cluster(map(endpoint, [2, 1, 2, 1, 2, 1]), 1, 2)
    machine = Machine(cluster)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.exception() is None
    assert machine.log() == [b"a"]
    assert machine.metadata.hints == {}


@pytest.mark.rule("sender.answer.hint")
def test_two_leader_changes_in_a_row_are_followed_at_once() -> None:
    cluster = lying_cluster(map(endpoint, [2, 3]), 1, 2, 3)
    machine = Machine(cluster)
    cluster.topics["t"].leaders[0] = 1
    machine.send(b"first")  # learns of the two hints, and ends at broker 3, which is not the leader any more
    machine.run(0.02)

    assert produced(cluster) >= 3


@pytest.mark.rule("metadata.hint.unlisted")
def test_brokers_invented_in_responses_cost_one_connection_per_second() -> None:
    """Sockets: 130 connections in three seconds before, none of which was closed."""
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    broker = SocketBroker(LyingBroker(cluster=cluster, id=1))
    cluster.brokers[1] = broker.broker
    with broker.serving() as servers:
        host, port = servers.split(":")
        broker.broker.leaders = (NodeEndpoint(node_id=n, host=host, port=int(port)) for n in itertools.count(100))  # type: ignore[attr-defined]  # a LyingBroker
        with Producer(
            bootstrap_servers=servers, delivery_timeout_ms=2_500, request_timeout_ms=2_000, linger_ms=0
        ) as producer:
            delivery = producer.send("t", b"v")
            assert delivery.exception(20.0) is not None

    assert 2 <= broker.connections <= 1 + 3  # the first one is the bootstrap server's, and the broker's


@pytest.mark.rule("selector.receive.bounded")
def test_a_response_above_receive_message_max_bytes_names_the_setting() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", *[1] * 200)
    with SocketBroker(cluster.brokers[1]).serving() as servers:
        producer = Producer(bootstrap_servers=servers, receive_message_max_bytes=1_500, max_block_ms=2_000)
        with (
            producer,
            pytest.raises(TopicUnavailableError, match=r"receive\.message\.max\.bytes allows 1500") as raised,
        ):
            producer.send("t", b"v")

    assert isinstance(raised.value.__cause__, ResponseTooLargeError)
