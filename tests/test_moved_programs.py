"""Programs in the shape of other clients' examples run after the changes that the pages name, and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from long_forms import share
from peer_programs import CHANGES, PROGRAMS, Program

from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import MakeTopic

pytestmark = pytest.mark.kafka

DOCS: Final = Path(__file__).resolve().parents[1] / "docs"
OF_OTHERS: Final = r"\b(?:AIO)?Kafka\w*Producer\b|AIOProducer|\.produce\(|aiokafka"
WITHIN: Final = 30.0


def moved(program: Program) -> str:
    """The program after its changes."""
    text = program.text
    for change in program.changes:
        text = CHANGES[change].applied(text)
    return text


def printed(text: str, kafka: KafkaCluster, topic: str, folder: Path) -> list[str]:
    """The lines that a program prints, with `T` for its topic."""
    file = folder / "program.py"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file), kafka.bootstrap_servers, topic],
        capture_output=True,
        text=True,
        timeout=WITHIN,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(topic, "T").splitlines()


def records(kafka: KafkaCluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """The committed records of the topic's only partition; aborted ones and markers may come last."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": topic,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[bytes | None, bytes | None]] = []
    end = time.monotonic() + WITHIN
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while time.monotonic() < end:
            message = consumer.poll(1.0)
            error = None if message is None else message.error()
            if message is not None and error is None:
                found.append((message.key(), message.value()))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic} was not reached")


def plain(value: bytes | None) -> object:
    """A value without what serializers of JSON may choose: spaces."""
    try:
        return json.loads(value or b"")
    except ValueError:
        return value


def topic_of(program: Program, make_topic: MakeTopic, kafka: KafkaCluster) -> str:
    topic = make_topic(partitions=1)
    if program.name == "exactly-once":
        kafka.create_topic(f"{topic}-in", partitions=1)
    return topic


@pytest.mark.parametrize(
    "program",
    share(PROGRAMS, gate=6, why="the gate has two programs of each client"),
    ids=lambda program: f"{program.client}-{program.name}",
)
def test_a_program_runs_after_the_documented_changes(
    program: Program, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path
) -> None:
    ours = topic_of(program, make_topic, kafka)
    lines = printed(moved(program), kafka, ours, tmp_path)

    assert records(kafka, ours) == list(program.records)
    if find_spec(program.client) is None:
        return  # ours was checked; the other one is not installed
    theirs = topic_of(program, make_topic, kafka)
    assert printed(program.text, kafka, theirs, tmp_path) == lines
    assert [(key, plain(value)) for key, value in records(kafka, theirs)] == [
        (key, plain(value)) for key, value in program.records
    ]


def test_each_change_is_a_row_of_a_page() -> None:
    rows = {
        re.split(r"(?<!\\) \| ", line.removeprefix("| "))[0].strip()
        for page in ("other-clients.md", "asyncio.md")
        for line in (DOCS / page).read_text("utf-8").splitlines()
        if line.startswith("| ")
    }

    assert [change.before for change in CHANGES.values() if change.before not in rows] == []


def test_moved_programs_use_no_name_of_the_other_client() -> None:
    left = {
        program.name: found
        for program in PROGRAMS
        if (found := re.findall(OF_OTHERS, moved(program))) and "Producer as KafkaProducer" not in moved(program)
    }

    assert left == {}


def test_each_client_has_at_least_five_programs() -> None:
    clients = [program.client for program in PROGRAMS]

    assert set(clients) == {"confluent_kafka", "kafka", "aiokafka"}
    assert min(clients.count(client) for client in clients) >= 5


def test_each_change_is_made_by_a_program() -> None:
    assert set(CHANGES) == {change for program in PROGRAMS for change in program.changes}
