"""`ottla perf` on a real broker: the records that it counts are those that consumers read."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from ottla.cli.commands import ottla
from ottla_testkit.kafka_cluster import KafkaCluster
from transactions_kit import await_true, new_id, read_pairs

pytestmark = pytest.mark.kafka

FINE, INTERRUPTED = 0, 130
HANG_GUARD = 120.0

# A shell that runs tests in the background ignores SIGINT, and its children inherit that.
MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from ottla.cli import main
main()
"""


@pytest.fixture
def topic(kafka: KafkaCluster) -> str:
    name = f"perf-{new_id()}"
    kafka.create_topic(name, partitions=1)
    return name


def values(kafka: KafkaCluster, topic: str) -> list[bytes]:
    [found] = read_pairs(kafka.bootstrap_servers, topic)
    return [value for _key, value in found]


@pytest.mark.parametrize("settings", [[], ["-c", "transactional.id=ID", "--transaction-duration-ms", "50"]])
def test_consumers_read_the_records_that_are_counted(kafka: KafkaCluster, topic: str, settings: list[str]) -> None:
    servers = ["--bootstrap-servers", kafka.bootstrap_servers]
    sizes = ["--num-records", "2000", "--warmup-records", "100", "--record-size", "30", "--throughput", "5000"]
    own = [setting.replace("ID", topic) for setting in settings]
    result = CliRunner().invoke(ottla, ["perf", topic, *servers, *sizes, *own, "--json"])

    found = json.loads(result.stdout)
    assert result.exit_code == FINE, result.output
    assert (found["records"], found["acknowledged"], found["bytes"]) == (2000, 2000, 60_000)
    assert found["records_per_second"] <= 5001
    read = values(kafka, topic)
    assert len(read) == 2100
    assert {len(value) for value in read} == {30}


def test_ctrl_c_prints_the_counts_of_what_was_sent(kafka: KafkaCluster, topic: str) -> None:
    arguments = ["perf", topic, "--bootstrap-servers", kafka.bootstrap_servers, "--json"]
    load = ["--num-records", "1000000", "--throughput", "500", "--reporting-interval", "0.2"]
    command = [sys.executable, "-c", MAIN, *arguments, *load]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        try:
            await_true(lambda: len(values(kafka, topic)) > 0)
            child.send_signal(signal.SIGINT)
            out, _log = child.communicate(timeout=HANG_GUARD)
        finally:
            child.kill()

    found = json.loads(out)
    assert child.returncode == INTERRUPTED
    assert found["interrupted"]
    assert found["acknowledged"] == len(values(kafka, topic))
    assert found["acknowledged"] - found["records"] in (0, 1)  # Ctrl-C may interrupt a send that has queued its record
