"""Errors in a broker's log are found, and late heartbeats of a busy machine are none."""

from __future__ import annotations

import pytest
from old_brokers.broker_log import errors_in

_CONTROLLER = "[quorum-controller-1-event-handler] {} org.apache.kafka.controller.{} - [QuorumController id=1] {}"


@pytest.mark.parametrize(
    "line",
    [
        "[data-plane-kafka-request-handler-0] ERROR kafka.server.KafkaApis - Unexpected error handling request",
        "[main] FATAL kafka.Kafka - Exiting Kafka",
        "[data-plane-0] WARN kafka.network.Processor - closed: InvalidRequestException: wrong correlation",
        _CONTROLLER.format("ERROR", "QuorumController", "createTopics: failed with NullPointerException"),
    ],
)
def test_an_error_is_found_among_other_lines(line: str) -> None:
    log = f"[main] INFO kafka.Kafka - starting\n{line}\n[main] INFO kafka.Kafka - started\n"

    assert errors_in(log) == [line]


@pytest.mark.parametrize(
    "line",
    [
        _CONTROLLER.format(
            "INFO",
            "QuorumController",
            "processBrokerHeartbeat: event unable to start processing because of TimeoutException.",
        ),
        _CONTROLLER.format(
            "ERROR",
            "ReplicationControlManager",
            "processExpiredBrokerHeartbeat: controller event queue overloaded. Timed out heartbeat from broker 1.",
        ),
    ],
)
def test_a_late_heartbeat_of_a_busy_machine_is_no_error(line: str) -> None:
    assert errors_in(line) == []
