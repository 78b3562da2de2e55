"""The story of a record names what it waited for, in incidents of a simulated cluster, and is read easily."""

from __future__ import annotations

import gc
import pickle
import re
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from ottla import Delivery, DeliveryError, DeliveryTimeoutError
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_result import BatchResult
from ottla.accumulator.slow_records import SlowRecords
from ottla.errors import ErrorCode
from ottla.recordbatch.sealed_records import SealedRecords
from ottla.results.stories import RecordStory, Try, WaitKind
from ottla.results.stories.tries import KEPT, CloseReason, keep
from ottla.results.stories.waits import NOTED, Interval, Journal, Notes, lasting
from ottla.tables.table_delivery import TableDelivery
from ottla_testkit.manual_clock import ManualClock
from ottla_testkit.simulation import SimulatedNetwork
from simulated_producer import Calling, Simulated, simulated


def main_cause(delivery: Delivery) -> tuple[WaitKind, str, float]:
    cause = delivery.story().cause
    assert cause is not None
    return cause.kind, cause.detail, round(cause.seconds, 1)


def sent(simulation: Simulated, value: bytes = b"a", **options: Any) -> Delivery:
    return simulation.producer.send("t", value, **{"partition": 0, **options})


def test_a_slow_broker_is_named() -> None:
    with simulated(1, 2) as simulation:
        simulation.producer.send("t", b"warm", partition=1)
        simulation.run_until_idle()
        simulation.network.freeze(2)
        delivery = simulation.producer.send("t", b"a", partition=1)
        simulation.pass_time(2.0)
        simulation.network.thaw(2)
        simulation.run_until_idle()

        assert main_cause(delivery) == (WaitKind.BROKER, "2", 2.0)
        assert "for broker 2 to answer" in str(delivery.story())


def test_a_throttling_broker_is_named() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].throttle_ms = 3_000
        sent(simulation)
        simulation.run_until_idle()
        delivery = sent(simulation)
        simulation.run_until_idle()

        assert main_cause(delivery) == (WaitKind.THROTTLE, "1", 3.0)


def test_a_wait_that_is_over_explains_no_later_record() -> None:
    with simulated(1) as simulation:
        broker = simulation.cluster.brokers[1]
        broker.throttle_ms = 3_000
        sent(simulation)
        simulation.run_until_idle()
        broker.throttle_ms = 0
        throttled = sent(simulation)
        simulation.run_until_idle()
        broker.codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 2)
        refused = sent(simulation)
        simulation.run_until_idle()

        assert main_cause(throttled) == (WaitKind.THROTTLE, "1", 3.0)
        assert WaitKind.THROTTLE not in {cause.kind for cause in refused.story().causes}
        assert main_cause(refused)[0] is WaitKind.RETRY


def test_a_wait_for_memory_is_named() -> None:
    with simulated(1, buffer_memory=1_000, max_block_ms=60_000) as simulation:
        simulation.network.freeze(1)
        sent(simulation, bytes(900))
        simulation.round(until=simulation.clock())
        deliveries: list[Delivery] = []
        call = Calling(simulation, lambda: deliveries.append(sent(simulation, bytes(800))))
        simulation.pass_time(4.0)
        simulation.network.thaw(1)
        call.rounds()

        [delivery] = deliveries
        assert main_cause(delivery) == (WaitKind.MEMORY, "", 4.0)
        assert "for memory" in str(delivery.story().events[0])


def test_a_wait_of_send_for_the_topic_is_a_cause() -> None:
    story = attrs.evolve(_story(), waited_for_topic=9.0, waited_for_memory=8.0)

    assert [(each.kind, each.seconds) for each in story.causes[:2]] == [(WaitKind.TOPIC, 9.0), (WaitKind.MEMORY, 8.0)]


def test_a_linger_is_named() -> None:
    with simulated(1, linger_ms=1_500) as simulation:
        delivery = sent(simulation)
        simulation.run_until_idle()

        assert main_cause(delivery) == (WaitKind.LINGER, "", 1.5)
        assert "takes no more records: its linger time had ended" in str(delivery.story())


