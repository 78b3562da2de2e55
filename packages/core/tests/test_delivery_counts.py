"""The counts behind the reports, and the failures whose errors were not retrieved."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from machine import columns
from ottla.accumulator import delivery_counts
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery_counts import DeliveryCounts, Report
from ottla.errors import DeliveryError
from ottla.results import TopicReport


def batch_of(count: int, topic: str = "t", outcome: Acknowledged | Failed | None = None) -> ProducerBatch:
    batch = ProducerBatch(topic=topic, partition=0, columns=columns(100_000), now=0.0)
    for _ in range(count):
        batch.append(None, b"v", (), 0, None)
    if outcome is not None:
        batch.complete_and_call_back(outcome)
    return batch


def failed(*, perhaps: bool = False, text: str = "refused") -> Failed:
    return Failed(error=DeliveryError(text, topic="t", partition=0, attempts=1, possibly_persisted=perhaps))


@pytest.mark.rule("producer.report.pending")
def test_a_report_counts_by_topic_and_has_the_pending_records() -> None:
    books = DeliveryCounts()
    books.add([batch_of(3, "a", Acknowledged(base_offset=0))])
    books.add([batch_of(2, "b", failed(perhaps=True))])
    books.add([batch_of(1, "b", failed())])

    report, unseen, error = books.take_report([batch_of(4, "c")])

    assert report.topics == {
        "a": TopicReport(acknowledged=3),
        "b": TopicReport(failed=3, possibly_persisted=2),
        "c": TopicReport(pending=4),
    }
    assert (report.acknowledged, report.failed, report.possibly_persisted, report.pending) == (3, 3, 2, 4)
    assert unseen == 3
    assert error is not None
    assert str(report) == "3 acknowledged, 3 failed, 4 pending (2 of the failed possibly persisted)"


@pytest.mark.rule("producer.report.since")
def test_a_failure_is_in_one_report_only() -> None:
    books = DeliveryCounts()
    books.add([batch_of(1, outcome=failed())])
    books.take_report([])

    report, unseen, error = books.take_report([])

    assert (dict(report.topics), unseen, error) == ({}, 0, None)


@pytest.mark.unmeasured
def test_the_next_report_has_what_ctrl_c_kept_from_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    books = DeliveryCounts()
    books.add([batch_of(2, "a", Acknowledged(base_offset=0)), batch_of(1, "b", failed(perhaps=True))])
    take = DeliveryCounts._take

    def taken(counts: DeliveryCounts, waiting: Counter[str], *, leave_errors: bool) -> Report:
        report = take(counts, waiting, leave_errors=leave_errors)
        signal.raise_signal(signal.SIGINT)  # its handler raises at the end of the deferred block
        return report

    monkeypatch.setattr(DeliveryCounts, "_take", taken)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            books.take_report([batch_of(4, "c")])
    finally:
        signal.signal(signal.SIGINT, before)
    monkeypatch.undo()

    report, unseen, error = books.take_report([])

    assert report.topics == {"a": TopicReport(acknowledged=2), "b": TopicReport(failed=1, possibly_persisted=1)}
    assert unseen == 1
    assert error is not None


@pytest.mark.rule("producer.report.retrieved")
def test_an_error_retrieved_before_the_report_is_not_unretrieved() -> None:
    books = DeliveryCounts()
    batch = batch_of(2, outcome=failed())
    books.add([batch])
    batch.failed_reads.read(0)

    assert books.take_report([])[1] == 1


def test_the_cause_is_the_first_error_that_was_not_retrieved() -> None:
    books = DeliveryCounts()
    seen = batch_of(1, outcome=failed(text="seen"))
    seen.failed_reads.read(0)
    for batch in (seen, batch_of(1, outcome=failed(text="first")), batch_of(1, outcome=failed(text="second"))):
        books.add([batch])

    assert str(books.take_report([])[2]) == "first"


def test_many_failures_take_bounded_memory_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_counts, "REMEMBERED_FAILURES", 10)
    books = DeliveryCounts()
    for _ in range(100):
        books.add([batch_of(2, outcome=failed())])

    assert len(books._failures) == 10
    assert books.take_report([])[1] == 200
