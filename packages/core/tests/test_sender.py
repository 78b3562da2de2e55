"""From the queue to an outcome, against a simulated cluster: retries, time-outs, order, and errors."""

from __future__ import annotations

from collections import deque

import error_copies
import pytest
import zstandard

from machine import Machine, columns
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.delivery import Delivery
from ottla.errors import (
    BrokerError,
    BrokersUnreachableError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    NetworkError,
    OttlaError,
    RequestTimeoutError,
    TopicUnavailableError,
    UnsupportedVersionError,
)
from ottla.network.cluster import Broker, Topic
from ottla.plugins.compressors.zstd import Zstd
from ottla.protocol import PRODUCE
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, ProduceErrorAction
from ottla.sender.produce_error_origins import REFUSED_BEFORE_APPEND
from ottla_testkit.simulation import SimulatedBroker, SimulatedCluster

RETRIED = [
    code
    for code, action in PRODUCE_ERROR_ACTIONS.items()
    if action in (ProduceErrorAction.RETRY, ProduceErrorAction.REFRESH)
]
FAILED = [code for code, action in PRODUCE_ERROR_ACTIONS.items() if action is ProduceErrorAction.FAIL]


def machine_with_topic(*leaders: int, **settings: float) -> Machine:
    cluster = SimulatedCluster.of(*sorted(set(leaders)))
    cluster.create("t", *leaders)
    return Machine(cluster, **settings)  # type: ignore[arg-type]  # every setting is a number


def produced(machine: Machine, broker: int = 1) -> int:
    return sum(name == "Produce" for name, _version in machine.cluster.brokers[broker].requests)


@pytest.mark.rule("sender.answer.success")
def test_a_record_arrives_and_its_delivery_has_the_offset() -> None:
    machine = machine_with_topic(1)
    deliveries = [machine.send(b"a"), machine.send(b"b")]

    machine.run_until_idle()

    assert machine.log() == [b"a", b"b"]
    assert [delivery.result().offset for delivery in deliveries] == [0, 1]
    assert machine.pool.free == machine.pool.capacity


@pytest.mark.parametrize(
    ("repeated", "time_ms", "reported"),
    [(False, 9, 9), (True, 9, -1), (True, 5, 5), (True, 12, 12), (True, -1, -1), (False, -1, -1)],
)
def test_only_a_repeat_with_the_newest_timestamp_has_no_append_time(
    repeated: bool, time_ms: int, reported: int
) -> None:
    batch = ProducerBatch(topic="t", partition=0, columns=columns(1_000), now=0.0)
    batch.append(None, b"a", (), 5, None)
    batch.append(None, b"b", (), 9, None)
    batch.maybe_written = repeated
    handler = machine_with_topic(1).sender._response_handler

    outcome = handler.on_response(batch, Acknowledged(base_offset=7, log_append_time_ms=time_ms), 1.0)

    assert outcome == Acknowledged(base_offset=7, log_append_time_ms=reported)


@pytest.mark.rule("sender.round.request")
def test_batches_of_one_broker_are_sent_in_one_request() -> None:
    machine = machine_with_topic(1, 1, 1)
    machine.send(b"warm")
    machine.run_until_idle()
    before = produced(machine)
    for partition in range(3):
        machine.send(b"x", partition=partition)

    machine.run_until_idle()

    assert produced(machine) == before + 1


def test_several_requests_to_one_broker_may_be_in_flight() -> None:
    machine = machine_with_topic(1, batch_size=100)
    for number in range(10):
        machine.send(b"%03d" % number * 30)

    machine.run_until_idle()

    assert machine.log() == [b"%03d" % number * 30 for number in range(10)]


@pytest.mark.rule("sender.answer.retriable")
@pytest.mark.parametrize("code", RETRIED, ids=lambda code: code.name)
def test_a_retriable_error_is_retried(code: ErrorCode) -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].codes.extend([code] * 3)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == 0
    assert machine.log() == [b"a"]
    assert produced(machine) == 4


@pytest.mark.rule("sender.answer.final")
@pytest.mark.parametrize("code", FAILED, ids=lambda code: code.name)
def test_a_permanent_error_fails_the_record_and_is_its_cause(code: ErrorCode) -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].codes.append(code)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is code
    assert error.possibly_persisted is (code not in REFUSED_BEFORE_APPEND)
    assert produced(machine) == 1


