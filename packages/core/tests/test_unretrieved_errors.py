"""Records that failed unnoticed: logged once their errors cannot be retrieved any more, and never twice."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from another_thread import Meanwhile
from lines_under_lock import lines_logged_under_lock

from machine import wait_until
from ottla import UndeliveredError
from ottla.accumulator.error_reads import ErrorReads
from ottla.accumulator.unretrieved_errors import DropNotice, FailedRecords, UnretrievedErrors
from ottla.errors import DeliveryError, ErrorCode, ProducerClosedError
from simulated_producer import Simulated

NOTHING_LEFT = "no delivery or callback is left to report the error"


@pytest.fixture
def simulation() -> Iterator[Simulated]:
    simulation = Simulated(1, 1, config={"client.id": "me"})
    yield simulation
    with suppress(UndeliveredError):
        simulation.producer.close(0)


@pytest.fixture(autouse=True)
def errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="ottla")


def lost(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def refuse(simulation: Simulated, *, times: int = 1) -> None:
    simulation.cluster.brokers[1].codes.extend([ErrorCode.TOPIC_AUTHORIZATION_FAILED] * times)


def run_until_idle(simulation: Simulated) -> None:
    simulation.run_until_idle()
    simulation.round(until=simulation.clock())  # the round after, as the I/O thread would be woken for one


@pytest.mark.rule("producer.log.lost")
@pytest.mark.parametrize("record", [{"partition": 1}, {}, {"key": b"k"}], ids=["partition", "sticky", "key"])
def test_a_failed_record_without_a_reader_is_logged_as_lost_at_once(
    simulation: Simulated, record: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    simulation.producer.send("t", b"a", **record)

    run_until_idle(simulation)

    [line] = lost(caplog)
    assert line.startswith(f"me: 1 record failed, and {NOTHING_LEFT}: 1 record for topic 't', partition ")
    assert "TOPIC_AUTHORIZATION_FAILED" in line


@pytest.mark.rule("producer.log.lost")
def test_a_record_that_expires_unread_is_logged_as_lost(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    simulation.cluster.brokers[1].up = False
    simulation.network.cut(1)
    simulation.producer.send("t", b"a")

    run_until_idle(simulation)

    [line] = lost(caplog)
    assert "was not delivered within delivery.timeout.ms: 120.0" in line


@pytest.mark.rule("producer.log.lost")
def test_a_dropped_delivery_with_an_unread_error_is_logged(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    delivery = simulation.producer.send("t", b"a")
    run_until_idle(simulation)
    assert lost(caplog) == []

    del delivery
    simulation.round(until=simulation.clock())

    assert len(lost(caplog)) == 1


@pytest.mark.rule("producer.log.lost")
def test_a_record_whose_error_was_read_is_not_lost(simulation: Simulated, caplog: pytest.LogCaptureFixture) -> None:
    refuse(simulation)
    delivery = simulation.producer.send("t", b"a")
    run_until_idle(simulation)
    assert delivery.exception() is not None

    del delivery
    gc.collect()
    simulation.round(until=simulation.clock())

    assert lost(caplog) == []


@pytest.mark.rule("producer.log.lost")
def test_a_record_with_a_callback_is_not_lost(simulation: Simulated, caplog: pytest.LogCaptureFixture) -> None:
    refuse(simulation)
    seen: list[object] = []
    simulation.producer.send("t", b"a", on_delivery=lambda delivery: seen.append(delivery.error))

    run_until_idle(simulation)

    assert len(seen) == 1
    assert lost(caplog) == []


@pytest.mark.rule("producer.log.lost")
def test_only_the_unread_records_of_a_batch_are_lost(simulation: Simulated, caplog: pytest.LogCaptureFixture) -> None:
    refuse(simulation)
    deliveries = [simulation.producer.send("t", b"a", partition=0) for _ in range(5)]
    run_until_idle(simulation)
    assert deliveries[0].exception() is not None
    assert deliveries[3].exception() is not None

    deliveries.clear()
    gc.collect()
    simulation.round(until=simulation.clock())

    [line] = lost(caplog)
    assert line.startswith(f"me: 3 records failed, and {NOTHING_LEFT}")


@pytest.mark.rule("producer.log.lost")
def test_errors_reported_by_flush_are_not_logged_as_lost(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    simulation.producer.send("t", b"a")
    with simulation.producer._accumulator.unretrieved.reporting():  # a flush waits on another thread
        run_until_idle(simulation)
        report, unseen, _error = simulation.producer._accumulator.report()
    simulation.round(until=simulation.clock())

    assert (report.failed, unseen) == (1, 1)
    assert lost(caplog) == []


@pytest.mark.rule("producer.log.lost")
def test_errors_reported_by_close_are_not_logged_as_lost(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulated(1)
    refuse(simulation)
    simulation.producer.send("t", b"a")

    with pytest.raises(UndeliveredError):
        simulation.producer.close()

    assert lost(caplog) == []


@pytest.mark.rule("producer.log.lost")
def test_a_delivery_dropped_after_its_report_is_not_logged(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    delivery = simulation.producer.send("t", b"a")
    run_until_idle(simulation)
    simulation.producer._accumulator.report()

    del delivery
    simulation.round(until=simulation.clock())

    assert lost(caplog) == []


@pytest.mark.rule("producer.log.lost")
def test_the_rows_of_a_table_whose_result_is_dropped_are_lost(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    delivery = simulation.producer.send_table("t", pa.table({"value": [b"a", b"b"], "partition": [0, 0]}))
    run_until_idle(simulation)
    assert lost(caplog) == []

    del delivery
    gc.collect()
    simulation.round(until=simulation.clock())

    [line] = lost(caplog)
    assert line.startswith(f"me: 2 records failed, and {NOTHING_LEFT}")


@pytest.mark.rule("producer.log.lost")
def test_thousands_of_lost_records_cause_a_handful_of_lines(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2_000):
        refuse(simulation)
        simulation.producer.send("t", b"a", partition=0)
        simulation.pass_time(0.01)
        simulation.run_until_idle()
    simulation.pass_time(31.0)

    lines = lost(caplog)
    assert len(lines) <= 8
    counts = [int(line.split(" record")[0].removeprefix("me: ")) for line in lines]
    assert sum(counts) == 2_000


@pytest.mark.rule("producer.log.lost")
def test_a_finalizer_takes_no_lock_and_logs_nothing_itself(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    delivery = simulation.producer.send("t", b"a", partition=0)
    run_until_idle(simulation)
    accumulator = simulation.accumulator
    locks = [accumulator._guard, accumulator._completion._counts._lock, simulation.pool._guard, delivery._batch._lock]
    with ExitStack() as held:
        for lock in locks:
            held.enter_context(lock)
        del delivery, lock
        assert lost(caplog) == []

    simulation.round(until=simulation.clock())

    assert len(lost(caplog)) == 1


@pytest.mark.rule("producer.log.lost")
def test_a_record_that_cannot_be_encoded_is_lost_like_any_other(
    simulation: Simulated, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_batch: object, _node: int) -> None:
        raise ZeroDivisionError("a codec")

    monkeypatch.setattr(simulation.accumulator._drained, "seal", fail)
    simulation.producer.send("t", b"a", partition=0)

    run_until_idle(simulation)

    [line] = lost(caplog)
    assert "it could not be encoded: a codec" in line


@pytest.mark.rule("producer.log.lost")
def test_in_a_forked_child_the_parents_records_are_not_logged(
    simulation: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(simulation)
    delivery = simulation.producer.send("t", b"a")
    run_until_idle(simulation)

    simulation.accumulator.fail_after_fork(ProducerClosedError("forked"))
    del delivery
    gc.collect()
    simulation.round(until=simulation.clock())

    assert lost(caplog) == []


def test_in_a_forked_child_a_pending_record_has_the_error_of_the_fork(simulation: Simulated) -> None:
    delivery = simulation.producer.send("t", b"a")

    simulation.accumulator.fail_after_fork(ProducerClosedError("forked"))

    assert "forked" in str(delivery.error)
    assert str(delivery.exception()) == str(delivery.error)


@pytest.mark.rule("producer.log.lost")
def test_a_transaction_reports_its_records_itself(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulated(1, config={"transactional.id": "tx"})
    simulation.producer.init_transactions()
    simulation.producer.begin_transaction()
    refuse(simulation)
    simulation.producer.send("t", b"a", partition=0)
    simulation.pass_time(1.0)

    simulation.producer.abort_transaction()
    simulation.producer.close()

    assert lost(caplog) == []


def test_a_batch_that_was_written_has_no_finalizer(simulation: Simulated) -> None:
    delivery = simulation.producer.send("t", b"a", partition=0)
    run_until_idle(simulation)

    assert not hasattr(delivery._batch, "_drop_notice")


def test_errors_that_are_given_up_after_the_close_are_counted_once_each(caplog: pytest.LogCaptureFixture) -> None:
    records = UnretrievedErrors(wake=lambda: None)
    records.reports = -1
    records.hold()
    records.note_report()

    drop(records, "a")
    wait_until(lambda: len(caplog.records) == 1, timeout=20)  # another thread writes it
    drop(records, "b")
    wait_until(lambda: len(caplog.records) == 2, timeout=20)

    assert [record.getMessage().split(" failed")[0] for record in caplog.records] == [": 1 record", ": 1 record"]


def test_errors_that_a_report_did_not_take_are_logged_after_it() -> None:
    """As after Ctrl-C in a flush: the I/O thread, which logs them, may have nothing else to do for hours."""
    woken: list[str] = []
    records = UnretrievedErrors(wake=lambda: woken.append("woken"))
    with records.reporting():
        pass
    assert woken == []

    with records.reporting():
        drop(records, "t")
        assert records.due_at() == float("inf")
        woken.clear()
    assert woken == ["woken"]
    assert records.due_at() < float("inf")


def test_errors_of_a_closes_report_are_not_logged_with_later_ones(caplog: pytest.LogCaptureFixture) -> None:
    records = UnretrievedErrors(wake=lambda: None)
    records.hold()
    drop(records, "reported")
    records.write("me", 0.0, final=True)  # of the I/O thread, before the report
    records.note_report()
    assert caplog.records == []

    drop(records, "later", reports=1)
    wait_until(lambda: caplog.records, timeout=20)  # another thread writes it

    assert ["1 record failed" in line.getMessage() for line in caplog.records] == [True]


@pytest.mark.rule("producer.log.lost")
def test_after_a_close_a_finalizer_logs_nothing_under_a_handlers_lock() -> None:
    records = UnretrievedErrors(wake=lambda: None)
    records.reports = -1
    records.hold()
    records.note_report()
    lines = lines_logged_under_lock(partial(drop, records, "t"))

    assert len(lines) == 1
    assert NOTHING_LEFT in lines[0]


@pytest.mark.rule("producer.log.lost")
@pytest.mark.parametrize("read", [False, True])
def test_an_error_given_up_after_its_batch_is_dropped_is_logged_once(
    read: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The collector finalizes the parts of a cycle in any order."""
    records = UnretrievedErrors(wake=lambda: None)
    error = DeliveryError("t", topic="t", partition=0, attempts=1, possibly_persisted=False)
    reads = ErrorReads(2)
    reads.expect_all()
    notice = DropNotice(FailedRecords(topic="t", partition=0, reads=reads, error=error), records.drop)
    del notice
    records.write("me", 0.0)
    assert lost(caplog) == []
    for index in range(2):
        if read:
            reads.read(index)
        reads.give_up(index)
    records.write("me", 100.0)

    assert [line.startswith(f"me: 2 records failed, and {NOTHING_LEFT}") for line in lost(caplog)] == [True] * (
        not read
    )


