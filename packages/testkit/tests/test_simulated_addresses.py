"""Simulated brokers say where they are, and where the log begins, as real ones do."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol import (
    METADATA,
    PRODUCE,
    Message,
    MetadataRequest,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.messages.find_coordinator import FIND_COORDINATOR, TRANSACTION, FindCoordinatorRequest
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.sealed_records import finish
from ottla_testkit.simulation import SimulatedCluster
from ottla_testkit.simulation.pending_response import content_of

ELSEWHERE = ("127.0.0.1", 19092)


def answered(cluster: SimulatedCluster, message: Message[Any, Any], version: int, request: Any) -> Any:
    """The response of broker 1."""
    header = message.key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
    tags = bytes(message.flexible(version))
    content = content_of(cluster.brokers[1].answer(header + tags + message.request(version).encode(request)))
    assert content is not None
    return message.response(version).decode(content[4 + len(tags) :])


def produce(cluster: SimulatedCluster) -> ProduceResponse:
    columns = ObjectColumns(1 << 10)
    assert columns.append(None, b"value", (), 0) is not None
    records = b"".join(finish(columns.encode(2), magic=2, compressor=None).wire_chunks())
    data = PartitionProduceData(index=0, records=records)
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    response = answered(cluster, PRODUCE, 11, request)
    assert isinstance(response, ProduceResponse)
    return response


def two_brokers() -> SimulatedCluster:
    """Broker 2 leads, coordinates, and has an address of its own."""
    cluster = SimulatedCluster.of(1, 2)
    cluster.create("t", 2)
    cluster.coordinator = 2
    cluster.brokers[2].address = ELSEWHERE
    return cluster


def test_metadata_has_the_address_of_each_broker() -> None:
    response = answered(two_brokers(), METADATA, 12, MetadataRequest(topics=None))

    assert [(each.host, each.port) for each in response.brokers] == [("broker-1", 9092), ELSEWHERE]


def test_a_coordinator_is_found_at_its_address() -> None:
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["x"])
    response = answered(two_brokers(), FIND_COORDINATOR, 4, request)

    assert [(each.host, each.port) for each in response.coordinators] == [ELSEWHERE]


def test_a_hint_names_the_address_of_the_new_leader() -> None:
    cluster = two_brokers()
    cluster.brokers[1].hints = True

    assert [(each.host, each.port) for each in produce(cluster).node_endpoints] == [ELSEWHERE]


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0),
        (ErrorCode.UNKNOWN_PRODUCER_ID, 0),
        (ErrorCode.NOT_ENOUGH_REPLICAS, -1),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1),
    ],
)
def test_a_scripted_refusal_by_the_log_has_its_first_offset(code: ErrorCode, begins: int) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].codes.append(code)
    [topic] = produce(cluster).responses
    [partition] = topic.partition_responses

    assert (partition.error_code, partition.log_start_offset) == (code, begins)
