"""Numbers and ids of an idempotent producer, against a simulated cluster; what may go wrong one by one."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

import pytest

from ottla.accumulator.batch_outcome import Failed
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.idempotent_epoch_bump import LAST_EPOCH
from ottla.accumulator.sequences import Sequences
from ottla.config import ConfigDraft, Idempotence
from ottla.errors import (
    BrokerError,
    ConfigError,
    DeliveryError,
    DeliveryTimeoutError,
    ErrorCode,
    UnsupportedVersionError,
)
from ottla.protocol import PRODUCE
from ottla.protocol.messages.init_producer_id import INIT_PRODUCER_ID
from ottla.recordbatch.batch_sequence import SEQUENCES, ProducerIdAndEpoch
from ottla_testkit.simulation import SimulatedCluster
from ottla_testkit.simulation.producers import WrittenBatch
from simulated_producer import Simulated, simulated

SERVERS = {"bootstrap.servers": "kafka:9092"}
ONE_BY_ONE = {"batch.size": 1, "batch.growth.enable": False}
"""Each record is a batch."""


def numbers(simulation: Simulated) -> Sequences:
    found = simulation.sender._sequences
    assert found is not None
    return found


def sequences(simulation: Simulated, partition: int = 0) -> list[tuple[int, int, int]]:
    """Epoch, first and last sequence of what the partition remembers of our batches."""
    entries = simulation.cluster.topics["t"].producers[partition].entries
    return [(entry.epoch, written.first, written.last) for entry in entries.values() for written in entry.batches]


def fly(simulation: Simulated, *values: bytes) -> list[Delivery]:
    """Have records under way whose answers have not come yet; up to five requests at once."""
    simulation.network.holding = True
    deliveries = [simulation.producer.send("t", value) for value in values]
    simulation.run_until(
        lambda: sum(delivery._batch.in_flight for delivery in deliveries) == len(values), time_passes=False
    )
    simulation.network.holding = False
    return deliveries


def asked(simulation: Simulated, name: str) -> int:
    return sum(request == name for broker in simulation.cluster.brokers.values() for request, _ in broker.requests)


# When it is on


def test_idempotence_is_on_by_default() -> None:
    assert ConfigDraft.read(SERVERS).finish().transactions.idempotence is Idempotence.IF_POSSIBLE


@pytest.mark.parametrize(("key", "value"), [("acks", 1), ("acks", 0), ("retries", 0)])
def test_a_conflicting_setting_turns_it_off_with_one_log_line(
    key: str, value: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="ottla.config"):
        config = ConfigDraft.read({**SERVERS, key: value}).finish()

    [line] = caplog.messages
    assert config.transactions.idempotence is Idempotence.OFF
    assert line.startswith(f"enable.idempotence is false, because of {key}={value}")


def test_required_settings_that_are_set_explicitly_keep_it_on() -> None:
    config = ConfigDraft.read({**SERVERS, "acks": "all", "retries": 3, "max.in.flight.requests.per.connection": 5})

    assert config.finish().transactions.idempotence is Idempotence.IF_POSSIBLE


@pytest.mark.parametrize("asking", [{"enable.idempotence": True}, {"transactional.id": "orders"}])
def test_explicit_idempotence_with_conflicts_is_one_error_naming_all(asking: dict[str, object]) -> None:
    against = {"acks": 1, "retries": 0, "max.in.flight.requests.per.connection": 6}
    with pytest.raises(ConfigError) as caught:
        ConfigDraft.read({**SERVERS, **against, **asking}).finish()

    [problem] = caught.value.problems
    assert all(name in problem for name in [*asking, "acks=1", "retries=0", "max.in.flight.requests.per.connection=6"])


def test_more_than_five_in_flight_requires_switching_it_off() -> None:
    many = {**SERVERS, "max.in.flight.requests.per.connection": 6}
    with pytest.raises(ConfigError, match=r"max\.in\.flight.*at most 5.*enable\.idempotence=false"):
        ConfigDraft.read(many).finish()

    assert ConfigDraft.read({**many, "enable.idempotence": False}).finish().delivery.max_in_flight == 6


def test_a_transactional_id_without_idempotence_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"transactional\.id needs enable\.idempotence=true"):
        ConfigDraft.read({**SERVERS, "transactional.id": "x", "enable.idempotence": False}).finish()


def test_two_phase_commit_requires_an_id_and_has_no_timeout() -> None:
    two_phase = {**SERVERS, "transaction.two.phase.commit.enable": True}
    with pytest.raises(ConfigError, match=r"needs a transactional\.id"):
        ConfigDraft.read(two_phase).finish()
    with pytest.raises(ConfigError, match=r"no time-out"):
        ConfigDraft.read({**two_phase, "transactional.id": "x", "transaction.timeout.ms": 5}).finish()

    assert ConfigDraft.read({**two_phase, "transactional.id": "x"}).finish().transactions.timeout == 2**31 - 1


def old_cluster() -> SimulatedCluster:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    del cluster.brokers[1].versions[INIT_PRODUCER_ID.key]
    return cluster


def test_old_brokers_turn_it_off_with_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ottla"), simulated(cluster=old_cluster()) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

    assert delivery.result().offset == 0
    assert [line for line in caplog.messages if "idempotence is off" in line] != []
    assert sequences(simulation) == []


def test_old_brokers_fail_explicit_idempotence() -> None:
    with simulated(cluster=old_cluster(), enable_idempotence=True) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        error = delivery.exception()
        assert isinstance(error, DeliveryError)
        assert isinstance(error.__cause__, UnsupportedVersionError)
        assert "enable.idempotence=true needs brokers of 0.11" in str(error)


def test_explicit_idempotence_never_sends_a_batch_without_a_number() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].versions[PRODUCE.key] = (0, 2)  # knows producer ids, but not the format that carries them
    with simulated(cluster=cluster, enable_idempotence=True) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert isinstance(delivery.exception(), DeliveryError)
        assert "cannot carry producer ids and sequences" in str(delivery.exception())
        assert simulation.log() == []


def test_a_broker_whose_format_has_no_numbers_gets_records_by_default() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].versions[PRODUCE.key] = (0, 2)
    with simulated(cluster=cluster) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert delivery.result(0).offset == 0
        assert simulation.log() == [b"v"]


# Ids


def test_a_producer_id_is_requested_once_before_the_first_record() -> None:
    with simulated(1, 1) as simulation:
        for partition in (0, 1, 0, 1):
            simulation.producer.send("t", b"v", partition=partition)
            simulation.run_until_idle()

        assert asked(simulation, "InitProducerId") == 1
        assert sequences(simulation, 0) == sequences(simulation, 1) == [(0, 0, 0), (0, 1, 1)]


def test_a_producer_id_that_does_not_come_is_logged_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].errors_by_request["InitProducerId"] = deque([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 30)
    with simulated(cluster=cluster) as simulation:
        simulation.producer.send("t", b"v")
        simulation.run_until_idle()

    [line] = [line for line in caplog.messages if "requests have failed" in line]
    assert "InitProducerId" in line
    assert "COORDINATOR_LOAD_IN_PROGRESS" in line


def test_a_refused_producer_id_fails_the_queue_and_is_requested_again() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    codes = cluster.brokers[1].errors_by_request
    codes["InitProducerId"] = deque([ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2)
    with simulated(cluster=cluster) as simulation:
        first = simulation.producer.send("t", b"1")
        simulation.run_until_idle()
        simulation.pass_time(1.0)  # the backoff, during which the refusal holds for other records, too
        second = simulation.producer.send("t", b"2")
        simulation.run_until_idle()

        error = first.exception()
        assert isinstance(error, DeliveryError)
        assert isinstance(error.__cause__, BrokerError)
        assert "it needs Write for a topic, or IdempotentWrite for the cluster if" in str(error)
        assert "enable.idempotence" not in str(error)  # would not help: the user may write nothing
        assert second.result().offset == 0


def test_another_refusal_of_a_producer_id_names_the_setting() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].errors_by_request["InitProducerId"] = deque([ErrorCode.POLICY_VIOLATION] * 2)
    with simulated(cluster=cluster) as simulation:
        delivery = simulation.producer.send("t", b"1")
        simulation.run_until_idle()

        assert "enable.idempotence=false needs none" in str(delivery.exception())


def test_a_temporarily_unavailable_producer_id_is_requested_again() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    cluster.brokers[1].errors_by_request["InitProducerId"] = deque(codes)
    with simulated(cluster=cluster) as simulation:
        delivery = simulation.producer.send("t", b"1")
        simulation.run_until_idle()

        assert delivery.result().offset == 0
        assert asked(simulation, "InitProducerId") == 3


def test_a_record_that_expires_without_a_producer_id_says_why() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].errors_by_request["InitProducerId"] = deque([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1_000)
    with simulated(cluster=cluster, delivery_timeout_ms=2_000, request_timeout_ms=1_000) as simulation:
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        error = delivery.exception()
        assert isinstance(error, DeliveryTimeoutError)
        assert isinstance(error.__cause__, BrokerError)
        assert error.__cause__.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        producer_id_and_epoch = numbers(simulation).producer_id_and_epoch
        assert producer_id_and_epoch is not None
        numbers(simulation).producer_id_and_epoch = ProducerIdAndEpoch(id=producer_id_and_epoch.id, epoch=LAST_EPOCH)
        simulation.producer.send("t", b"0")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        delivery = simulation.producer.send("t", b"1")
        simulation.run_until_idle()

        assert delivery.result().offset == 1
        new = numbers(simulation).producer_id_and_epoch
        assert new is not None
        assert (new.id != producer_id_and_epoch.id, new.epoch) == (True, 0)
        assert asked(simulation, "InitProducerId") == 2


# Order and repetition


@pytest.mark.rule("sender.answer.sequence")
def test_batches_that_came_too_early_are_no_line_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"before")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.NOT_ENOUGH_REPLICAS)
        deliveries = fly(simulation, b"0", b"1", b"2")
        simulation.run_until_idle()

        assert all(delivery.exception() is None for delivery in deliveries)
        assert simulation.log() == [b"before", b"0", b"1", b"2"]
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "NOT_ENOUGH_REPLICAS" in warnings[0]
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in caplog.text, "it is sent again for that reason, at the level DEBUG"


@pytest.mark.rule("accumulator.drain.sequence")
def test_a_repeated_batch_keeps_its_sequence_and_is_written_once() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.cluster.brokers[1].codes.append(None)  # written, and never answered
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until(lambda: simulation.log() == [b"v"])
        simulation.network.cut(1)
        simulation.run_until_idle()

        assert delivery.result().offset == 0
        assert simulation.log() == [b"v"]
        assert sequences(simulation) == [(0, 0, 0)]


@pytest.mark.rule("producer.record.timestamp")
def test_records_of_a_repeated_batch_keep_their_own_timestamps() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(None)  # written, and never answered
        deliveries = [simulation.producer.send("t", b"v", timestamp_ms=1_000 + number) for number in range(3)]
        simulation.run_until(lambda: simulation.log() == [b"v"] * 3)
        simulation.network.cut(1)
        simulation.run_until_idle()

        assert [delivery.result().timestamp_ms for delivery in deliveries] == [1_000, 1_001, 1_002]
        assert len(sequences(simulation)) == 1


@pytest.mark.rule("accumulator.put-back.sequence")
@pytest.mark.parametrize("refused", range(1, 5))
def test_a_refusal_of_any_of_five_in_flight_keeps_the_order(refused: int) -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [ErrorCode.NONE] * (refused - 1) + [ErrorCode.NOT_ENOUGH_REPLICAS]
        deliveries = fly(simulation, b"0", b"1", b"2", b"3", b"4")
        simulation.run_until_idle()

        assert simulation.log() == [b"first", b"0", b"1", b"2", b"3", b"4"]
        assert [delivery.result().offset for delivery in deliveries] == [1, 2, 3, 4, 5]
        assert {epoch for epoch, _, _ in sequences(simulation)} == {0}


def test_the_first_batch_of_a_producer_is_sent_alone() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.NOT_ENOUGH_REPLICAS)
        simulation.network.holding = True
        simulation.producer.send("t", b"0")
        simulation.producer.send("t", b"1")
        simulation.pass_time(0.5)
        assert asked(simulation, "Produce") == 1
        simulation.network.holding = False
        simulation.run_until_idle()

        assert simulation.log() == [b"0", b"1"]


@pytest.mark.rule("accumulator.order.sequence")
def test_no_later_batch_is_sent_while_a_batch_is_retried() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        deliveries = fly(simulation, b"0", b"1")
        simulation.run_until(lambda: not any(delivery._batch.in_flight for delivery in deliveries), time_passes=False)
        simulation.producer.send("t", b"new")
        before = asked(simulation, "Produce")
        simulation.pass_time(0.05)

        assert asked(simulation, "Produce") == before
        simulation.run_until_idle()
        assert simulation.log() == [b"first", b"0", b"1", b"new"]


@pytest.mark.rule("accumulator.order.window")
def test_no_new_batch_is_sent_while_a_maybe_written_one_is_retried() -> None:
    with simulated(1, config={**ONE_BY_ONE, "request.timeout.ms": 5_000}) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        [lost] = fly(simulation, b"0")
        simulation.network.cut(1)
        simulation.cluster.brokers[1].codes.append(None)
        simulation.run_until(lambda: not lost._batch.in_flight)
        while not lost._batch.in_flight:
            simulation.pass_time(0.01)
        before = asked(simulation, "Produce")

        for number in range(1, 9):
            simulation.producer.send("t", b"%d" % number)
        simulation.pass_time(1.0)

        assert asked(simulation, "Produce") <= before + 1  # its own
        simulation.run_until_idle()
        assert simulation.log() == [b"first", *(b"%d" % number for number in range(9))]
        assert lost.result().offset == 1
        assert {epoch for epoch, _, _ in sequences(simulation)} == {0}


@pytest.mark.rule("accumulator.order.window")
def test_at_most_five_batches_follow_an_unacknowledged_one() -> None:
    with simulated(1, 2, config={**ONE_BY_ONE, "request.timeout.ms": 30_000}) as simulation:
        simulation.producer.send("t", b"first", partition=0)
        simulation.run_until_idle()
        simulation.network.held.add(1)  # it writes, the other one copies that, and it freezes
        hanging = simulation.producer.send("t", b"0", partition=0)
        simulation.run_until(lambda: hanging._batch.in_flight, time_passes=False)
        topic = simulation.cluster.topics["t"]
        topic.move_leader(0, 2)
        assert simulation.metadata.move_leader(
            "t", 0, simulation.metadata.cluster.brokers[2], topic.leader_epoch(0), simulation.clock()
        )

        newer = [simulation.producer.send("t", b"%d" % number, partition=0) for number in range(1, 9)]
        simulation.pass_time(10.0)

        assert [delivery.done() for delivery in newer] == [True] * 4 + [False] * 4
        simulation.pass_time(30.0)
        simulation.network.held.clear()
        simulation.run_until_idle()
        assert simulation.log() == [b"first", *(b"%d" % number for number in range(9))]
        assert hanging.result().offset == 1
        assert {epoch for epoch, _, _ in sequences(simulation)} == {0}


def test_a_duplicate_counts_as_acknowledged() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert delivery.result().offset == -1


def test_sequences_wrap_around() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"0")
        simulation.run_until_idle()
        partition = numbers(simulation)._partitions["t", 0]
        partition.last_acknowledged, partition.next = SEQUENCES - 2, SEQUENCES - 1
        [entry] = simulation.cluster.topics["t"].producers[0].entries.values()
        entry.batches.clear()
        entry.batches.append(WrittenBatch(SEQUENCES - 2, SEQUENCES - 2, offset=0, timestamp_ms=0))
        deliveries = [simulation.producer.send("t", b"%d" % number) for number in range(1, 4)]
        simulation.run_until_idle()

        assert [delivery.result().offset for delivery in deliveries] == [1, 2, 3]
        assert sequences(simulation)[-3:] == [(0, SEQUENCES - 1, SEQUENCES - 1), (0, 0, 0), (0, 1, 1)]


def test_parts_of_a_batch_that_is_too_large_share_its_sequences() -> None:
    with simulated(1, linger_ms=10, batch_size=1000) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        deliveries = [simulation.producer.send("t", bytes(100)) for _ in range(6)]
        simulation.run_until_idle()

        assert [delivery.result().offset for delivery in deliveries] == [1, 2, 3, 4, 5, 6]
        found = sequences(simulation)
        assert [first for _, first, _ in found[1:]] == [last + 1 for _, _, last in found[:-1]]
        assert found[-1][2] == 6


# Losses


@pytest.mark.rule("sender.answer.sequence")
@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_leader_that_lost_its_log_gets_everything_in_a_new_epoch(code: ErrorCode) -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(code)
        deliveries = fly(simulation, b"0", b"1", b"2")
        simulation.run_until_idle()

        assert [delivery.exception() for delivery in deliveries] == [None] * 3
        assert simulation.log() == [b"first", b"0", b"1", b"2"]
        assert sequences(simulation) == [(1, 0, 0), (1, 1, 1), (1, 2, 2)]
        assert asked(simulation, "InitProducerId") == 1  # an epoch is counted up without asking


@pytest.mark.rule("sender.retry.corrects")
def test_sequences_of_a_refused_batch_are_reused() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        refused = simulation.producer.send("t", b"refused")
        simulation.run_until_idle()
        delivery = simulation.producer.send("t", b"second")
        simulation.run_until_idle()

        assert refused.exception() is not None
        assert delivery.result().offset == 1
        assert sequences(simulation) == [(0, 0, 0), (0, 1, 1)]


@pytest.mark.parametrize("later_by", [1, 3])
def test_a_refused_epoch_fails_a_batch_and_the_next_epoch_goes_on(later_by: int) -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        [entry] = simulation.cluster.topics["t"].producers[0].entries.values()
        entry.epoch += later_by
        entry.batches.clear()
        refused = []
        for value in (b"a", b"b", b"c", b"d"):
            delivery = simulation.producer.send("t", value)
            simulation.run_until_idle()
            refused.append(delivery.exception() is not None)

        assert refused == [True, False, False, False]
        assert len(simulation.cluster.topics["t"].producers[0].entries) == 2  # another producer id


def test_batches_in_flight_after_a_refused_one_arrive_in_order() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        deliveries = fly(simulation, b"0", b"1", b"2", b"3")
        simulation.run_until_idle()

        assert deliveries[0].exception() is not None
        assert simulation.log() == [b"first", b"1", b"2", b"3"]


def lost_and_expired(simulation: Simulated, *, written: bool) -> Callable[[], object]:
    """A first record is there; a second one has expired without a response, and perhaps is there, too."""
    simulation.producer.send("t", b"first")
    simulation.run_until_idle()
    broker = simulation.cluster.brokers[1]
    if written:
        broker.codes.append(None)
    else:
        broker.silent = True
    lost = simulation.producer.send("t", b"lost")
    simulation.pass_time(2.5)
    broker.silent = False
    return lambda: lost.exception()


EXPIRING = {**ONE_BY_ONE, "delivery.timeout.ms": 2_000, "request.timeout.ms": 1_900}


@pytest.mark.rule("accumulator.expire.sequence")
def test_a_gap_of_unknown_state_is_skipped_by_a_new_epoch() -> None:
    with simulated(1, config=EXPIRING) as simulation:
        error = lost_and_expired(simulation, written=False)
        delivery = simulation.producer.send("t", b"next")
        simulation.run_until_idle()

        assert isinstance(error(), DeliveryTimeoutError)
        assert delivery.result().offset == 1
        assert simulation.log() == [b"first", b"next"]
        assert sequences(simulation) == [(1, 0, 0)]


@pytest.mark.rule("sender.retry.sequence")
def test_maybe_written_batches_after_a_gap_fail_and_are_not_renumbered() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].silent = True
        simulation.network.holding = True
        lost, behind = (simulation.producer.send("t", value) for value in (b"lost", b"behind"))
        simulation.run_until(lambda: lost._batch.in_flight and behind._batch.in_flight, time_passes=False)
        fail(simulation, lost)
        simulation.cluster.brokers[1].silent = simulation.network.holding = False
        simulation.network.cut(1)
        after = simulation.producer.send("t", b"after")
        simulation.run_until_idle()

        error = behind.exception()
        assert isinstance(error, DeliveryError)
        assert error.possibly_persisted
        assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(error)
        assert after.result().offset == 1
        assert simulation.log() == [b"first", b"after"]


@pytest.mark.rule("sender.retry.sequence")
def test_refused_batches_after_a_gap_are_renumbered() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes += [ErrorCode.NOT_ENOUGH_REPLICAS] * 2
        lost, behind = fly(simulation, b"lost", b"behind")
        fail(simulation, lost)
        simulation.run_until_idle()

        assert behind.result().offset == 1
        assert sequences(simulation) == [(1, 0, 0)]


def fail(simulation: Simulated, delivery: Delivery) -> None:
    """As if its time had run out while it was in flight."""
    error = DeliveryTimeoutError("too late", topic="t", partition=0, attempts=1, possibly_persisted=True)
    simulation.accumulator.complete(delivery._batch, Failed(error=error))


def test_a_response_after_the_timeout_closes_the_gap() -> None:
    with simulated(1, config=ONE_BY_ONE) as simulation:
        simulation.producer.send("t", b"first")
        simulation.run_until_idle()
        [late] = fly(simulation, b"late")
        fail(simulation, late)
        assert numbers(simulation)._partitions["t", 0].next_uncertain
        delivery = simulation.producer.send("t", b"next")
        simulation.run_until_idle()

        assert isinstance(late.exception(), DeliveryTimeoutError)
        assert delivery.result().offset == 2
        assert sequences(simulation) == [(0, 0, 0), (0, 1, 1), (0, 2, 2)]


def test_a_topic_format_without_sequences_is_reported_with_the_setting() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        delivery = simulation.producer.send("t", b"value")
        simulation.run_until_idle()

        assert "enable.idempotence=false" in str(delivery.exception(0))