def test_a_leader_that_moves_is_named() -> None:
    with simulated(1, 2) as simulation:
        sent(simulation)
        simulation.run_until_idle()
        simulation.cluster.topics["t"].leaders[0] = -1
        delivery = sent(simulation)
        simulation.pass_time(2.0)
        simulation.cluster.topics["t"].leaders[0] = 2
        simulation.run_until_idle()

        story = delivery.story()
        kind, _detail, seconds = main_cause(delivery)
        assert (kind, 1.5 < seconds < 2.5) == (WaitKind.NO_LEADER, True)
        assert [each.node for each in story.tries] == [1, 2]
        assert story.tries[0].response.startswith("NOT_LEADER_OR_FOLLOWER")
        assert any("NOT_LEADER_OR_FOLLOWER" in event.text for event in story.events)


def test_the_only_broker_that_hangs_is_no_missing_leader() -> None:
    with simulated(1, request_timeout_ms=1_000, delivery_timeout_ms=5_000) as simulation:
        sent(simulation)
        simulation.run_until_idle()
        simulation.network.freeze(1)
        delivery = sent(simulation)
        simulation.pass_time(6.0)

        kinds = {cause.kind for cause in delivery.story().causes}
        assert main_cause(delivery)[0] is WaitKind.BOOTSTRAP
        assert WaitKind.NO_LEADER not in kinds
        assert "broker 1: broker 1" not in str(delivery.story())
        assert "for a bootstrap server to answer, after every known broker was lost" in str(delivery.story())


def test_a_record_that_expires_waited_for_its_new_leader() -> None:
    with simulated(1, 2) as simulation:
        sent(simulation)
        simulation.run_until_idle()
        simulation.network.names.unresolvable.add(simulation.metadata.cluster.brokers[2].host)
        simulation.network.cut(2)
        simulation.cluster.topics["t"].leaders[0] = 2
        delivery = sent(simulation)
        simulation.pass_time(130.0)

        story = delivery.story()
        assert story.tries[0].node == 1
        assert story.wanted_node == 2
        assert isinstance(delivery.exception(0), DeliveryTimeoutError)


def test_a_slow_name_server_is_named() -> None:
    with simulated(1) as simulation:
        simulation.network.cut(1)
        simulation.network.names.slow.add(simulation.metadata.cluster.brokers[1].host)
        simulation.pass_time(1.0)
        delivery = sent(simulation)
        simulation.pass_time(3.0)
        simulation.network.names.slow.clear()
        simulation.network.wakeup()
        simulation.run_until_idle()

        kind, detail, seconds = main_cause(delivery)
        assert (kind, detail[0]) == (WaitKind.NAME, "1")
        assert 2.7 < seconds < 3.3


def test_a_callback_that_blocks_is_named() -> None:
    with simulated(1) as simulation:
        later: list[Delivery] = []

        def block(_delivery: Delivery) -> None:
            later.append(sent(simulation))  # as another thread might
            simulation.clock.advance(2.5)

        sent(simulation, on_delivery=block)
        simulation.run_until_idle()

        kind, detail, seconds = main_cause(later[0])
        assert (kind, seconds) == (WaitKind.CALLBACKS, 2.5)
        assert "'t'" in detail


def test_a_program_that_holds_the_interpreter_is_named() -> None:
    with simulated(1) as simulation:
        delivery = sent(simulation)
        simulation.clock.advance(1.2)  # and no round runs
        simulation.run_until_idle()

        assert main_cause(delivery) == (WaitKind.PROCESS, "", 1.2)


def test_a_slow_compressor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1, 1) as simulation:
        seal = simulation.accumulator._drained.seal

        def slow(batch: ProducerBatch, node: int) -> SealedRecords:
            simulation.clock.advance(0.7 if batch.count > 1 else 0.0)
            return seal(batch, node)

        monkeypatch.setattr(simulation.accumulator._drained, "seal", slow)
        many = [sent(simulation) for _ in range(2)]
        one = simulation.producer.send("t", b"a", partition=1)
        simulation.run_until_idle()

        assert main_cause(many[0]) == (WaitKind.COMPRESSION, "", 0.7)
        assert main_cause(one) == (WaitKind.OTHER_COMPRESSION, "", 0.7)


@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_partition_with_too_many_batches_is_named(in_flight: int) -> None:
    config = {"max.in.flight.requests.per.connection": in_flight, "batch.size": 100, "batch.growth.enable": False}
    with simulated(1, config=config) as simulation:
        sent(simulation)
        simulation.run_until_idle()
        simulation.network.freeze(1)
        deliveries = [sent(simulation, bytes(90)) for _ in range(in_flight + 2)]
        simulation.pass_time(2.0)
        simulation.network.thaw(1)
        simulation.run_until_idle()

        assert main_cause(deliveries[0])[0] is WaitKind.BROKER
        assert main_cause(deliveries[-1]) == (WaitKind.EARLIER, "", 2.0)
        assert in_flight == 1 or main_cause(deliveries[-2]) == (WaitKind.ORDER, "", 2.0)