@pytest.mark.rule("sender.split.single")
def test_a_batch_that_the_topic_refuses_is_an_error_with_a_remedy() -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert "max.message.bytes" in str(delivery.exception())


@pytest.mark.rule("batch.error.content", "sender.retry.time")
def test_an_endless_error_ends_with_the_delivery_timeout_and_history() -> None:
    machine = machine_with_topic(1, delivery_timeout=10.0)
    machine.cluster.brokers[1].codes = deque([ErrorCode.NOT_ENOUGH_REPLICAS] * 10_000)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert machine.clock() == pytest.approx(10.0, abs=0.01)
    assert "NOT_ENOUGH_REPLICAS" in str(error)
    assert f"{error.attempts} attempts, " in str(error)
    assert "s in the queue and 0.000 s in flight, last to broker 1" in str(error)
    assert error.attempts > 5


@pytest.mark.rule("sender.retry.attempts")
def test_retries_end_with_the_configured_number() -> None:
    machine = machine_with_topic(1, retries=2)
    machine.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 5)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert error.attempts == 3
    assert not isinstance(error, DeliveryTimeoutError)


@pytest.mark.rule("sender.retry.attempts")
@pytest.mark.parametrize(("retries", "others"), [(0, 0), (2, 2), (2, 3)])
def test_waits_for_the_end_of_a_transaction_are_no_retries(retries: int, others: int) -> None:
    machine = machine_with_topic(1, retries=retries)
    concurrent, other = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_ENOUGH_REPLICAS
    machine.cluster.brokers[1].codes.extend([concurrent] * 4 + [other, *[concurrent] * 4][: 5 * others])
    machine.cluster.brokers[1].codes.extend([other] * (others - 1))
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert (error is None) == (others <= retries)


@pytest.mark.rule("sender.answer.refresh")
def test_a_new_leader_is_found() -> None:
    machine = machine_with_topic(1, 2)
    machine.send(b"before")
    machine.run_until_idle()
    machine.cluster.topics["t"].leaders[0] = 2
    delivery = machine.send(b"after")

    machine.run_until_idle()

    assert delivery.result().offset == 1
    assert produced(machine, broker=2) == 1


@pytest.mark.rule("sender.lost.connection")
def test_a_lost_connection_is_retried_on_a_new_one() -> None:
    machine = machine_with_topic(1)
    machine.send(b"warm")
    machine.run_until_idle()
    delivery = machine.send(b"a")
    machine.network.cut(1)

    machine.run_until_idle()

    assert delivery.result().offset >= 1


@pytest.mark.rule("sender.lost.timeout")
def test_a_response_lost_after_the_write_may_duplicate_but_not_lose() -> None:
    machine = machine_with_topic(1, request_timeout=2.0)
    machine.cluster.brokers[1].codes.append(None)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == 1
    assert machine.log() == [b"a", b"a"]


@pytest.mark.rule("batch.possibly")
def test_a_broker_that_never_responds_is_abandoned_as_maybe_written() -> None:
    machine = machine_with_topic(1, request_timeout=2.0, delivery_timeout=9.0)
    machine.send(b"warm")
    machine.run_until_idle()
    machine.cluster.brokers[1].silent = True
    delivery = machine.send(b"a")
    started = machine.clock()

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert error.possibly_persisted
    assert "the broker may have written them" in str(error)
    assert machine.clock() - started == pytest.approx(9.0, abs=0.1)


@pytest.mark.rule("sender.round.expire", "batch.late")
def test_a_record_in_flight_expires_and_its_late_response_is_ignored() -> None:
    machine = machine_with_topic(1, request_timeout=60.0, delivery_timeout=5.0)
    machine.send(b"warm")
    machine.run_until_idle()
    machine.cluster.brokers[1].codes.append(None)
    delivery = machine.send(b"a")

    machine.run_until_idle()
    error = delivery.exception()
    machine.run(120)

    assert isinstance(error, DeliveryTimeoutError)
    assert error.possibly_persisted
    assert error_copies.same(delivery.exception(), error)
    assert machine.pool.free == machine.pool.capacity