def drop(records: UnretrievedErrors, topic: str, *, reports: int = 0) -> None:
    error = DeliveryError(topic, topic=topic, partition=0, attempts=1, possibly_persisted=False)
    failed = FailedRecords(topic=topic, partition=0, reads=ErrorReads(1), error=error)
    failed.reports = reports
    records.drop(failed)


@pytest.mark.rule("producer.log.lost")
def test_errors_given_up_one_by_one_after_a_drop_are_all_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records = UnretrievedErrors(wake=lambda: None)
    error = DeliveryError("t", topic="t", partition=0, attempts=1, possibly_persisted=False)
    reads = ErrorReads(4)
    reads.expect_all()
    reads.give_up(0)  # before
    notice = DropNotice(FailedRecords(topic="t", partition=0, reads=reads, error=error), records.drop)
    del notice
    records.write("me", 0.0)
    for index in (1, 2):
        reads.give_up(index)
        reads.give_up(index)
    records.write("me", 100.0)
    reads.give_up(3)
    records.write("me", 200.0)

    assert [line.split(",")[0] for line in lost(caplog)] == [
        "me: 1 record failed",
        "me: 2 records failed",
        "me: 1 record failed",
    ]


def test_after_the_line_about_lost_records_nothing_is_left_to_log() -> None:
    records = UnretrievedErrors(wake=lambda: None)
    assert not records.active
    drop(records, "t")
    assert records.active
    records.write("me", 0.0)

    assert not records.active  # the rounds do not ask again
    assert records.due_at() == float("inf")