@pytest.mark.parametrize(("linger_ms", "kind"), [(500, WaitKind.BROKER), (4_000, WaitKind.LINGER)])
def test_the_longest_of_several_waits_comes_first(linger_ms: int, kind: WaitKind) -> None:
    with simulated(1, linger_ms=linger_ms) as simulation:
        sent(simulation)
        simulation.run_until_idle()
        simulation.network.freeze(1)
        delivery = sent(simulation)
        simulation.pass_time(linger_ms / 1_000 + 2.0)
        simulation.network.thaw(1)
        simulation.run_until_idle()
        story = delivery.story()

        assert {WaitKind.BROKER, WaitKind.LINGER} == {cause.kind for cause in story.causes[:2]}
        assert main_cause(delivery)[0] is kind


def test_a_poll_that_returns_late_is_the_interpreters_or_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    with simulated(1, linger_ms=500) as simulation:
        delivery = sent(simulation)
        poll = simulation.network.poll

        def late(timeout: float) -> None:
            poll(timeout)
            if timeout > 0.1:
                simulation.clock.advance(1.5)

        monkeypatch.setattr(simulation.network, "poll", late)
        simulation.round()
        monkeypatch.undo()
        simulation.run_until_idle()

        assert main_cause(delivery) == (WaitKind.PROCESS, "", 1.0)  # what is left after linger.ms
        assert [each.kind for each in delivery.story().notes.intervals] == [WaitKind.PROCESS]


def test_the_seconds_of_the_causes_add_up_to_those_of_the_story() -> None:
    with simulated(1, 2, linger_ms=10) as simulation:
        simulation.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 4)
        delivery = sent(simulation)
        simulation.run_until_idle()
        story = delivery.story()

        assert sum(cause.seconds for cause in story.causes) == pytest.approx(story.seconds)
        assert [span.start for span in story.spans][1:] == [span.end for span in story.spans][:-1]
        assert (story.spans[0].start, story.spans[-1].end) == (story.queued_at, story.until)


def test_the_seconds_of_a_story_have_the_waits_of_send_before() -> None:
    story = attrs.evolve(_story(), waited_for_topic=3.0, waited_for_memory=4.0)

    assert story.seconds == 9.0
    assert sum(cause.seconds for cause in story.causes) == pytest.approx(9.0)
    assert story.cause is not None
    assert story.cause.kind is WaitKind.MEMORY


def test_the_cause_of_a_retry_names_its_broker_once_with_its_address() -> None:
    no_answer = "broker 1 at kafka:9092 did not answer a Produce request within request.timeout.ms (3 s)"
    tries = (Try(1, 1, 0.1, 0.4, no_answer), Try(2, 1, 1.5, 2.0, "acknowledged"))
    story = attrs.evolve(_story(), drained_at=0.1, sealed_at=0.1, tries=tries)

    assert [cause.detail for cause in story.causes if cause.kind is WaitKind.RETRY] == [no_answer]


def test_each_attempt_is_in_the_story_with_its_answer_and_wait() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.extend([ErrorCode.NOT_ENOUGH_REPLICAS] * 2)
        delivery = sent(simulation)
        simulation.run_until_idle()
        story = delivery.story()

        assert [(each.number, each.node) for each in story.tries] == [(1, 1), (2, 1), (3, 1)]
        assert [each.response.split(" ")[0] for each in story.tries] == [*["NOT_ENOUGH_REPLICAS"] * 2, "acknowledged"]
        assert story.cause is not None
        assert (story.cause.kind, story.cause.detail) == (WaitKind.RETRY, "broker 1: NOT_ENOUGH_REPLICAS (19)")
        times = [time for each in story.tries for time in (each.sent_at, each.answered_at)]
        assert times == sorted(times, key=lambda time: time or 0.0)


def test_of_many_attempts_the_first_and_the_last_are_kept() -> None:
    tries: list[Try] = []
    for number in range(1, 101):
        keep(tries, Try(number, 1, float(number), number + 0.5, "no"))

    assert [each.number for each in tries] == [*range(1, KEPT + 1), *range(101 - KEPT, 101)]


