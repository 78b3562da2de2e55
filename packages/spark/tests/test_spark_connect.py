"""Writes of a program that reaches Spark by Spark Connect only: what holds there as it does in a driver, and what not.

One server and one program serve all tests here: `connect_program` does one thing after the other, and each test looks
at what became of one. Connect needs what `pip install pyspark[connect]` brings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import pytest
from connect_program import BATCHES, ROWS, SECRET
from connect_server import connect_server

from ottla_testkit.errors import KafkaUnavailableError
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.pytest_plugin import go_without
from spark_kit import arrived, values
from transactions_kit import read

pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]'")

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1500)]

HERE = Path(__file__).parent
WITHIN = 1200.0  # seconds
PARTITIONS = 2
NAMES = ("batch", "thread", "stream", "exactly-once", "once", "each", "called", "by-call", "registered")
EACH_ROW_ONCE = Counter(str(number).encode() for number in range(ROWS))


@attrs.frozen(kw_only=True)
class Ended:
    """The results of the program's steps, by name, and its records."""

    reported: dict[str, Any]
    kafka: KafkaCluster
    folder: Path

    def arrived(self, name: str) -> Counter[bytes | None]:
        """The values in the topic of this name, once for each time that they are there."""
        return Counter(values(arrived(self.kafka, topic_of(name))))

    def visible(self, name: str) -> Counter[bytes]:
        """The same as a reader of committed records finds it."""
        found = read(self.kafka.bootstrap_servers, topic_of(name), partitions=PARTITIONS)
        return Counter(value for each in found for value in each)


def topic_of(name: str) -> str:
    return f"connect-{name}"


@attrs.frozen(kw_only=True)
class Server:
    """The address of a Connect server for clients, and the folder of its files."""

    remote: str
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("connect")
    stack = ExitStack()
    try:
        remote = stack.enter_context(connect_server(folder))
    except KafkaUnavailableError as error:
        go_without(error)
    with stack:
        yield Server(remote=remote, folder=folder)


@pytest.fixture(scope="module")
def ended(server: Server, kafka: KafkaCluster) -> Ended:
    """The program has run."""
    for name in NAMES:
        kafka.create_topic(topic_of(name), partitions=PARTITIONS)
    given = {
        "remote": server.remote,
        "folder": str(server.folder),
        "options": {"kafka.bootstrap.servers": kafka.bootstrap_servers},
        "topics": {name: topic_of(name) for name in NAMES},
    }
    program = subprocess.run(
        [sys.executable, HERE / "connect_program.py"],
        input=json.dumps(given),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=WITHIN,
        check=False,
        capture_output=True,
        text=True,
    )
    assert program.returncode == 0, program.stderr[-4000:]
    (server.folder / "client.log").write_text(program.stderr)
    return Ended(reported=json.loads(program.stdout.splitlines()[-1]), kafka=kafka, folder=server.folder)


SPEC = """\
name: orders
storage: file://{folder}/storage
libraries:
  - glob:
      include: flows.py
"""

FLOWS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

dp.create_sink("orders", "ottla", {options})


@dp.append_flow(target="orders")
def to_kafka():
    return SparkSession.active().readStream.text("{folder}/input")
"""


def run_pipeline(folder: Path, remote: str, kafka: KafkaCluster) -> subprocess.CompletedProcess[str]:
    """Run a declarative pipeline whose sink is a topic, as `spark-pipelines run` does."""
    (folder / "input").mkdir(parents=True)
    (folder / "storage").mkdir()
    (folder / "input" / "rows.txt").write_text("".join(f"{number}\n" for number in range(ROWS)))
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic_of("pipeline")}
    (folder / "spark-pipeline.yml").write_text(SPEC.format(folder=folder))
    (folder / "flows.py").write_text(FLOWS.format(folder=folder, options=options))
    return subprocess.run(
        [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", folder / "spark-pipeline.yml"],
        env={**os.environ, "SPARK_REMOTE": remote},
        timeout=WITHIN,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.mark.thorough("two programs more for a stream of the data source, of which other tests here have one")
def test_a_declarative_pipeline_has_a_topic_as_its_sink(server: Server, kafka: KafkaCluster) -> None:
    kafka.create_topic(topic_of("pipeline"), partitions=PARTITIONS)
    pipeline = run_pipeline(server.folder / "pipeline", server.remote, kafka)

    assert pipeline.returncode == 0, pipeline.stderr[-4000:]
    assert Counter(values(arrived(kafka, topic_of("pipeline")))) == EACH_ROW_ONCE


@pytest.mark.parametrize(
    ("step", "name"), [("batch", "batch"), ("batch_of_a_thread", "thread"), ("each_batch_as_a_frame", "each")]
)
def test_a_client_without_ottla_writes_frames(ended: Ended, step: str, name: str) -> None:
    assert ended.reported[step] is None
    assert ended.arrived(name) == EACH_ROW_ONCE


def test_a_client_without_ottla_writes_streams(ended: Ended) -> None:
    assert ended.reported["micro_batches"] == BATCHES
    assert ended.arrived("stream") == EACH_ROW_ONCE


def test_a_client_may_register_the_source_in_its_session(ended: Ended) -> None:
    assert ended.reported["registered"] is None
    assert ended.arrived("registered") == EACH_ROW_ONCE


def test_all_problems_of_a_frame_are_reported_to_the_client_at_once(ended: Ended) -> None:
    said = ended.reported["wrong_columns_and_options"]

    assert "column 'value' has the unsupported type int; it must be string or binary" in said
    assert "column 'partition' has the unsupported type bigint; it must be int" in said
    assert "option 'nonsense' is not known" in said
    assert "did you mean 'linger.ms'?" in said


def test_a_row_that_cannot_be_sent_is_reported_with_its_position(ended: Ended) -> None:
    said = ended.reported["wrong_row"]

    assert re.search(r"row 1 of Spark partition \d+ was refused: column 'partition' is negative", said)


def test_a_stream_is_in_kafka_once_after_a_lost_checkpoint_commit(ended: Ended) -> None:
    assert ended.reported["exactly_once"] == BATCHES
    assert ended.reported["exactly_once_after_a_lost_commit"] == BATCHES
    assert ended.visible("exactly-once") == EACH_ROW_ONCE


def test_a_repeated_job_is_written_once(ended: Ended) -> None:
    assert ended.reported["once"] == [[True, ROWS], [False, ROWS]]
    assert ended.visible("once") == EACH_ROW_ONCE


def test_frames_and_micro_batches_are_written_by_calls(ended: Ended) -> None:
    assert ended.reported["called"] == ROWS
    assert ended.reported["micro_batches_by_call"] is None
    assert ended.arrived("called") == ended.arrived("by-call") == EACH_ROW_ONCE


def test_functions_that_need_the_driver_context_say_so(ended: Ended) -> None:
    assert "needs the id of the query, which Spark Connect does not provide" in ended.reported["exactly_once_by_call"]
    assert "Spark Connect does not provide" in ended.reported["all_or_nothing"]
    assert "or Spark Connect is used" in ended.reported["report"]


def test_no_secret_is_shown_to_the_client_or_printed(ended: Ended) -> None:
    assert "cannot be sent" in ended.reported["secret"]

    # What Spark records of requests in its event log does hold them: docs/spark.md.
    printed = [
        json.dumps(ended.reported),
        *((ended.folder / f"{name}.log").read_text() for name in ("server", "client")),
    ]
    assert printed[1]  # there to be searched
    assert [text for text in printed if SECRET in text] == []
