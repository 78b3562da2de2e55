"""The shortcut for the response of an awaited record reads what the decoder of the message reads, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.accumulator.batch_outcome import Acknowledged
from ottla.errors import ProtocolError
from ottla.protocol import (
    PRODUCE,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
    read_acknowledgement,
)
from ottla.sender.produce_messages import PartitionResponse, read_response
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import simulated

pytestmark = pytest.mark.unmeasured

VERSIONS = range(PRODUCE.min_version, PRODUCE.max_version + 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@attrs.frozen
class Batch:
    """The part of a batch that names its partition."""

    topic: str
    partition: int


FIRST_WITH = {
    "error": 0,
    "two topics": 0,
    "two partitions": 0,
    "none": 0,
    "throttled": 1,
    "leader": 10,
    "endpoint": 10,
}
"""What another response may have, and the first version that can say it."""

TOPIC_ID = bytes(range(16))
ASKED = Batch("täglich", 7)


def acknowledgement(base: int, time_ms: int, start: int) -> ProduceResponse:
    """The response that acknowledges the batch that was sent, and says nothing else."""
    of_partition = PartitionProduceResponse(
        index=ASKED.partition, base_offset=base, log_append_time_ms=time_ms, log_start_offset=start
    )
    of_topic = TopicProduceResponse(name=ASKED.topic, topic_id=TOPIC_ID, partition_responses=[of_partition])
    return ProduceResponse(responses=[of_topic])


def shortcut(version: int, body: bytes) -> Acknowledged | None:
    found = read_acknowledgement(version, body, topic=ASKED.topic, topic_id=TOPIC_ID, partition=ASKED.partition)
    return None if found is None else Acknowledged(base_offset=found[0], log_append_time_ms=found[1])


def decoded(version: int, body: bytes) -> PartitionResponse | None:
    """What the decoder reads for the batch that was sent."""
    batches: Sequence[Any] = [ASKED]
    response = PRODUCE.response(version).decode(body, exact=False)
    return read_response(response, batches, {ASKED.topic: TOPIC_ID}).get((ASKED.topic, ASKED.partition))


@given(st.sampled_from([v for v in VERSIONS if PRODUCE.flexible(v)]), INT64, INT64, INT64)
def test_an_acknowledgement_is_read_by_its_bytes(version: int, base: int, time_ms: int, start: int) -> None:
    body = PRODUCE.response(version).encode(acknowledgement(base, time_ms, start))

    found = shortcut(version, body)

    assert found == decoded(version, body)
    assert found == Acknowledged(base_offset=base, log_append_time_ms=time_ms)


@given(st.sampled_from(VERSIONS), INT64, st.data())
def test_changed_bytes_are_read_as_the_decoder_reads_them_or_not_at_all(
    version: int, base: int, data: st.DataObject
) -> None:
    body = bytearray(PRODUCE.response(version).encode(acknowledgement(base, -1, 0)))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(body)[: data.draw(st.integers(len(body) - 2, len(body)))] + data.draw(st.binary(max_size=2))

    found = shortcut(version, whole)

    if found is not None:
        assert found == decoded(version, whole)


@pytest.mark.parametrize(
    ("other", "version"),
    [(other, version) for other, first in FIRST_WITH.items() for version in range(first, PRODUCE.max_version + 1)],
)
def test_a_response_that_says_more_is_decoded(other: str, version: int) -> None:
    response = acknowledgement(3, -1, 0)
    [of_topic] = response.responses
    [of_partition] = of_topic.partition_responses
    match other:
        case "error":
            of_partition.error_code = 6
        case "leader":
            of_partition.current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
        case "throttled":
            response.throttle_time_ms = 1
        case "two topics":
            response.responses = [of_topic, of_topic]
        case "two partitions":
            of_topic.partition_responses = [of_partition, of_partition]
        case "none":
            response.responses = []
        case "endpoint":
            response.node_endpoints = [NodeEndpoint(node_id=1, host="h", port=1)]

    assert shortcut(version, PRODUCE.response(version).encode(response)) is None


def test_a_cut_response_is_left_to_the_decoder_which_refuses_it() -> None:
    body = PRODUCE.response(PRODUCE.max_version).encode(acknowledgement(3, -1, 0))

    for size in range(len(body)):
        assert shortcut(PRODUCE.max_version, body[:size]) is None
        with pytest.raises(ProtocolError):
            PRODUCE.response(PRODUCE.max_version).decode(body[:size])


@pytest.mark.parametrize("newest", [8, 9, 12, 13])
def test_only_the_response_of_a_lone_batch_is_read_by_its_bytes(newest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1, 1)
    cluster.brokers[1].versions[PRODUCE.key] = (0, newest)
    decodings: list[int] = []
    codec = type(PRODUCE.response(newest))
    decode = codec.decode

    def noted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if self.label == f"Produce response v{newest}":
            decodings.append(newest)
        return decode(self, *arguments, **keywords)

    monkeypatch.setattr(codec, "decode", noted)
    with simulated(cluster=cluster, linger_ms=100) as simulation:
        one = simulation.producer.send("t", b"one", partition=0)
        simulation.run_until_idle()
        alone = len(decodings)
        two = [simulation.producer.send("t", b"two", partition=partition) for partition in (0, 1)]
        simulation.run_until_idle()

        assert one.result(0).offset == 0
        assert [each.result(0).offset for each in two] == [1, 0]
    assert alone == (0 if PRODUCE.flexible(newest) else 1)
    assert len(decodings) > alone
