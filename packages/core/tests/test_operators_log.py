"""Log lines for operators: the start of an outage, its cause, the next attempt, and its end."""

from __future__ import annotations

import errno
import logging
import re
import threading
from collections import deque
from contextlib import suppress

import pytest
from another_thread import Meanwhile

from machine import Machine
from ottla.accumulator.buffer_pool import BufferPool
from ottla.concurrency.environment import Environment
from ottla.errors import (
    BufferExhaustedError,
    ConnectionFailedError,
    ConnectionRetiredError,
    ErrorCode,
    TopicUnavailableError,
    TransactionError,
)
from ottla.network.cluster import Broker, Topic
from ottla.network.connection import Connection
from ottla.network.connection_log import ConnectionLog
from ottla.network.metadata_log import MetadataLog
from ottla.sender.buffer_memory_log import ENDS_AFTER, BufferMemoryLog
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedCluster
from simulated_producer import Simulated


class WaitingCall:
    """A call of `send` that waits for all memory."""

    def __init__(self, pool: BufferPool) -> None:
        in_line = threading.Event()
        options = {"timeout": 60.0, "on_wait": in_line.set}
        self._thread = threading.Thread(target=pool.reserve, args=(100,), kwargs=options, daemon=True)
        self._thread.start()
        assert in_line.wait(10.0)

    def end(self) -> None:
        """It has got its memory."""
        self._thread.join(10.0)


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
    machine.run_until_idle()
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

    machine.run_until_idle()

    [(first, begins), (last, ends)] = lines(caplog)
    assert (first, last) == ("WARNING", "INFO")
    assert begins.startswith("test: broker 1 did not take records for partition t-0: NOT_ENOUGH_REPLICAS (19): ")
    assert begins.endswith("; retrying until delivery.timeout.ms (120 s) has passed")
    seconds = machine.clock() - started
    assert ends == (
        f"test: records for partition t-0 are acknowledged again, after {seconds:.1f} s and 7 failed attempts"
    )


@pytest.mark.rule("sender.log.partition")
def test_the_end_of_the_transaction_before_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, retries=3))
    caplog.clear()
    refuse(machine, ErrorCode.CONCURRENT_TRANSACTIONS, times=7)
    started = machine.clock()
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == 1  # in spite of `retries`: it may take longer than these few attempts
    assert machine.clock() - started < 0.3  # 20 ms for each, where other errors take retry.backoff.ms, and twice that
    assert not lines(caplog)


@pytest.mark.rule("sender.log.partition")
def test_an_end_of_the_transaction_before_that_lasts_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    refuse(machine, ErrorCode.CONCURRENT_TRANSACTIONS, times=70)
    machine.send(b"a")

    machine.run_until_idle()

    [(first, begins), (last, _ends)] = lines(caplog)
    assert (first, last) == ("WARNING", "INFO")
    assert begins.startswith("test: broker 1 did not take records for partition t-0: CONCURRENT_TRANSACTIONS (51): ")


@pytest.mark.rule("sender.log.partition")
def test_two_minutes_of_retries_are_one_line_per_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    refuse(machine, ErrorCode.NOT_ENOUGH_REPLICAS, times=10_000)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.exception() is not None
    reported = [message for level, message in lines(caplog) if level == "WARNING"]
    assert len(reported) == 4
    assert "still does not take records for partition t-0, after 30." in reported[1]
    assert "more failed attempts: NOT_ENOUGH_REPLICAS" in reported[1]


@pytest.mark.rule("sender.log.partition")
def test_a_partition_with_expired_records_only_is_not_logged_as_retried(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, request_timeout=5.0, delivery_timeout=15.0))
    caplog.clear()
    refuse(machine, ErrorCode.NOT_ENOUGH_REPLICAS, times=10_000)
    delivery = machine.send(b"a")
    machine.run_until_idle()
    given_up_at = machine.clock()
    while (now := machine.clock()) < given_up_at + 400.0:
        machine.sender.run_once(now, until=now + 1.0)

    assert delivery.exception() is not None
    [_begins, (_level, ends)] = lines(caplog)
    assert ends.startswith("test: no records are sent to partition t-0 any more; the last attempts failed, ")
    assert ends.endswith(" in 14.5 s")


