"""The reprs that notebooks show: complete, escaped, of limited length, and without secrets."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

from ottla import Producer, TableResult, UndeliveredError
from ottla.doctor import Examination, Finding, Status, Step
from ottla.results import DeliveryReport, PartitionResult, TopicReport, html
from simulated_producer import simulated

HOSTILE = "<script>alert('x')</script> & \"quoted\""


class Page(HTMLParser):
    """The text of each cell, heading and title, and the tags. Every tag that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(value: Any) -> Page:
    return Page(value._repr_html_())


# Reports


def test_a_report_has_its_counts_and_those_of_each_topic() -> None:
    report = DeliveryReport({"orders": TopicReport(acknowledged=3, failed=2, possibly_persisted=1)})

    assert shown(report).texts == [
        "3 acknowledged, 2 failed, 0 pending (1 of the failed possibly persisted)",
        *("topic", "acknowledged", "failed", "possibly persisted", "pending"),
        *("orders", "3", "2", "1", "0"),
    ]


def test_a_report_of_many_topics_counts_those_that_it_does_not_show() -> None:
    report = DeliveryReport({f"topic-{number}": TopicReport(acknowledged=1) for number in range(2_000)})

    assert shown(report).texts[-1] == "1950 more topics"


def test_an_empty_report_is_its_line() -> None:
    page = shown(DeliveryReport({}))

    assert (page.texts, "table" in page.tags) == (["0 acknowledged, 0 failed, 0 pending"], False)


def test_a_tables_result_has_the_offsets_of_each_partition() -> None:
    found = {0: PartitionResult(rows=2, first_offset=5, last_offset=6)}
    result = TableResult(rows=3, acknowledged=2, failed=1, partitions=found)
    by_topic = TableResult(rows=2, acknowledged=2, failed=0, partitions={}, topics={"a": found})

    assert shown(result).texts == [
        "rows: 3, of which 2 acknowledged and 1 failed",
        *("partition", "rows", "first offset", "last offset", "0", "2", "5", "6"),
    ]
    assert shown(by_topic).texts[1:] == [
        *("topic", "partition", "rows", "first offset", "last offset"),
        *("a", "0", "2", "5", "6"),
    ]


def test_findings_of_the_doctor_are_a_table() -> None:
    finding = Finding(step=Step.TCP, subject="b:9092", status=Status.FAILED, message=HOSTILE, remedy="start it")
    page = shown(Examination(findings=[finding]))

    assert page.texts[0].startswith("b:9092: <script>")
    assert page.texts[-5:] == ["failed", "tcp connect", "b:9092", HOSTILE, "start it"]
    assert "script" not in page.tags


# Deliveries


def test_a_delivery_shows_its_outcome() -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send("t", b"value", b"key")
        pending = shown(delivery)
        simulation.run_until_idle()

    assert pending.texts == ["pending", "topic", "t"]
    assert shown(delivery).texts[:7] == ["acknowledged", "topic", "t", "partition", "0", "offset", "0"]
    assert shown(delivery).texts[-4:] == ["bytes of the key", "3", "bytes of the value", "5"]


def test_a_failed_delivery_shows_its_error_and_does_not_retrieve_it() -> None:
    with simulated(1) as simulation:
        delivery = simulation.producer.send("t", b"x", b"secret key")
        with pytest.raises(UndeliveredError):
            simulation.producer.close(0)
        page = shown(delivery)

    assert page.texts[0] == "failed"
    assert page.texts[-4] == "error"
    assert "secret key" not in str(page.texts)
    with simulated(1, linger_ms=60_000) as simulation:
        simulation.producer.send("t", b"x")
        shown(simulation.producer.send("t", b"y"))
        with pytest.raises(UndeliveredError, match="2 records failed"):
            simulation.producer.close(0)


def test_a_tables_delivery_shows_its_counts_and_then_its_result() -> None:
    with simulated(1, max_block_ms=0) as simulation:
        table = pa.table({"value": ["x", "y"], "p": [0, 9]})
        delivery = simulation.producer.send_table("t", table, partition="p")
        pending = shown(delivery)
        simulation.run_until_idle()
        done = shown(delivery)
        assert delivery.failed_rows()

    assert pending.texts == ["pending: topic 't': rows: 2, of which 0 acknowledged, 1 failed, 1 pending"]
    assert done.texts[0] == "rows: 2, of which 1 acknowledged and 1 failed"
    assert done.texts[-3:-1] == ["first error", "DeliveryError"]


# Settings


def test_settings_show_their_sources_and_hide_secrets() -> None:
    with Producer(
        bootstrap_servers="127.0.0.1:1",
        client_id=HOSTILE.replace("'", ""),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="very secret",
    ) as producer:
        page = producer.config._repr_html_()

    parsed = Page(page)
    assert "very secret" not in page
    assert "script" not in parsed.tags
    assert parsed.texts[:6] == ["settings", "key", "value", "source", "bootstrap.servers", "127.0.0.1:1"]
    assert parsed.texts[6] == "keyword bootstrap_servers"
    at = parsed.texts.index("sasl.password")
    assert parsed.texts[at + 1] == "[hidden]"
    assert "details" in parsed.tags
    assert "linger.ms" in parsed.texts


# Texts


def test_all_texts_are_escaped_and_long_ones_are_cut() -> None:
    page = Page(html.table(HOSTILE, [HOSTILE], [[HOSTILE], ["x" * 10_000], [None]]))

    assert page.tags.count("script") == 0
    assert page.texts[:3] == [HOSTILE] * 3
    assert page.texts[3] == "x" * 500 + "..."
