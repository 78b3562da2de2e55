"""What an operator reads: when trouble began, what it is, what is tried, and when it was over."""

from __future__ import annotations

import logging

import pytest

from machine import Machine
from ottla.errors import ErrorCode
from ottla_testkit.simulation import SimulatedCluster

LOUD = ("INFO", "WARNING", "ERROR", "CRITICAL")


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="ottla")


def machine_with_topic(*leaders: int, **settings: float) -> Machine:
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    return Machine(cluster, **settings)  # type: ignore[arg-type]  # every setting is a number


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.levelname in LOUD]


def warm(machine: Machine) -> Machine:
    machine.send(b"warm")
    machine.settle()
    return machine


def refuse(machine: Machine, code: ErrorCode, *, times: int, broker: int = 1) -> None:
    machine.cluster.brokers[broker].codes.extend([code] * times)


@pytest.mark.rule("sender.log.partition")
def test_a_partition_without_replicas_has_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    refuse(machine, ErrorCode.NOT_ENOUGH_REPLICAS, times=7)
    started = machine.clock()
    machine.send(b"a")

    machine.settle()

    [(first, begins), (last, ends)] = lines(caplog)
    assert (first, last) == ("WARNING", "INFO")
    assert begins.startswith("test: broker 1 did not take records for partition t-0: NOT_ENOUGH_REPLICAS (19): ")
    assert begins.endswith("; retrying until delivery.timeout.ms (120 s) has passed")
    seconds = machine.clock() - started
    assert ends == (
        f"test: records for partition t-0 are acknowledged again, after {seconds:.1f} s and 7 failed attempts"
    )


@pytest.mark.rule("sender.log.partition")
def test_two_minutes_of_retries_are_a_line_each_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    refuse(machine, ErrorCode.NOT_ENOUGH_REPLICAS, times=10_000)
    delivery = machine.send(b"a")

    machine.settle()

    assert delivery.exception() is not None
    told = [message for level, message in lines(caplog) if level == "WARNING"]
    assert len(told) == 4
    assert "still does not take records for partition t-0, after 30." in told[1]
    assert "more failed attempts: NOT_ENOUGH_REPLICAS" in told[1]


@pytest.mark.rule("sender.log.partition")
def test_many_partitions_that_fail_at_once_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(*[1] * 500))
    caplog.clear()
    for partition in range(500):
        machine.send(b"a", partition=partition)
    refuse(machine, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=12)

    machine.settle()

    told = lines(caplog)
    assert len(told) <= 8
    assert " partitions (t-" in told[0][1]
    assert told[-1][0] == "INFO"
    assert told[-1][1].startswith("test: records for ")


@pytest.mark.rule("sender.log.partition")
def test_a_limit_of_attempts_is_part_of_what_is_tried_next(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, retries=3))
    refuse(machine, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
    machine.send(b"a")

    machine.settle()

    assert "; retrying up to 3 times (retries), and until delivery.timeout.ms (120 s) has passed" in caplog.text


@pytest.mark.rule("network.lost.told")
def test_a_broker_that_restarts_is_missed_and_found_again(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.cluster.brokers[1].up = False
    machine.network.cut(1)
    machine.send(b"a")
    machine.run(40.0)
    machine.cluster.brokers[1].up = True

    machine.settle()

    told = [(level, message) for level, message in lines(caplog) if "broker 1 at broker-1:9092" in message]
    assert [level for level, _message in told] == ["WARNING", "WARNING", "INFO"]
    assert "connecting again, with reconnect.backoff.ms up to reconnect.backoff.max.ms between attempts" in told[0][1]
    assert "still no connection after 30." in told[1][1]
    assert "broker 1 at broker-1:9092 answers again, after 40." in told[2][1]


def test_nothing_is_logged_while_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 1, 2, 3)
    machine = Machine(cluster)
    for _ in range(100):
        for partition in range(3):
            machine.send(b"a", partition=partition)
        machine.run(1.0)

    assert lines(caplog) == []