@pytest.mark.rule("sender.log.partition")
def test_many_partitions_that_fail_at_once_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(*[1] * 500))
    caplog.clear()
    for partition in range(500):
        machine.send(b"a", partition=partition)
    refuse(machine, ErrorCode.NOT_LEADER_OR_FOLLOWER, times=12)

    machine.run_until_idle()

    reported = lines(caplog)
    assert len(reported) <= 8
    assert " partitions (t-" in reported[0][1]
    assert reported[-1][0] == "INFO"
    assert reported[-1][1].startswith("test: records for ")


@pytest.mark.rule("sender.log.partition")
def test_the_line_about_the_next_attempt_has_the_limit_of_attempts(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, retries=3))
    refuse(machine, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
    machine.send(b"a")

    machine.run_until_idle()

    assert "; retrying up to 3 times (retries), and until delivery.timeout.ms (120 s) has passed" in caplog.text


@pytest.mark.rule("network.lost.log")
def test_a_restarted_broker_is_logged_as_lost_and_found(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.cluster.brokers[1].up = False
    machine.network.cut(1)
    machine.send(b"a")
    machine.run(40.0)
    machine.cluster.brokers[1].up = True

    machine.run_until_idle()

    reported = [(level, message) for level, message in lines(caplog) if "broker 1 at broker-1:9092" in message]
    assert [level for level, _message in reported] == ["WARNING", "WARNING", "INFO"]
    assert (
        "connecting again, with reconnect.backoff.ms up to reconnect.backoff.max.ms between attempts" in reported[0][1]
    )
    assert "still no connection after 30." in reported[1][1]
    assert "broker 1 at broker-1:9092 answers again, after 40." in reported[2][1]


def test_nothing_is_logged_while_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimulatedCluster.of(1, 2, 3)
    cluster.create("t", 1, 2, 3)
    machine = Machine(cluster)
    for _ in range(100):
        for partition in range(3):
            machine.send(b"a", partition=partition)
        machine.run(1.0)

    assert lines(caplog) == []


@pytest.mark.rule("metadata.log")
def test_a_missing_topic_has_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    log = MetadataLog(client_id="test")
    missing = Topic(name="absent", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for tenth in range(400):
        log.answered({"absent": missing}, tenth / 10)
        log.write(tenth / 10)
    log.answered({"absent": Topic(name="absent", leaders=(1,), epochs=(0,))}, 40.2)
    log.write(40.2)

    reported = lines(caplog)
    assert [level for level, _message in reported] == ["WARNING", "WARNING", "INFO"]
    assert reported[0][1].startswith("test: topic 'absent' cannot be used: UNKNOWN_TOPIC_OR_PARTITION (3): ")
    assert "topic 'absent' still cannot be used, after 30.0 s and 300 more answers" in reported[1][1]
    assert reported[2][1] == "test: topic 'absent' can be used again, after 40.2 s"


@pytest.mark.rule("metadata.log")
def test_a_missing_topic_that_is_dropped_has_a_last_line_too(caplog: pytest.LogCaptureFixture) -> None:
    log = MetadataLog(client_id="test")
    log.answered({"absent": Topic(name="absent", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}, 0.0)
    log.write(0.0)
    log.answered({"absent": Topic(name="absent", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}, 12.0)

    log.write(312.0)

    assert lines(caplog)[-1] == (
        "INFO",
        "test: metadata is no longer requested for topic 'absent'; it could not be used for 12.0 s",
    )
    assert not log.active


@pytest.mark.rule("metadata.log")
def test_partitions_without_a_leader_have_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, 1, 1))
    caplog.clear()
    topic = machine.cluster.topics["t"]
    topic.leaders[1] = topic.leaders[2] = -1
    machine.metadata.request_update()
    machine.run(3.0)
    topic.leaders[1] = topic.leaders[2] = 1
    machine.run(2.0)

    reported = lines(caplog)
    assert [level for level, _message in reported] == ["WARNING", "INFO"]
    assert "topic 't' cannot be used: 2 of 3 partitions have no leader (1, 2)" in reported[0][1]


@pytest.mark.rule("metadata.log")
def test_hundreds_of_topics_without_a_leader_share_a_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    for number in range(200):
        machine.cluster.create(f"t{number}", -1)
        machine.metadata.use(f"t{number}", machine.clock())
    machine.run(3.0)

    [(level, message)] = lines(caplog)
    assert level == "WARNING"
    assert "test: 200 topics ('t" in message


@pytest.mark.rule("metadata.log")
def test_an_unreachable_cluster_has_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)
    machine.network.hosts.refusing.add("seed")
    machine.send(b"a")
    machine.run(20.0)
    machine.network.hosts.refusing.clear()

    machine.run_until_idle()

    reported = [message for _level, message in lines(caplog) if "metadata" in message]
    assert len(reported) == 2
    assert "no broker can be asked; last error: could not connect to seed:9092" in reported[0]
    assert reported[1].startswith("test: metadata arrives again, after 2")


@pytest.mark.rule("metadata.wait.cause")
@pytest.mark.parametrize(("of", "doing"), [("names", "looking up the name"), ("hosts", "connecting")])
def test_a_server_without_an_answer_is_named_before_an_attempt_fails(
    of: str, doing: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = machine_with_topic(1)
    (machine.network.names.slow if of == "names" else machine.network.hosts.black_holes).add("seed")
    machine.send(b"a")
    for _ in range(7):  # less than socket.connection.setup.timeout.ms
        machine.clock.advance(1.0)
        machine.sender.run_once(machine.clock(), until=machine.clock())

    reason = rf"; the connection to bootstrap server at seed:9092 was not ready \(the client was {doing}\)$"
    with pytest.raises(TopicUnavailableError, match=f"no broker answered{reason}"):
        machine.metadata.wait_for("t", partition=None, timeout=1.0, waited=1.0)
    assert re.search(f"no broker can be asked{reason[:-1]}", caplog.text)


@pytest.mark.rule("metadata.log")
def test_a_quota_is_named_when_it_keeps_metadata_away(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    machine.cluster.brokers[1].throttle_ms = 50_000
    machine.send(b"a")
    while not machine.client._connections[1].throttled_until > machine.clock():
        machine.round()
    machine.metadata.use("new", machine.clock())
    for _ in range(12):
        machine.clock.advance(1.0)
        machine.sender.run_once(machine.clock(), until=machine.clock())

    error = str(machine.metadata.last_error)
    assert "broker 1 at broker-1:9092 throttles this client because of a quota, for 1" in error  # 10 s or more by now
    reported = [message for _level, message in lines(caplog) if "no broker can be asked" in message]
    assert "last error: broker 1 at broker-1:9092 throttles this client because of a quota" in reported[0]

    machine.clock.advance(50.0)  # the quota is over, and the connection, which was idle so long, is made again
    machine.network.freeze(1)
    machine.client._closer.close(machine.client._connections[1], ConnectionRetiredError("it was idle"))
    for _ in range(3):
        machine.clock.advance(1.0)
        machine.sender.run_once(machine.clock(), until=machine.clock())

    assert machine.metadata.last_error is None


@pytest.mark.rule("pool.log")
def test_exhausted_memory_has_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, buffer_memory=20_000)
    warm(machine)
    machine.cluster.brokers[1].up = False
    machine.network.cut(1)
    caplog.clear()
    with suppress(BufferExhaustedError):
        while True:
            machine.send(bytes(1_000))
    machine.run(10.0)
    machine.cluster.brokers[1].up = True
    machine.run_until_idle()
    started = machine.clock()
    while machine.pool.short:  # each round waits for what is due next
        machine.round()

    reported = [(level, message) for level, message in lines(caplog) if "buffer.memory" in message]
    assert machine.clock() - started < 100.0
    assert [level for level, _message in reported] == ["WARNING", "INFO"]
    assert "calls of send that wait: 0, refused: 1; all 20000 bytes are held" in reported[0][1]
    assert "calls of send that were refused: 1" in reported[1][1]


@pytest.mark.rule("pool.log")
def test_one_long_wait_for_memory_is_logged_and_many_short_ones_are_not(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    pool = BufferPool(100, environment=Environment(clock=clock))
    log = BufferMemoryLog(pool, client_id="test")
    pool.reserve(100, timeout=0.0)

    def wait() -> None:
        in_line = threading.Event()
        options = {"timeout": 60.0, "on_wait": in_line.set}
        threading.Thread(target=pool.reserve, args=(100,), kwargs=options, daemon=True).start()
        assert in_line.wait(10.0)

    for _ in range(20):  # a wait each second, and each of them ends
        wait()
        clock.advance(1.0)
        log.note(clock())
        pool.release(100)
    assert lines(caplog) == []

    wait()
    for _ in range(7):
        log.note(clock())
        clock.advance(1.0)
    pool.release(100)
    clock.advance(ENDS_AFTER - 2.0)
    log.note(clock())
    assert [level for level, _message in lines(caplog)] == ["WARNING"]

    clock.advance(1.0)
    log.note(clock())

    assert [level for level, _message in lines(caplog)] == ["WARNING", "INFO"]
    assert "buffer.memory is sufficient again, after 6.0 s" in lines(caplog)[1][1]
    assert "buffer.memory is exhausted for 5.0 s, calls of send that wait: 1" in lines(caplog)[0][1]


@pytest.mark.rule("pool.log")
def test_constant_memory_shortage_is_one_line_per_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    pool = BufferPool(100, environment=Environment(clock=clock))
    log = BufferMemoryLog(pool, client_id="test")
    pool.reserve(100, timeout=0.0)

    for _ in range(30):  # records of one call leave every seven seconds
        waiting = WaitingCall(pool)
        for _ in range(7):
            log.note(clock())
            clock.advance(1.0)
        pool.release(100)
        waiting.end()
        log.note(clock())  # no thread waits at this moment
    assert [level for level, _message in lines(caplog)] == ["WARNING"] * 6

    clock.advance(ENDS_AFTER)
    log.note(clock())

    assert lines(caplog)[-1] == (
        "INFO",
        "test: buffer.memory is sufficient again, after 209.0 s; calls of send that were refused: 0",
    )


@pytest.mark.rule("pool.log")
def test_repeated_refusals_are_one_line_per_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    pool = BufferPool(100, environment=Environment(clock=clock))
    log = BufferMemoryLog(pool, client_id="test")
    pool.reserve(100, timeout=0.0)

    for _ in range(100):
        with suppress(BufferExhaustedError):
            pool.reserve(100, timeout=0.0)
        log.note(clock())
        clock.advance(1.0)
        log.note(clock())
    assert 4 <= len(lines(caplog)) <= 7
    assert {level for level, _message in lines(caplog)} == {"WARNING"}

    clock.advance(ENDS_AFTER)
    log.note(clock())

    assert lines(caplog)[-1][1].endswith("after 99.0 s; calls of send that were refused: 100")


@pytest.mark.rule("pool.log")
@pytest.mark.parametrize(("waited", "said"), [(0.5, "exhausted for 0.5 s, calls"), (0.0, "exhausted, calls")])
def test_a_refusal_has_the_time_of_its_wait(waited: float, said: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    pool = BufferPool(100, environment=Environment(clock=clock))
    pool.reserve(100, timeout=0.0)
    waiter = pool.join_queue(100)
    clock.advance(waited)
    with suppress(BufferExhaustedError):
        pool.give_up(waiter, before=0.0, limit="timeout")

    BufferMemoryLog(pool, client_id="test").note(clock())

    [(_level, message)] = lines(caplog)
    assert said in message


@pytest.mark.unmeasured
def test_a_wait_for_memory_that_starts_during_a_check_is_noticed() -> None:
    def wait() -> None:
        in_line = threading.Event()
        options = {"timeout": 60.0, "on_wait": in_line.set}
        threading.Thread(target=pool.reserve, args=(100,), kwargs=options, daemon=True).start()
        assert in_line.wait(10.0)

    for step in range(1, 1_000):
        pool = BufferPool(100, environment=Environment(clock=ManualClock()))
        pool.reserve(100, timeout=0.0)
        pool.short = True
        caller = Meanwhile(BufferMemoryLog.note, step, wait)
        with caller.during():
            BufferMemoryLog(pool, client_id="test").note(0.0)
        if not caller.came:
            break
        assert pool.short, step
        pool.release(100)
    assert step > 50


@pytest.mark.rule("sender.log.coordinator")
def test_a_missing_coordinator_has_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulated(1, config={"transactional.id": "tx", "client.id": "me"})
    caplog.clear()
    refusals = deque([ErrorCode.COORDINATOR_NOT_AVAILABLE] * 30)
    simulation.cluster.brokers[1].errors_by_request["FindCoordinator"] = refusals

    simulation.producer.init_transactions()
    simulation.round(until=simulation.clock())

    reported = lines(caplog)
    assert [level for level, _message in reported] == ["WARNING", "INFO"]
    assert "me: FindCoordinator requests have failed for 1." in reported[0][1]
    assert "COORDINATOR_NOT_AVAILABLE" in reported[0][1]
    assert "me: FindCoordinator requests succeed again, after " in reported[1][1]
    simulation.producer.close()


@pytest.mark.rule("sender.log.coordinator")
@pytest.mark.parametrize(
    "refusal", [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
)
def test_a_refused_coordinator_request_is_not_logged_as_repeated(
    refusal: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    simulation = Simulated(1, config={"transactional.id": "tx", "client.id": "me"})
    caplog.clear()
    refusals = deque([*[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 30, refusal])
    simulation.cluster.brokers[1].errors_by_request["FindCoordinator"] = refusals

    with pytest.raises(TransactionError):
        simulation.producer.init_transactions()
    for _ in range(900):
        simulation.round(until=simulation.clock() + 0.5)

    first, last = [line for line in lines(caplog) if "FindCoordinator" in line[1]]
    assert "me: FindCoordinator requests have failed for 1." in first[1]
    assert last[1].startswith("me: FindCoordinator requests are not repeated any more; the last ones failed, 31 in ")
    simulation.producer.close()


@pytest.mark.rule("metadata.log")
def test_an_unused_broker_is_not_logged_as_gone(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, 2))
    machine.network.held.add(2)
    machine.send(b"a", partition=1)
    machine.run(0.1)
    machine.cluster.topics["t"].move_leader(1, 1)
    for _ in range(400):
        machine.send(b"b")
        machine.run(1.0)

    assert 2 in machine.metadata.cluster.brokers
    [line] = [message for _level, message in lines(caplog) if "broker 2" in message and "no longer tried" in message]
    assert "is no longer tried, because other brokers are used now" in line


@pytest.mark.rule("metadata.log")
def test_brokers_that_leave_and_join_the_cluster_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1, 2, 1))
    caplog.clear()
    machine.cluster.unlisted.add(2)
    machine.metadata.request_update()
    machine.run(1.0)
    machine.cluster.unlisted.clear()
    machine.metadata.request_update()
    machine.run(1.0)

    assert lines(caplog) == [
        ("INFO", "test: broker 2 at broker-2:9092 has left the cluster; brokers now: 1"),
        ("INFO", "test: broker 2 at broker-2:9092 has joined the cluster; brokers now: 2"),
    ]


@pytest.mark.rule("network.lost.log")
def test_an_unused_bootstrap_server_is_not_logged_as_gone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = ConnectionLog(client_id="test")
    server = Connection(broker=Broker(id=-2, host="kafka-2", port=9092))
    log.failed(server, ConnectionFailedError("could not connect to kafka-2:9092: ECONNREFUSED"), 0.0)
    log.write(0.0)
    caplog.clear()
    log.gone(server, 5.0)
    log.write(5.0)

    assert lines(caplog) == [
        (
            "INFO",
            "test: bootstrap server at kafka-2:9092 is no longer tried, because other brokers are used now; "
            "the last attempts failed, 1 in 0.0 s",
        )
    ]


@pytest.mark.rule("network.throttle.log")
def test_a_quota_that_throttles_a_producer_has_a_first_and_a_last_line(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.cluster.brokers[1].throttle_ms = 50_000
    machine.send(b"a")
    machine.run_until_idle()
    machine.cluster.brokers[1].throttle_ms = 0
    machine.send(b"b")
    machine.run_until_idle()
    machine.run(10.0)

    assert lines(caplog) == [
        (
            "WARNING",
            "test: throttled because of a quota by broker 1 at broker-1:9092: no request is sent to it for 50.0 s; "
            "records wait meanwhile, up to delivery.timeout.ms; send less, or have the quota of this user or client.id "
            "raised",
        ),
        ("INFO", "test: not throttled any more by broker 1 at broker-1:9092, after 50.0 s and 1 pause"),
    ]


@pytest.mark.rule("network.throttle.log")
def test_short_throttle_times_that_add_up_are_one_line_per_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.cluster.brokers[1].throttle_ms = 900
    started = machine.clock()
    while machine.clock() < started + 70.0:
        machine.send(b"a")
        machine.run_until_idle()

    reported = [message for _level, message in lines(caplog)]
    assert [" still " in message for message in reported] == [False, True, True]
    assert "broker 1 at broker-1:9092" in reported[0]
    assert reported[1].startswith("test: still throttled because of a quota by broker 1 at broker-1:9092, after 3")


@pytest.mark.rule("network.throttle.log")
def test_a_short_throttle_time_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.cluster.brokers[1].throttle_ms = 900
    machine.send(b"a")
    machine.run_until_idle()
    machine.cluster.brokers[1].throttle_ms = 0
    machine.run(60.0)

    assert lines(caplog) == []
    assert not machine.client._throttled.log.active


@pytest.mark.rule("network.throttle.log")
def test_a_throttle_time_of_minutes_is_not_logged_as_over_before_its_end(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.cluster.brokers[1].throttle_ms = 1_000_000
    machine.send(b"a")
    machine.run_until_idle()
    machine.cluster.brokers[1].throttle_ms = 0
    started = machine.clock()
    while (now := machine.clock()) < started + 990.0:
        machine.sender.run_once(now, until=now + 10.0)

    assert len([message for _level, message in lines(caplog) if "throttled" in message]) == 1


@pytest.mark.rule("network.lost.log")
def test_a_request_without_a_response_is_logged_with_its_article(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, request_timeout=2.0)
    machine.network.held.add(1)
    machine.metadata.use("t", machine.clock())
    machine.run(10.0)

    assert "did not answer an ApiVersions request within request.timeout.ms (2 s)" in caplog.text


@pytest.mark.rule("network.lost.log")
def test_an_ipv6_address_is_logged_in_the_form_of_bootstrap_servers() -> None:
    assert str(Broker(id=1, host="::1", port=9092)) == "broker 1 at [::1]:9092"
    assert str(Broker(id=-1, host="2001:db8::1", port=9092)) == "bootstrap server at [2001:db8::1]:9092"


@pytest.mark.rule("network.lost.log")
def test_a_lost_busy_connection_and_its_recovery_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    caplog.clear()
    machine.network.cut(1)
    machine.run(2.0)
    machine.send(b"a")
    machine.run_until_idle()

    [(first, begins), (last, ends)] = lines(caplog)
    assert (first, last) == ("INFO", "INFO")
    assert begins.endswith("broker 1 closed the connection; no request was in flight; the broker may be restarting")
    assert ends == "test: broker 1 at broker-1:9092 is connected again, after 0.1 s"


@pytest.mark.rule("network.lost.log")
def test_a_broker_that_closes_an_idle_connection_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    machine = warm(machine_with_topic(1))
    machine.run(10.0)
    caplog.clear()
    machine.network.cut(1)
    machine.run(1.0)
    machine.send(b"a")
    machine.run_until_idle()

    assert lines(caplog) == []


def test_a_lack_of_file_descriptors_is_logged_at_once_in_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    log = ConnectionLog(client_id="test")
    connection = Connection(broker=Broker(id=1, host="kafka", port=9092))
    lack = ConnectionFailedError("no socket: too many open files")
    lack.__cause__ = OSError(errno.EMFILE, "too many open files")
    for number, error in enumerate([ConnectionFailedError("refused"), ConnectionFailedError("reset"), lack, lack]):
        log.failed(connection, error, 0.1 * number)
        log.write(0.1 * number)

    assert [text for _level, text in lines(caplog)] == [
        f"test: broker 1 at kafka:9092: {reason}; connecting again, with reconnect.backoff.ms up to "
        "reconnect.backoff.max.ms between attempts"
        for reason in ("refused", "no socket: too many open files")
    ]