def test_the_attempts_that_are_left_out_are_counted() -> None:
    story = attrs.evolve(_story(), tries=(Try(1, 1, 1.0, 2.0, "no"), Try(9, 1, 8.0, 9.0, "no")))

    assert "(attempts left out: 7)" in str(story)


def test_a_delivery_error_has_the_story() -> None:
    with simulated(1, delivery_timeout_ms=3_000, request_timeout_ms=1_000) as simulation:
        simulation.network.cut(1)
        simulation.network.names.unresolvable.add(simulation.metadata.cluster.brokers[1].host)
        simulation.pass_time(1.0)
        delivery = sent(simulation)
        simulation.run_until_idle()
        error = delivery.error

        assert isinstance(error, DeliveryTimeoutError)
        assert error.story is not None
        assert (error.story.outcome, round(error.story.seconds, 1)) == ("failed", 3.0)
        assert error.story.cause is not None
        assert error.story.cause.kind is WaitKind.NAME
        assert delivery.story().outcome == "failed"


def test_a_refused_record_has_a_story_with_the_refusal() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        delivery = sent(simulation)
        simulation.run_until_idle()
        error = delivery.error

        assert error is not None
        assert error.story is not None
        assert error.story.attempts == 1
        assert delivery.story().tries[-1].response.startswith("INVALID_RECORD")


def test_an_error_of_a_record_that_was_not_queued_has_no_story() -> None:
    assert DeliveryError("no", topic="t", partition=0, attempts=0, possibly_persisted=False).story is None


def test_a_pending_record_has_a_story() -> None:
    with simulated(1, linger_ms=10_000) as simulation:
        delivery = sent(simulation)
        simulation.clock.advance(2.0)
        story = delivery.story()

        assert (story.pending, story.outcome, story.seconds) == (True, "pending", 2.0)
        assert main_cause(delivery) == (WaitKind.LINGER, "", 2.0)


def test_the_parts_of_a_split_batch_have_its_attempts() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        deliveries = [sent(simulation, bytes(100)) for _ in range(4)]
        simulation.run_until_idle()
        stories = [delivery.story() for delivery in deliveries]

        assert {story.closed_by for story in stories} == {CloseReason.SPLIT}
        assert all(story.tries[0].response.startswith("MESSAGE_TOO_LARGE") for story in stories)
        assert all(story.tries[-1].response.startswith("acknowledged") for story in stories)


@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        (lambda simulation: simulation.accumulator.close_open_batches(), CloseReason.FLUSH),
        (lambda simulation: simulation.pass_time(60.0), CloseReason.LINGER),
        (lambda simulation: [sent(simulation, bytes(400)) for _ in range(3)], CloseReason.FULL),
    ],
)
def test_the_story_says_what_closed_the_batch(ending: Callable[[Simulated], object], reason: CloseReason) -> None:
    with simulated(1, linger_ms=30_000, batch_size=1_000) as simulation:
        delivery = sent(simulation)
        ending(simulation)
        simulation.pass_time(1.0)

        assert (delivery.story().closed_by or CloseReason.LINGER) is reason


def test_a_batch_that_was_full_before_its_close_has_the_time_of_its_end() -> None:
    with simulated(1, config={"batch.size": 100, "batch.growth.enable": False}) as simulation:
        full, closed = (sent(simulation, bytes(200)) for _ in range(2))
        simulation.clock.advance(1.0)
        simulation.accumulator.close_open_batches()

        assert full.story().closed_at == full.story().queued_at
        assert closed.story().closed_at == simulation.clock()


def test_the_story_of_a_dropped_record_names_the_end_of_its_transaction() -> None:
    with simulated(1, transactional_id="shop", linger_ms=60_000) as simulation:
        simulation.producer.init_transactions()
        simulation.producer.begin_transaction()
        dropped = sent(simulation)
        simulation.producer.abort_transaction()
        simulation.producer.begin_transaction()
        written = sent(simulation)
        simulation.producer.commit_transaction()

        assert (dropped.story().outcome, dropped.story().closed_by) == ("failed", CloseReason.TRANSACTION)
        assert (written.story().outcome, written.story().closed_by) == ("acknowledged", CloseReason.TRANSACTION)


def test_a_key_and_its_record_have_the_story_of_the_batch_that_has_it_now() -> None:
    with simulated(1, linger_ms=100) as simulation:
        delivery = simulation.producer.send("t", b"a", key=b"k")
        simulation.run_until_idle()

        assert main_cause(delivery) == (WaitKind.LINGER, "", 0.1)
        assert delivery.story().partition == 0


