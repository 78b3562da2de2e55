"""The error of a flush whose time runs out: the counts, and what keeps the records that are pending."""

from __future__ import annotations

import pytest

from ottla.errors import BrokerError, ErrorCode, FlushTimeoutError
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated, simulated


def cluster_with_topic() -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    return cluster


def flushed(simulation: Simulated) -> FlushTimeoutError:
    with pytest.raises(FlushTimeoutError) as caught:
        simulation.producer.flush(0)
    return caught.value


def test_the_error_of_the_last_attempt_is_shown() -> None:
    with simulated(cluster=cluster_with_topic()) as simulation:
        simulation.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
        simulation.producer.send("t", b"v")
        simulation.pass_time(2.0)
        error = flushed(simulation)
        simulation.cluster.brokers[1].codes.clear()
        simulation.pass_time(5.0)

    assert str(error).startswith("flush ran out of time after 0 s: 0 acknowledged, 0 failed, 1 pending; last error: ")
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_broker_that_does_not_answer_is_shown() -> None:
    times = {"request.timeout.ms": 1_000, "delivery.timeout.ms": 60_000}
    with simulated(cluster=cluster_with_topic(), config=times) as simulation:
        simulation.cluster.brokers[1].silent = True
        simulation.producer.send("t", b"v")
        simulation.pass_time(5.0)
        error = flushed(simulation)
        simulation.cluster.brokers[1].silent = False
        simulation.pass_time(10.0)

    assert "1 pending; last error: " in str(error)
    assert "request.timeout.ms" in str(error)


@pytest.mark.parametrize("code", [None, ErrorCode.MESSAGE_TOO_LARGE])
def test_an_error_of_other_records_is_not_shown(code: ErrorCode | None) -> None:
    with simulated(cluster=cluster_with_topic()) as simulation:
        if code is not None:
            simulation.cluster.brokers[1].codes.append(code)
            failed = simulation.producer.send("t", b"v")
            simulation.pass_time(1.0)
            assert failed.exception() is not None
        simulation.producer.send("t", b"v")
        error = flushed(simulation)

    assert str(error).endswith("1 pending")
    assert error.__cause__ is None
