"""`ottla send` on a real broker: what arrives, what is reported, Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from pyarrow import parquet

from ottla.cli.commands import ottla
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import HOST, free_ports
from readback import read_back
from transactions_kit import await_true, new_id, read, read_pairs

pytestmark = pytest.mark.kafka

FINE, SOME_FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
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
    name = f"send-{new_id()}"
    kafka.create_topic(name, partitions=1)
    return name


def sent(kafka: KafkaCluster, topic: str, *arguments: str, given: bytes = b"") -> Result:
    servers = ["--bootstrap-servers", kafka.bootstrap_servers]
    return CliRunner().invoke(ottla, ["send", topic, *servers, *arguments], input=given)


def records(kafka: KafkaCluster, topic: str) -> list[tuple[bytes | None, bytes]]:
    [found] = read_pairs(kafka.bootstrap_servers, topic)
    return found


def test_lines_of_the_standard_input_are_values(kafka: KafkaCluster, topic: str) -> None:
    result = sent(kafka, topic, given=b"one\r\n\ntwo words\n\xff")

    assert result.exit_code == FINE
    assert result.stdout.startswith("records acknowledged: 4, failed: 0; ")
    assert records(kafka, topic) == [(None, b"one"), (None, b""), (None, b"two words"), (None, b"\xff")]


def test_a_key_stands_before_its_separator(kafka: KafkaCluster, topic: str) -> None:
    assert sent(kafka, topic, "--key-separator", ":", given=b"a:1\nb:2:3\n").exit_code == FINE

    assert records(kafka, topic) == [(b"a", b"1"), (b"b", b"2:3")]


def test_lines_of_json_stay_as_they_are(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    lines = [b'{"id": 7,  "x": 1.50}', b'{"id": "8"}', b'{"id": null}']
    (tmp_path / "orders.ndjson").write_bytes(b"\n\n".join(lines) + b"\n")

    assert sent(kafka, topic, str(tmp_path / "orders.ndjson"), "--key", "id").exit_code == FINE
    assert records(kafka, topic) == [(b"7", lines[0]), (b"8", lines[1]), (None, lines[2])]


def test_rows_of_tables_are_records(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "name": ["a", None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "b.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    (tmp_path / "c.csv").write_text('id,name\n007,"a\nb"\n')
    files = [str(tmp_path / name) for name in ("a.parquet", "b.arrow", "c.csv")]

    assert sent(kafka, topic, *files, "--key", "id").exit_code == FINE
    assert records(kafka, topic) == [
        *[(b"1", b'{"name":"a"}'), (b"2", b"{}")] * 2,
        (b"007", b'{"name":"a\\nb"}'),
    ]


def test_headers_timestamps_and_partitions_come_from_columns(kafka: KafkaCluster, topic: str) -> None:
    line = b'{"v": "x", "at": "2026-01-31T12:00:00Z", "p": 0, "h": {"a": "1"}}\n'
    columns = ["--value", "v", "--timestamp", "at", "--partition", "p", "--headers", "h"]
    assert sent(kafka, topic, "--format", "ndjson", *columns, given=line).exit_code == FINE

    [record] = read_back(kafka.bootstrap_servers, topic)
    assert (record.value, list(record.headers)) == (b"x", [("a", b"1")])
    assert record.timestamp_ms == 1_769_860_800_000


def test_a_record_that_fails_is_named_and_the_others_are_sent(kafka: KafkaCluster, topic: str) -> None:
    given = b"a\n" + b"b" * 5000 + b"\nc\n"
    result = sent(kafka, topic, "-c", "max.request.size=2000", given=given)

    assert result.exit_code == SOME_FAILED
    assert result.stdout.startswith("records acknowledged: 2, failed: 1; ")
    assert "failed: record 1 of -: " in result.stdout
    assert [value for _key, value in records(kafka, topic)] == [b"a", b"c"]


def test_the_result_is_json_for_programs(kafka: KafkaCluster, topic: str) -> None:
    result = sent(kafka, topic, "--json", "--format", "ndjson", "--key", "id", given=b'{"id": 1}\n{"id": \n')
    found: dict[str, Any] = json.loads(result.stdout)

    assert result.exit_code == SOME_FAILED
    assert (found["ok"], found["acknowledged"], found["interrupted"]) == (False, 0, False)
    assert found["error"].startswith("record 1 is not JSON: ")


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", MAIN, "send", *arguments]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as child:
        try:
            yield child
        finally:
            child.kill()


def interrupted(child: subprocess.Popen[bytes], number: int = signal.SIGINT) -> tuple[str, int]:
    child.send_signal(number)
    out, _log = child.communicate(timeout=HANG_GUARD)
    return out.decode(), child.returncode


def write(child: subprocess.Popen[bytes], lines: Sequence[bytes]) -> None:
    assert child.stdin is not None
    child.stdin.write(b"".join(line + b"\n" for line in lines))
    child.stdin.flush()


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 143)])
def test_lines_of_a_pipe_are_sent_when_they_come_and_counted_at_a_stop(
    kafka: KafkaCluster, topic: str, number: int, exit_code: int
) -> None:
    with running(topic, "--bootstrap-servers", kafka.bootstrap_servers) as child:
        for line in (b"one", b"two"):
            write(child, [line])
            await_true(lambda line=line: read(kafka.bootstrap_servers, topic)[0][-1:] == [line])  # type: ignore[misc]
        out, code = interrupted(child, number)

    assert code == exit_code
    assert out.startswith("records acknowledged: 2, ")
    assert out.splitlines()[1] == "stopped: interrupted"


def test_without_a_terminal_the_counts_are_printed_now_and_then(kafka: KafkaCluster, topic: str) -> None:
    with running(topic, "--bootstrap-servers", kafka.bootstrap_servers, "--progress", "0.05") as child:
        write(child, [b"one", b"two"])
        assert child.stderr is not None
        lines = iter(child.stderr.readline, b"")
        assert any(line.startswith(b"records: 2, 0 MB, ") for line in lines)
        assert next(lines).startswith(b"records: 2, ")


def test_ctrl_c_ends_a_wait_for_brokers_that_are_not_there() -> None:
    [port] = free_ports(1)
    with running("orders", "--bootstrap-servers", f"{HOST}:{port}", "--flush-timeout", "0") as child:
        write(child, [b"x" * 99] * 700)  # a little more than a pipe holds: this returns when it is being read
        out, code = interrupted(child)

    assert (code, out.splitlines()[1]) == (INTERRUPTED, "stopped: interrupted")
    assert out.startswith("records acknowledged: 0, ")