def test_a_completed_batch_keeps_neither_its_bytes_nor_the_journal_alive() -> None:
    with simulated(1) as simulation:
        delivery = sent(simulation, bytes(1_000))
        simulation.run_until_idle()
        batch: BatchResult[Any] = delivery._batch
        journal = weakref.ref(simulation.accumulator.journal)

        assert batch.sealed is None
        assert not isinstance(batch.journal, Journal)  # type: ignore[attr-defined]  # it is a ProducerBatch
        assert delivery.story().notes.intervals == journal().notes.intervals  # type: ignore[union-attr]  # it lives


def test_stories_of_failed_batches_keep_no_batch_alive() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        delivery = sent(simulation)
        simulation.run_until_idle()
        error, batch = delivery.error, weakref.ref(delivery._batch) if hasattr(delivery._batch, "__weakref__") else None
        del delivery
        gc.collect()

        assert error is not None
        assert not any(isinstance(each, BatchResult) for each in gc.get_referents(error.story))
        assert batch is None or batch() is None


def test_a_story_can_be_pickled() -> None:
    story = _story()

    assert pickle.loads(pickle.dumps(story)) == story


def test_a_picture_has_no_script_and_escapes_what_brokers_say() -> None:
    evil = "<script>alert(1)</script>"
    story = attrs.evolve(
        _story(),
        topic=evil,
        tries=(Try(1, 1, 1.0, 2.0, evil),),
        notes=Notes(0.0, (Interval(WaitKind.CONNECTION, 0.2, 0.9, None, None, evil),)),
    )
    html = story._repr_html_()

    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert html.count("<div") == html.count("</div>")


def test_the_widths_of_the_picture_are_those_of_the_waits() -> None:
    story = attrs.evolve(_story(), notes=Notes(0.5, ()))

    assert "width:25.00%" in story._repr_html_()


def test_the_journal_keeps_the_newest_waits_and_no_short_ones() -> None:
    journal = Journal(linger=0.0, clock=ManualClock())
    journal.add(WaitKind.CALLBACKS, 0.0, 0.001)
    assert list(journal.notes.intervals) == []
    for number in range(NOTED + 5):
        journal.add(WaitKind.CALLBACKS, float(number), number + 1.0)

    assert [each.start for each in journal.notes.intervals] == [float(number) for number in range(5, NOTED + 5)]


def test_a_wait_that_lasts_is_noted_once_and_a_short_one_not_at_all() -> None:
    journal = Journal(linger=0.0, clock=ManualClock())
    for now in (0.0, 5.0, 9.0):
        journal.update(now, {1: lasting(WaitKind.THROTTLE, now, node=1)})
        assert [each.start for each in journal.notes.intervals] == [0.0]
    journal.update(10.0, {1: lasting(WaitKind.THROTTLE, 10.0, node=1, detail="another")})
    journal.update(12.0, {2: lasting(WaitKind.THROTTLE, 12.0, node=2)})
    journal.update(12.001, {})

    noted = [(each.detail, each.start, each.end) for each in journal.notes.intervals]
    assert noted == [("", 0.0, 10.0), ("another", 10.0, 12.0)]


def test_a_wait_of_another_topic_or_broker_explains_nothing() -> None:
    others = (
        Interval(WaitKind.NO_LEADER, 0.0, 2.0, None, "other", ""),
        Interval(WaitKind.THROTTLE, 0.0, 2.0, 7, None, "7"),
    )
    story = attrs.evolve(_story(), tries=(Try(1, 1, 2.0, None, "no answer yet"),), notes=Notes(0.0, others))

    assert {cause.kind for cause in story.causes} == {WaitKind.PROCESS}


def test_a_table_has_the_story_of_its_slowest_batch() -> None:
    assert TableDelivery("t").story() is None


def _story() -> RecordStory:
    """Of a record that was pending for two seconds, and was never sent."""
    return RecordStory(
        topic="t", partition=0, records=1, outcome="pending", pending=True, queued_at=0.0, until=2.0, drained_at=None
    )


@pytest.mark.parametrize("seconds", [0.2, 5.0])
def test_a_slow_batch_is_logged_and_others_are_not(seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, slow_record_threshold_ms=1_000) as simulation:
        simulation.network.freeze(1)
        sent(simulation)
        simulation.pass_time(seconds)
        simulation.network.thaw(1)
        simulation.run_until_idle()
        simulation.pass_time(0.1)
    lines = _slow_lines(caplog)

    outcomes = ["pending after 1.0", "acknowledged after 5.0"] if seconds > 1.0 else []
    assert len(lines) == len(outcomes)
    assert all(outcome in line for outcome, line in zip(outcomes, lines, strict=True))
    assert all("for broker 1 to answer" in line for line in lines)


