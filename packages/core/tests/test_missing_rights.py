"""The right that an error names: of the resource that the broker refused, and of no other."""

from __future__ import annotations

import logging
from collections import deque

import pytest

from ottla.errors import AbortableTransactionError, ErrorCode, FatalTransactionError, TransactionError
from ottla.network.cluster import Topic
from ottla.network.metadata_log import MetadataLog
from ottla.network.topic_errors import FINAL_TOPIC_ERRORS, refusal
from ottla.transactions.acl_hints import needed
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated, simulated

OF_THE_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def refuse(simulation: Simulated, request: str, code: ErrorCode) -> None:
    for broker in simulation.cluster.brokers.values():
        broker.errors_by_request[request] = deque([code])


def cluster_with_topic() -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    return cluster


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (OF_THE_ID, " This user needs Write for transactional id 'orders-1'."),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, " This user needs Read for group 'readers'."),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, " To commit offsets, this user needs Read for topic 'b', 'a'."),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""),
        (ErrorCode.NOT_COORDINATOR, ""),
    ],
)
def test_a_refusal_names_the_right_for_its_resource(code: ErrorCode, end: str) -> None:
    assert needed(code, transactional_id="orders-1", group="readers", read=["b", "a"]) == end


@pytest.mark.parametrize("code", ErrorCode)
def test_no_right_is_named_without_its_resource(code: ErrorCode) -> None:
    assert needed(code) == ""


def test_a_topic_in_metadata_may_need_to_be_created() -> None:
    error = refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert str(error).endswith("it needs Write, and Create if the topic does not exist")


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_the_log_says_whether_send_waits_for_a_topic(code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    log = MetadataLog(client_id="me")
    with caplog.at_level(logging.WARNING):
        log.answered({"t": Topic(name="t", error=code)}, 0.0)
        log.write(0.0)

    [line] = caplog.messages
    assert ("send raises this error at once" in line) is (code in FINAL_TOPIC_ERRORS)
    assert ("send waits up to max.block.ms" in line) is (code not in FINAL_TOPIC_ERRORS)


@pytest.mark.parametrize("request_name", ["FindCoordinator", "InitProducerId"])
def test_a_refused_initialization_names_the_right(request_name: str) -> None:
    with simulated(cluster=cluster_with_topic(), transactional_id="x") as simulation:
        refuse(simulation, request_name, OF_THE_ID)
        with pytest.raises(TransactionError) as caught:
            simulation.producer.init_transactions()

    assert "This user needs Write for transactional id 'x'; fix the cause" in str(caught.value)


@pytest.mark.parametrize("refused", ["Produce", "EndTxn"])
def test_a_producer_that_loses_its_right_names_it(refused: str) -> None:
    with simulated(cluster=cluster_with_topic(), transactional_id="x") as simulation:
        producer = simulation.producer
        producer.init_transactions()
        producer.begin_transaction()
        if refused == "Produce":
            simulation.cluster.brokers[1].codes.append(OF_THE_ID)
        else:
            refuse(simulation, refused, OF_THE_ID)
        producer.send("t", b"v")
        with pytest.raises(FatalTransactionError) as caught:
            producer.commit_transaction()

    assert "This user needs Write for transactional id 'x'; it was " in str(caught.value)


def test_a_group_without_a_coordinator_is_named() -> None:
    with simulated(cluster=cluster_with_topic(), transactional_id="x") as simulation:
        simulation.producer.init_transactions()
        simulation.producer.begin_transaction()
        refuse(simulation, "FindCoordinator", ErrorCode.GROUP_AUTHORIZATION_FAILED)
        with pytest.raises(AbortableTransactionError, match="This user needs Read for group 'g'; call abort"):
            simulation.producer.send_offsets_to_transaction({("t", 0): 1}, "g")


def test_an_old_epoch_may_come_from_the_time_limit_of_a_transaction() -> None:
    """With KIP-890 the abort by the coordinator looks to a producer as if another one had its id."""
    with simulated(cluster=cluster_with_topic(), transactional_id="x") as simulation:
        producer = simulation.producer
        producer.init_transactions()
        producer.begin_transaction()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_PRODUCER_EPOCH)
        producer.send("t", b"v")
        with pytest.raises(AbortableTransactionError) as caught:
            producer.commit_transaction()

    assert "may have been open for longer than transaction.timeout.ms" in str(caught.value)
    assert ".;" not in str(caught.value)