@pytest.mark.rule("sender.round.expire")
def test_an_unreachable_cluster_ends_with_the_delivery_timeout() -> None:
    machine = machine_with_topic(1, delivery_timeout=20.0)
    machine.send(b"warm")
    machine.run_until_idle()
    machine.cluster.brokers[1].up = False
    delivery = machine.send(b"a")
    started = machine.clock()

    machine.run_until_idle()

    assert isinstance(delivery.exception(), DeliveryTimeoutError)
    assert machine.clock() - started == pytest.approx(20.0, abs=0.1)


def test_a_broker_that_comes_back_gets_the_waiting_records() -> None:
    machine = machine_with_topic(1)
    machine.send(b"warm")
    machine.run_until_idle()
    machine.cluster.brokers[1].up = False
    delivery = machine.send(b"a")
    machine.run(30)
    assert not delivery.done()

    machine.cluster.brokers[1].up = True
    machine.run_until_idle()

    assert delivery.result().offset == 1


@pytest.mark.rule("sender.order")
def test_with_one_request_in_flight_every_retry_keeps_the_order() -> None:
    machine = machine_with_topic(1, max_in_flight=1, batch_size=100)
    machine.cluster.brokers[1].codes.extend(
        [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT] * 3
    )
    values = [b"%02d" % number * 40 for number in range(20)]
    for value in values:
        machine.send(value)

    machine.run_until_idle()

    assert machine.log() == values


@pytest.mark.rule("sender.acks-0")
def test_with_acks_0_a_record_is_acknowledged_when_it_is_written() -> None:
    machine = machine_with_topic(1, acks=0)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == -1
    assert machine.log() == [b"a"]


@pytest.mark.rule("sender.round.unready")
def test_a_throttled_broker_gets_nothing_until_its_throttle_time_ends() -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].throttle_ms = 3_000
    machine.send(b"a")
    machine.run_until_idle()
    started = machine.clock()
    delivery = machine.send(b"b")

    machine.run_until_idle()

    assert delivery.done()
    assert machine.clock() - started == pytest.approx(3.0, abs=0.1)


@pytest.mark.rule("sender.expire.quota")
@pytest.mark.parametrize("throttle_ms", [60_000, 900])
def test_a_record_that_expires_because_of_a_quota_names_it(throttle_ms: int) -> None:
    machine = machine_with_topic(1, delivery_timeout=20.0, request_timeout=15.0, batch_size=100, growing=False)
    machine.cluster.brokers[1].throttle_ms = throttle_ms
    deliveries = [machine.send(bytes(90)) for _ in range(200)]  # five in each 0.9 s

    machine.run_until_idle()

    error = deliveries[-1].exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert "never sent, 20." in str(error)
    seconds = str(error).partition("because of a quota, for ")[2].partition(" s by now")[0]
    assert float(seconds) == pytest.approx(20.0, abs=0.2)
    assert "last error: broker 1 at broker-1:9092 throttles this client because of a quota" in str(error)
    assert "have the quota of this user or client.id raised" in str(error)


@pytest.mark.rule("sender.expire.quota")
def test_a_broker_that_cannot_be_reached_is_named_before_its_quota() -> None:
    machine = machine_with_topic(1, 2, delivery_timeout=20.0, request_timeout=15.0)
    machine.cluster.brokers[1].throttle_ms = 60_000
    machine.send(b"first", partition=0)
    machine.send(b"first", partition=1)
    machine.run_until_idle()
    delivery = machine.send(b"second", partition=0)
    machine.network.hosts.refusing.add("broker-1")
    machine.network.cut(1)

    machine.run_until_idle()

    assert "ECONNREFUSED" in str(delivery.exception())
    assert "quota" not in str(delivery.exception())


@pytest.mark.rule("sender.expire.quota")
def test_a_record_that_expires_unread_because_of_a_quota_names_it() -> None:
    machine = machine_with_topic(1, 1, delivery_timeout=20.0, request_timeout=15.0)
    machine.send(b"first")
    machine.run_until_idle()
    broker = machine.cluster.brokers[1]
    broker.throttle_ms = 60_000
    broker.codes.extend([ErrorCode.NONE, None])  # as if it had not read the second one by then
    machine.network.held.add(1)
    machine.network.schedule.later(5.0, machine.network.held.clear)
    machine.send(b"a", partition=0)
    machine.sender.run_once(machine.clock(), until=machine.clock() + 1.0)
    delivery = machine.send(b"b", partition=1)

    machine.run_until_idle()

    assert "1 attempt" in str(delivery.exception())
    assert "throttles this client because of a quota" in str(delivery.exception())


