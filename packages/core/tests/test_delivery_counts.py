"""The counts behind the reports, and the failures whose errors were not retrieved."""

from __future__ import annotations

import pytest

from machine import columns
from ottla.accumulator import delivery_counts
from ottla.accumulator.batch import ProducerBatch
from ottla.accumulator.batch_outcome import Acknowledged, Failed
from ottla.accumulator.delivery_counts import DeliveryCounts
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
def test_a_report_counts_by_topic_and_says_what_is_pending() -> None:
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
def test_an_account_is_closed_once() -> None:
    books = DeliveryCounts()
    books.add([batch_of(1, outcome=failed())])
    books.take_report([])

    report, unseen, error = books.take_report([])

    assert (dict(report.topics), unseen, error) == ({}, 0, None)


@pytest.mark.rule("producer.report.retrieved")
def test_a_look_between_failure_and_report_still_counts() -> None:
    books = DeliveryCounts()
    batch = batch_of(2, outcome=failed())
    books.add([batch])
    batch.mark_error_retrieved(0)

    assert books.take_report([])[1] == 1


def test_the_cause_is_that_of_the_first_failure_nobody_looked_at() -> None:
    books = DeliveryCounts()
    seen = batch_of(1, outcome=failed(text="seen"))
    seen.mark_error_retrieved(0)
    for batch in (seen, batch_of(1, outcome=failed(text="first")), batch_of(1, outcome=failed(text="second"))):
        books.add([batch])

    assert str(books.take_report([])[2]) == "first"


def test_endless_failures_take_no_endless_memory_and_none_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_counts, "REMEMBERED_FAILURES", 10)
    books = DeliveryCounts()
    for _ in range(100):
        books.add([batch_of(2, outcome=failed())])

    assert len(books._failures) == 10
    assert books.take_report([])[1] == 200
