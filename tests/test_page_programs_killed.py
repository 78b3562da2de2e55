"""The programs of the pages that survive a kill are killed, started again, and stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from documents import ROOT, blocks
from ottla import Producer
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic
from transactions_kit import read

pytestmark = pytest.mark.kafka

HANG_GUARD = 120.0
VALUES = [b"%d" % number for number in range(20_000)]


def program(page: str, *, of: str, instead: Mapping[str, str]) -> str:
    """The only block of the page with this text, with other names in it."""
    [text] = [block.text for block in blocks(ROOT / "docs" / page) if of in block.text]
    for old, new in instead.items():
        assert old in text
        text = text.replace(old, new)
    return text


@contextmanager
def running(text: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", text], cwd=folder) as child:
        try:
            yield child
        finally:
            child.kill()


def committed(kafka: KafkaCluster, topic: str) -> list[bytes]:
    """The committed values of the topic's only partition, until now."""
    return read(kafka.bootstrap_servers, topic, after_markers=False)[0]


def await_records(kafka: KafkaCluster, topic: str, *, count: int) -> None:
    deadline = time.monotonic() + HANG_GUARD
    while len(committed(kafka, topic)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def send_orders(kafka: KafkaCluster, topic: str, values: Sequence[bytes]) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value)


def test_consume_transform_produce_writes_each_order_once_after_a_kill(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    orders, invoices = make_topic(), make_topic()
    send_orders(kafka, orders, VALUES[:-1])
    # Each instance has the name that the page advises, so the second run does not wait for the first one's session.
    names = {"kafka:9092": kafka.bootstrap_servers, '"orders"': repr(orders), '"invoices"': repr(invoices)}
    names |= {'"group.id": "billing"': f'"group.id": {orders!r}, "group.instance.id": "billing-1"'}
    names |= {'"transactional.id": "billing-1"': f'"transactional.id": {orders!r}'}
    text = program("transactions.md", of="def rewind", instead=names)

    with running(text, tmp_path) as first:
        await_records(kafka, invoices, count=1)
        first.kill()
    # Only the second run can write this one: its invoice shows that SIGTERM finds the program in its loop.
    send_orders(kafka, orders, VALUES[-1:])
    with running(text, tmp_path) as second:
        await_records(kafka, invoices, count=len(VALUES))
        second.send_signal(signal.SIGTERM)

        assert second.wait(HANG_GUARD) == 0
    assert sorted(committed(kafka, invoices)) == sorted(VALUES)


@pytest.mark.thorough("the gate kills the other program of the page")
def test_a_loader_of_a_table_writes_each_row_once_after_a_kill(
    kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic()
    table = pa.table({"customer": [value[-1:] for value in VALUES], "order": VALUES})
    pq.write_table(table, tmp_path / "all.parquet", row_group_size=200)
    names = {"localhost:9092": kafka.bootstrap_servers, '"orders"': repr(topic)}
    names |= {"load-orders-2026-11-27": topic, 'load("orders.parquet")': 'load("all.parquet")'}
    text = program("tables.md", of="def load", instead=names)

    with running(text, tmp_path) as first:
        await_records(kafka, topic, count=1)
        first.kill()
    for _ in range(2):  # the second one finds nothing to do
        with running(text, tmp_path) as again:
            assert again.wait(HANG_GUARD) == 0

    assert committed(kafka, topic) == VALUES