def test_a_sender_with_queued_records_is_not_at_rest() -> None:
    machine = machine_with_topic(1)
    assert machine.sender.at_rest

    machine.send(b"value")
    assert not machine.sender.at_rest

    machine.run_until_idle()
    assert machine.sender.at_rest


@pytest.mark.rule("sender.expire.quota")
def test_an_earlier_quota_is_not_named() -> None:
    machine = machine_with_topic(1, delivery_timeout=20.0, request_timeout=15.0)
    broker = machine.cluster.brokers[1]
    broker.throttle_ms = 3_000
    machine.send(b"a")
    machine.run_until_idle()
    broker.silent = True
    delivery = machine.send(b"b")

    machine.run_until_idle()

    assert delivery.exception() is not None
    assert "quota" not in str(delivery.exception())


@pytest.mark.rule("producer.format.sealed")
@pytest.mark.parametrize(("newest", "magic"), [(0, 0), (1, 0), (2, 1), (3, 2), (13, 2)])
def test_an_older_broker_gets_the_record_format_that_it_supports(newest: int, magic: int) -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].versions[PRODUCE.key] = (0, newest)
    first, second = machine.send(b"a"), machine.send(b"b")

    machine.run_until_idle()

    assert machine.log() == [b"a", b"b"]
    assert [first.result().offset, second.result().offset] == [0, 1]
    assert set(machine.cluster.brokers[1].magics) == {magic}


@pytest.mark.rule("producer.format.sealed")
def test_a_batch_made_for_a_newer_broker_is_converted_for_an_older_one() -> None:
    machine = machine_with_topic(1, 2)
    machine.cluster.brokers[1].codes.append(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    machine.cluster.brokers[2].versions[PRODUCE.key] = (0, 2)
    delivery = machine.send(b"a")
    machine.cluster.topics["t"].leaders[0] = 1
    machine.run(0.05)
    machine.cluster.topics["t"].leaders[0] = 2

    machine.run_until_idle()

    assert delivery.result().offset == 0
    assert machine.log() == [b"a"]
    assert machine.cluster.brokers[2].magics == [1]


@pytest.mark.rule("producer.format.sealed")
def test_zstd_is_refused_if_the_broker_does_not_support_it() -> None:
    machine = Machine(SimulatedCluster.of(1), compressor=Zstd(zstandard, 3))
    machine.cluster.create("t", 1)
    machine.cluster.brokers[1].versions[PRODUCE.key] = (0, 6)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert isinstance(error.__cause__, UnsupportedVersionError)
    assert "zstd" in str(error)
    assert "compression.type" in str(error)


@pytest.mark.rule("producer.format.sealed")
def test_zstd_in_a_format_before_it_is_refused_because_of_the_format() -> None:
    machine = Machine(SimulatedCluster.of(1), compressor=Zstd(zstandard, 3))
    machine.cluster.create("t", 1)
    machine.cluster.brokers[1].versions[PRODUCE.key] = (0, 2)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert "record format v1 cannot carry zstd" in str(delivery.exception())


def test_records_that_an_older_format_cannot_hold_fail_alone() -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].versions[PRODUCE.key] = (0, 2)
    record = (None, b"a", (("name", b"content"),), 0, None)
    delivery = Delivery(*machine.accumulator.appender.append("t", 0, record, 20))

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert isinstance(error.__cause__, UnsupportedVersionError)
    assert "headers" in str(error)


@pytest.mark.parametrize("version", range(3, PRODUCE.max_version + 1))
def test_every_version_with_our_record_formats_works(version: int) -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].versions[PRODUCE.key] = (0, version)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    assert delivery.result().offset == 0
    assert machine.cluster.brokers[1].requests[-1] == ("Produce", version)


@pytest.mark.rule("producer.callback.order", "producer.callback.once")
def test_callbacks_run_once_in_the_order_of_the_records() -> None:
    machine = machine_with_topic(1, batch_size=200)
    seen: list[tuple[int, OttlaError | None]] = []

    def note(delivery: Delivery) -> None:
        assert delivery.metadata is not None
        seen.append((delivery.metadata.offset, delivery.error))

    for _ in range(10):
        machine.send(bytes(50), on_delivery=note)

    machine.run_until_idle()

    assert seen == [(offset, None) for offset in range(10)]