def test_records_that_are_counted_but_not_logged_are_forgotten_too(caplog: pytest.LogCaptureFixture) -> None:
    records = UnretrievedErrors(wake=lambda: None)
    drop(records, "first")
    records.write("me", 0.0)
    drop(records, "second")
    records.write("me", 0.1)  # counted, to be logged later
    records.ignore()
    caplog.clear()
    records.write("me", 100.0)

    assert records.due_at() == float("inf")
    assert caplog.messages == []


def test_lost_records_of_an_earlier_report_leave_nothing_to_log() -> None:
    records = UnretrievedErrors(wake=lambda: None)
    drop(records, "t")
    records.reports = 1  # a report had them meanwhile
    records.write("me", 0.0)

    assert not records.active


@pytest.mark.rule("producer.log.lost")
def test_losses_after_a_calm_period_are_logged_as_early_as_the_first() -> None:
    records = UnretrievedErrors(wake=lambda: None)
    now = 0.0

    def gap() -> float:
        nonlocal now
        logged_at = now
        drop(records, "t")
        now = records.due_at()
        records.write("me", now)
        return now - logged_at

    drop(records, "t")
    records.write("me", now)
    gaps = [gap() for _ in range(8)]
    now += 100.0
    drop(records, "t")
    records.write("me", now)

    assert gaps == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert [gap() for _ in range(3)] == [1.0, 2.0, 4.0]


@pytest.mark.unmeasured
def test_a_loss_found_during_a_write_is_logged_in_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with Meanwhile(UnretrievedErrors.write, 1, lambda: None).during():
        UnretrievedErrors(wake=lambda: None).write("me", 0.0)  # CPython 3.12 traces a function's second call first
    for step in range(1, 1_000):
        caplog.clear()
        records = UnretrievedErrors(wake=lambda: None)
        drop(records, "first")
        finalizer = Meanwhile(UnretrievedErrors.write, step, partial(drop, records, "second"))
        with finalizer.during():
            records.write("me", 0.0)
        if not finalizer.came:
            break
        for second in (100.0, 200.0):
            if records.active:
                records.write("me", second)
        assert sum("second" in line for line in lost(caplog)) == 1, step
        assert not records.active
    assert step > 50


def test_a_notice_that_was_not_completed_is_dropped_without_an_error() -> None:
    """As after a lack of memory, or an interrupt."""
    notice = DropNotice.__new__(DropNotice)
    notice.__del__()