def test_a_batch_that_is_not_complete_is_logged_once_while_it_waits(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, slow_record_threshold_ms=1_000, request_timeout_ms=100_000) as simulation:
        simulation.network.freeze(1)
        sent(simulation)
        simulation.pass_time(0.9)
        assert not _slow_lines(caplog)
        simulation.pass_time(0.2)
        [line] = _slow_lines(caplog)
        assert "1 in a batch for t-0, pending after 1.0" in line
        simulation.pass_time(40.0)

        assert _slow_lines(caplog) == [line]


def test_batches_that_are_not_complete_share_a_line_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(
        1,
        slow_record_threshold_ms=1_000,
        request_timeout_ms=100_000,
        linger_ms=0,
        max_in_flight_requests_per_connection=1,
    ) as simulation:
        simulation.network.freeze(1)
        for _ in range(8):
            sent(simulation)
            simulation.pass_time(0.5)
        first = _slow_lines(caplog)
        simulation.pass_time(40.0)
        lines = _slow_lines(caplog)

    assert ["pending after 1.0" in line for line in first] == [True]
    assert lines[0].endswith("0 other slow batches since the last such line")
    assert len(lines) == 2
    assert "pending after 10.5" in lines[1]


def test_an_idle_producer_is_not_woken_by_the_threshold() -> None:
    with simulated(1, slow_record_threshold_ms=100) as simulation:
        sent(simulation)
        simulation.run_until_idle()
        simulation.pass_time(0.5)

        assert simulation.producer._accumulator.slow.check(simulation.clock()) == float("inf")


def test_a_batch_that_is_slow_at_the_very_time_of_a_check_is_noted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, noted = SlowRecords(0.4, [SimpleNamespace(created_at=0.1)]), []  # type: ignore[list-item]
    monkeypatch.setattr(slow, "note", lambda _batch, now: noted.append(now))
    assert 0.1 + 0.4 - 0.4 < 0.1, "these numbers are rounded down"
    for now in (0.1 + 0.4, 0.95, 1.4):
        slow.check(now)

    assert noted == [0.1 + 0.4]


def test_incomplete_batches_are_checked_for_slow_ones_some_times_only() -> None:
    slow = SlowRecords(1.0, [SimpleNamespace(created_at=-0.99)])  # type: ignore[list-item]

    assert slow.check(0.0) == 0.1  # the batch is slow in 0.01 s, but a tenth of the threshold passes between checks


def _slow_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "slow.record.threshold.ms" in record.getMessage()]


def test_the_line_about_slow_batches_is_about_the_slowest(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, slow_record_threshold_ms=100) as simulation:
        for seconds in (0.2, 1.0, 3.0, 2.0, 6.0):
            simulation.network.freeze(1)
            sent(simulation)
            simulation.pass_time(seconds)
            simulation.network.thaw(1)
            simulation.run_until_idle()
        simulation.pass_time(10.0)
    lines = _slow_lines(caplog)

    assert ["acknowledged after 3.0" in line or "acknowledged after 6.0" in line for line in lines] == [
        False,
        True,
        True,
    ]
    others = [re.findall(r"; (\d+) other slow batch", line) for line in lines]
    assert others == [["0"], ["3"], ["0"]]  # the first batch, too, which was pending in the first line


def test_slow_batches_share_a_line_every_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    with simulated(1, slow_record_threshold_ms=100, linger_ms=300) as simulation:
        for _ in range(20):
            sent(simulation)
            simulation.run_until_idle()
            simulation.pass_time(1.0)
        assert isinstance(simulation.network, SimulatedNetwork)
    lines = _slow_lines(caplog)

    assert 2 <= len(lines) <= 4
    assert "other slow batches" in lines[1]


def test_a_record_whose_partition_a_round_has_chosen_has_a_story() -> None:
    with simulated(1, linger_ms=100) as simulation:
        simulation.network.freeze(1)
        delivery = simulation.producer.send("t", b"value", b"key")
        simulation.pass_time(2.0)
        batch, _index = delivery._place()

        assert batch.partition == 0
        assert batch.story().until == simulation.clock()
        simulation.network.thaw(1)