@pytest.mark.rule("producer.callback.raises")
def test_a_callback_that_raises_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1)

    def fail(_delivery: Delivery) -> None:
        raise ZeroDivisionError("the user's own fault")

    machine.send(b"a", on_delivery=fail)
    after = machine.send(b"b")

    machine.run_until_idle()

    assert after.result().offset == 1
    assert "the user's own fault" in caplog.text


def test_only_errors_that_were_not_retrieved_are_counted() -> None:
    machine = machine_with_topic(1)
    machine.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    unseen = machine.send(b"a")
    seen = machine.send(b"b")
    machine.run_until_idle()
    assert isinstance(seen.exception(), DeliveryError)

    report, count, first = machine.accumulator.report()

    assert report.failed == 2
    assert count == 1
    assert first is not None
    assert machine.accumulator.report()[1] == 0  # a reported error counts as retrieved
    assert unseen.done()


@pytest.mark.rule("producer.report.since", "producer.report.pending")
def test_the_report_covers_completions_since_the_last_one() -> None:
    machine = machine_with_topic(1)
    machine.send(b"a")
    machine.run_until_idle()
    first, _unseen, _error = machine.accumulator.report()
    machine.send(b"b")
    second, _unseen, _error = machine.accumulator.report()

    assert (first.acknowledged, first.pending) == (1, 0)
    assert (second.acknowledged, second.pending) == (0, 1)


def test_the_last_error_of_a_timed_out_batch_is_the_cause() -> None:
    machine = machine_with_topic(1, request_timeout=2.0, delivery_timeout=5.0)
    machine.send(b"warm")
    machine.run_until_idle()
    machine.cluster.brokers[1].codes.extend([None] * 10)
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert error is not None
    assert isinstance(error.__cause__, RequestTimeoutError | NetworkError)


@pytest.mark.parametrize("hints", [True, False])
@pytest.mark.rule("sender.answer.hint")
def test_a_leader_named_by_a_response_is_used_without_metadata_or_backoff(hints: bool) -> None:
    machine = machine_with_topic(1, 2)
    machine.send(b"first")
    machine.run_until_idle()
    machine.cluster.brokers[1].hints = hints
    machine.cluster.topics["t"].move_leader(0, 2)
    asked, sent_at = metadata_requests(machine), machine.clock()

    machine.send(b"second")
    machine.run_until_idle()

    assert machine.log() == [b"first", b"second"]
    assert (metadata_requests(machine) == asked) is hints
    assert (machine.clock() - sent_at < 0.05) is hints


def metadata_requests(machine: Machine) -> int:
    return sum(name == "Metadata" for broker in machine.cluster.brokers.values() for name, _ in broker.requests)


@pytest.mark.rule("sender.unreachable.waits")
def test_a_broker_restarted_before_it_was_ever_reached_loses_no_record() -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.network.hosts.refusing.add("broker-1")
    delivery = machine.send(b"a")
    machine.run(100.0)
    assert not delivery.done()

    machine.network.hosts.refusing.clear()
    machine.run_until_idle()

    assert delivery.exception() is None
    assert machine.log() == [b"a"]


@pytest.mark.rule("sender.unreachable.waits")
def test_an_unreachable_address_is_the_error_at_the_delivery_timeout() -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.network.hosts.refusing.add("broker-1")
    delivery = machine.send(b"a")

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, BrokersUnreachableError)
    assert "check the broker's advertised.listeners" in str(error)
    assert "broker 1 at broker-1:9092 was never reached" in str(error)


@pytest.mark.rule("sender.unreachable.waits")
def test_the_loss_of_a_leader_is_the_error_during_a_rebootstrap() -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.network.hosts.refusing.add("broker-1")
    delivery = machine.send(b"a")
    machine.run(119.0)
    machine.network.hosts.refusing.update(broker.host for broker in machine.metadata.cluster.brokers.values())
    machine.network.hosts.refusing.update(host for host, _port in machine.metadata.bootstrap_addresses)
    machine.metadata.rebootstrap(machine.clock())
    assert machine.metadata.cluster.bootstrap

    machine.clock.advance(1.0)
    machine.sender.expire(machine.clock())

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, BrokersUnreachableError)
    assert "ECONNREFUSED" in str(error)
    assert machine.clock() >= 120.0


