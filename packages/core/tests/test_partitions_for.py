"""`partitions_for`: what is known of a topic's partitions, waited for as `send` waits."""

from __future__ import annotations

from typing import Any

import pytest

from ottla import Broker, InvalidRecordError, PartitionInfo, ProducerClosedError, TopicUnavailableError
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import simulated


@pytest.mark.rule("producer.partitions-for")
def test_partitions_come_in_order_with_their_leaders() -> None:
    with simulated(2, 1, 2) as simulation:
        found = simulation.producer.partitions_for("t")

    assert [(each.topic, each.partition) for each in found] == [("t", 0), ("t", 1), ("t", 2)]
    leaders = [each.leader for each in found]
    assert [leader.id for leader in leaders if leader is not None] == [2, 1, 2]
    assert isinstance(leaders[0], Broker)


@pytest.mark.rule("producer.partitions-for")
def test_a_partition_without_a_leader_has_leader_none() -> None:
    with simulated(1, 1) as simulation:
        simulation.cluster.topics["t"].leaders[1] = -1
        simulation.metadata.request_update()
        simulation.run_until(lambda: simulation.metadata.cluster.leader("t", 1) is None)

        assert simulation.producer.partitions_for("t")[1] == PartitionInfo(topic="t", partition=1, leader=None)


@pytest.mark.rule("producer.partitions-for")
def test_a_topic_that_is_not_found_in_time_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1, max_block_ms=3_000) as simulation:
        monkeypatch.setattr(
            simulation.metadata._changed, "wait", simulation.clock.advance
        )  # time passes, and nothing comes
        with pytest.raises(TopicUnavailableError, match=r"within max\.block\.ms"):
            simulation.producer.partitions_for("unknown")


@pytest.mark.rule("producer.partitions-for", "producer.send.timeout")
def test_a_topic_that_is_not_found_within_the_timeout_is_unavailable() -> None:
    with (
        simulated(1, know=False) as simulation,
        pytest.raises(TopicUnavailableError, match="topic 't' is not available: its metadata"),
    ):
        simulation.producer.partitions_for("t", timeout=0)


@pytest.mark.parametrize("topic", ["", "a b", None])
def test_an_invalid_topic_name_is_refused(topic: Any) -> None:
    with simulated(1) as simulation, pytest.raises(InvalidRecordError, match="is not a topic name"):
        simulation.producer.partitions_for(topic)


def test_a_closed_producer_refuses_partitions_for() -> None:
    with simulated(1) as simulation:
        simulation.producer.close()
        with pytest.raises(ProducerClosedError):
            simulation.producer.partitions_for("t")


def test_partitions_for_may_be_called_outside_of_a_transaction() -> None:
    with simulated(1, transactional_id="x") as simulation:
        assert len(simulation.producer.partitions_for("t")) == 1


def test_a_mock_producer_returns_the_partitions_of_its_topics() -> None:
    with MockProducer(topics={"orders": 3}) as producer:
        assert len(producer.partitions_for("orders")) == 3
        with pytest.raises(TopicUnavailableError):
            producer.partitions_for("unknown")