@pytest.mark.rule("sender.unreachable.waits")
def test_an_unreachable_address_stays_the_error_during_a_rebootstrap() -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.network.hosts.refusing.add("broker-1")
    delivery = machine.send(b"a")
    machine.run(110.0)
    machine.network.holding = True  # so no metadata comes in time
    machine.run(9.0)
    machine.metadata.rebootstrap(machine.clock())

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, BrokersUnreachableError)
    assert "broker 1 at broker-1:9092 was never reached" in str(error)


@pytest.mark.rule("sender.unreachable.waits")
def test_an_unreachable_address_is_warned_about_at_the_first_attempt(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.network.hosts.refusing.add("broker-1")
    machine.send(b"a")

    machine.run(0.1)

    [line] = [r.getMessage() for r in caplog.records if "broker 1" in r.getMessage() and r.levelname == "WARNING"]
    assert "broker-1:9092 was never reached" in line
    assert "check the broker's advertised.listeners" in line


@pytest.mark.rule("sender.unreachable.waits")
def test_a_bootstrap_outage_is_not_called_a_wrong_advertised_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = machine_with_topic(1)
    machine.metadata._bootstrap = {-1: Broker(id=-1, host="broker-1", port=9092)}
    machine.network.hosts.refusing.add("broker-1")
    machine.send(b"a")

    machine.run(1.0)

    assert "advertised" not in caplog.text


@pytest.mark.rule("metadata.rebootstrap.unreached")
def test_a_broker_that_moves_before_it_was_reached_is_found_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.cluster.brokers[2] = SimulatedBroker(cluster=machine.cluster, id=2)
    machine.cluster.seed = 2
    machine.cluster.unlisted.add(2)
    machine.network.hosts.refusing.add("broker-1")
    delivery = machine.send(b"a")
    machine.run(20.0)
    machine.cluster.unlisted.clear()
    machine.cluster.topics["t"].move_leader(0, 2)

    machine.run(10.0)

    assert delivery.exception(timeout=0) is None
    again = [r for r in caplog.records if "asking bootstrap.servers again" in r.getMessage()]
    assert sum(r.levelname == "WARNING" for r in again) <= 1


@pytest.mark.rule("sender.expire.missing")
@pytest.mark.parametrize("refused_before", [False, True])
def test_a_record_of_a_removed_partition_has_a_clear_error(refused_before: bool) -> None:
    machine = machine_with_topic(1, 1)
    machine.send(b"warm", partition=1)
    machine.run_until_idle()
    topic = machine.cluster.topics["t"]
    if refused_before:
        machine.cluster.brokers[1].codes.extend([ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
        delivery = machine.send(b"a", partition=1)
        machine.sender.run_once(machine.clock(), until=machine.clock())
        del topic.leaders[1]
    else:
        del topic.leaders[1]
        machine.metadata.request_update()
        machine.run(1.0)
        delivery = machine.send(b"a", partition=1)

    machine.run_until_idle()

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert isinstance(error.__cause__, TopicUnavailableError)
    assert "partition 1 of topic 't' no longer exists" in str(error)
    assert "created again with 1 partition, counted" in str(error)


@pytest.mark.rule("sender.expire.missing")
def test_a_record_of_a_deleted_topic_has_a_clear_error() -> None:
    machine = machine_with_topic(1)
    machine.send(b"warm")
    machine.run_until_idle()
    brokers = machine.metadata.cluster.brokers
    gone = Topic(name="t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    machine.metadata.update(brokers, {"t": gone}, machine.clock())
    delivery = machine.send(b"a")

    machine.sender.expire(machine.clock() + 120.0)

    error = delivery.exception()
    assert isinstance(error, DeliveryTimeoutError)
    assert "topic 't' cannot be used" in str(error)
    assert "it may have been deleted" in str(error)


@pytest.mark.rule("network.gone.answers")
def test_a_broker_removed_from_metadata_may_still_respond() -> None:
    machine = machine_with_topic(1, 2)
    machine.send(b"warm")
    machine.send(b"warm", partition=1)
    machine.run_until_idle()
    machine.network.held.add(1)
    delivery = machine.send(b"a")
    for _ in range(3):
        machine.sender.run_once(machine.clock(), until=machine.clock())
    machine.cluster.unlisted.add(1)
    machine.cluster.topics["t"].move_leader(0, 2)

    machine.metadata.request_update()
    for _ in range(20):
        machine.sender.run_once(machine.clock(), until=machine.clock() + 0.05)
    assert 1 not in machine.metadata.cluster.brokers
    assert not delivery.done()
    machine.network.held.clear()
    for _ in range(3):
        machine.sender.run_once(machine.clock(), until=machine.clock() + 0.05)

    assert delivery.exception(timeout=0) is None
    assert machine.log() == [b"warm", b"a"]
    for _ in range(3):
        machine.sender.run_once(machine.clock(), until=machine.clock() + 0.05)
    assert 1 not in [connection.broker.id for connection in machine.client._connections]


@pytest.mark.rule("sender.retry.new-leader")
@pytest.mark.parametrize("hints", [True, False])
def test_every_batch_in_flight_uses_a_new_leader(hints: bool) -> None:
    machine = machine_with_topic(1, 2, batch_size=10, growing=False)
    machine.send(b"first, and long enough")
    machine.run_until_idle()
    machine.run(1.0)
    machine.cluster.brokers[1].hints = hints
    machine.network.held.add(1)
    machine.cluster.topics["t"].move_leader(0, 2)
    deliveries = []
    for _ in range(5):
        deliveries.append(machine.send(b"second, and long enough"))
        for _ in range(3):
            machine.sender.run_once(machine.clock(), until=machine.clock())
    assert machine.client.in_flight() == 5
    machine.network.held.clear()
    asked, answered_at = metadata_requests(machine), machine.clock()

    while not all(delivery.done() for delivery in deliveries):
        machine.round()

    assert machine.clock() - answered_at < 0.05 if hints else machine.clock() - answered_at <= 0.1
    assert metadata_requests(machine) - asked == (0 if hints else 1)


@pytest.mark.rule("sender.retry.new-leader")
def test_a_leader_that_refuses_again_is_retried_after_the_backoff() -> None:
    machine = machine_with_topic(1, 2)
    machine.send(b"first")
    machine.run_until_idle()
    machine.cluster.brokers[1].hints = True
    machine.cluster.topics["t"].move_leader(0, 2)
    machine.cluster.brokers[2].codes.extend([ErrorCode.NOT_LEADER_OR_FOLLOWER] * 3)
    sent_at = machine.clock()

    delivery = machine.send(b"second")
    machine.run_until_idle()

    assert delivery.exception() is None
    produced = [name for name, _ in machine.cluster.brokers[2].requests].count("Produce")
    assert produced == 4
    assert machine.clock() - sent_at >= 3 * 0.05


def test_advertised_addresses_that_become_reachable_take_records_again() -> None:
    machine = machine_with_topic(1)
    machine.network.hosts.refusing.add("broker-1")
    machine.send(b"a")
    machine.run_until_idle()

    machine.network.hosts.refusing.clear()
    machine.clock.advance(1.2)  # the longest backoff
    delivery = machine.send(b"b")
    machine.run_until_idle()

    assert delivery.exception() is None


def test_a_silent_advertised_address_is_warned_about_at_setup_timeout(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with_topic(1, setup_timeout=10.0)
    machine.network.hosts.black_holes.add("broker-1")
    delivery = machine.send(b"a")

    machine.run(10.5)

    assert "broker-1:9092 was not ready within socket.connection.setup.timeout.ms" in caplog.text
    assert "check the broker's advertised.listeners" in caplog.text
    assert not delivery.done()


def test_a_broker_that_was_reached_once_is_waited_for_without_limit() -> None:
    machine = machine_with_topic(1, delivery_timeout=120.0)
    machine.send(b"first")
    machine.run_until_idle()
    machine.network.cut(1)
    machine.network.hosts.refusing.add("broker-1")
    delivery = machine.send(b"second")
    machine.run(60.0)
    assert not delivery.done()

    machine.network.hosts.refusing.clear()
    machine.run_until_idle()

    assert delivery.exception() is None
