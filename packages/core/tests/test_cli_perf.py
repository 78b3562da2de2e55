"""`ottla perf`: its figures are those of the records that were sent, whatever becomes of them."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path

import pytest
from broker_on_a_socket import SocketBroker
from hypothesis import given
from hypothesis import strategies as st

from command_runner import CliRunner
from ottla import Producer
from ottla.cli.commands import ottla
from ottla.cli.perf.latencies import Interval, LatencyRecorder, percentile
from ottla.cli.perf.load import Load, Result, Run
from ottla.cli.perf.output import show_interval
from ottla.cli.perf.pace import Pace
from ottla.cli.perf.payloads import lines_of, random_letters
from ottla.cli.perf.report import page
from ottla.config.in_force import GIVEN, SettingInForce, SettingsInForce
from ottla.errors import ErrorCode
from ottla_testkit.simulation import SimulatedCluster

FINE, SOME_FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
WAIT = 20.0


@pytest.fixture
def broker() -> SocketBroker:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    return SocketBroker(cluster.brokers[1])


class FullDisk(io.StringIO):
    """A standard error that takes nothing."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def arrived(broker: SocketBroker) -> list[bytes | None]:
    with broker.lock:
        return [record.value for record in broker.broker.cluster.topics["t"].log[0]]


def run(
    broker: SocketBroker, load: Load, *, on_interval: Callable[[Interval], object] = lambda _interval: None
) -> Result:
    with broker.serving() as servers, Producer(bootstrap_servers=servers) as producer:
        return Run(load, producer, random_letters(10), on_interval=on_interval).run(flush_timeout=WAIT)


# Figures


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.001, 100))
def test_so_many_percent_of_the_values_do_not_exceed_a_percentile(values: list[float], percent: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, percent)

    assert sum(value <= found for value in ordered) >= math.floor(len(ordered) * percent / 100)
    assert sum(value < found for value in ordered) < len(ordered) * percent / 100


@given(st.lists(st.lists(st.tuples(st.integers(0, 1000), st.floats(0, 10)), max_size=5), min_size=1, max_size=5))
def test_intervals_have_each_record_once(given_intervals: list[list[tuple[int, float]]]) -> None:
    recorder = LatencyRecorder(100)
    intervals = []
    for number, records in enumerate(given_intervals):
        for size, latency in records:
            recorder.add(size, latency)
        intervals.append(recorder.end_interval(number + 1.0))

    every = [record for records in given_intervals for record in records]
    assert [interval.records for interval in intervals] == list(map(len, given_intervals))
    assert sum(interval.size for interval in intervals) == recorder.size == sum(size for size, _latency in every)
    assert {interval.seconds for interval in intervals} == {1.0}
    longest = 1000 * max((latency for _size, latency in every), default=0.0)
    assert recorder.latencies().max_ms == max(interval.max_ms for interval in intervals) == longest


def test_a_long_run_keeps_evenly_spread_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.perf.latencies.MAX_SAMPLES", 100)
    recorder = LatencyRecorder(10_000)
    for number in range(10_000):
        recorder.add(1, number / 1000)

    latencies = recorder.latencies()
    assert len(recorder._samples) == 100
    assert latencies.percentiles[50.0] == pytest.approx(5000, rel=0.03)
    assert latencies.average_ms == pytest.approx(4999.5)
    assert latencies.max_ms == pytest.approx(9999)


@given(st.floats(0.1, 1e5), st.lists(st.floats(0, 0.1), min_size=2, max_size=30))
def test_records_never_leave_faster_than_their_rate(rate: float, delays: list[float]) -> None:
    now = 0.0
    pace = Pace(rate, clock=lambda: now)
    for number, delay in enumerate(delays):
        now += pace.delay(number)
        assert now * rate >= number * (1 - 1e-9)
        now += delay


def test_values_are_letters_of_the_size_and_differ() -> None:
    values = list(islice(random_letters(50), 1000))

    assert {len(value) for value in values} == {50}
    assert all(value.isalpha() and value.isupper() for value in values)
    assert len(set(values)) == 1000
    assert next(random_letters(0)) == b""
    assert len(next(random_letters(9_000_000))) == 9_000_000


def test_lines_of_a_file_are_sent_again_and_again(tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes(b"a\r\nb\n")

    assert list(islice(lines_of(tmp_path / "lines"), 5)) == [b"a", b"b", b"a", b"b", b"a"]


# Runs


def test_a_run_measures_all_records_but_those_of_the_warm_up(broker: SocketBroker) -> None:
    reported: list[Interval] = []
    load = Load(topic="t", records=300, warmup_records=50, records_per_second=2000, interval_seconds=0.05)
    result = run(broker, load, on_interval=reported.append)

    assert len(arrived(broker)) == 350
    assert (result.sent, result.acknowledged, result.failed, result.size) == (300, 300, 0, 3000)
    assert list(result.intervals) == reported
    assert sum(interval.records for interval in reported) == 300
    assert all(before.ends_at < after.ends_at for before, after in pairwise(reported))
    assert result.seconds >= 299 / 2000
    assert 0 < result.latencies.average_ms <= result.latencies.max_ms
    assert (result.error, result.interrupted) == (None, False)


def test_a_transactional_run_commits_all_its_records(broker: SocketBroker) -> None:
    load = Load(topic="t", records=60, records_per_second=300, transaction_seconds=0.05)
    with broker.serving() as servers, Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        result = Run(load, producer, random_letters(10), on_interval=lambda _interval: None).run(flush_timeout=WAIT)

    assert (result.acknowledged, result.error) == (60, None)
    assert len(broker.broker.cluster.topics["t"].committed(0)) == 60


def test_ctrl_c_ends_a_run_with_the_outcome_of_each_record(broker: SocketBroker) -> None:
    def stop(_interval: Interval) -> None:
        if not broken:
            broken.append(True)
            raise KeyboardInterrupt

    broken: list[bool] = []
    load = Load(topic="t", records=1_000_000, records_per_second=1000, interval_seconds=0.05)
    result = run(broker, load, on_interval=stop)

    assert result.interrupted
    assert result.sent == result.acknowledged == len(arrived(broker)) > 0


# The command


@pytest.fixture
def servers(broker: SocketBroker) -> Iterator[str]:
    with broker.serving() as address:
        yield address


def perf(servers: str, *arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(ottla, ["perf", "t", "--bootstrap-servers", servers, *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_result_is_json_for_programs(broker: SocketBroker, servers: str) -> None:
    code, out, log = perf(servers, "--num-records", "20", "--record-size", "7", "--json")

    found = json.loads(out)
    assert code == FINE
    assert (found["ok"], found["records"], found["acknowledged"], found["bytes"]) == (True, 20, 20, 140)
    assert list(found["latency_ms"]) == ["avg", "p50", "p95", "p99", "p99.9", "max"]
    assert sum(interval["records"] for interval in found["intervals"]) == 20
    assert "20 acknowledged" in log
    assert {len(value or b"") for value in arrived(broker)} == {7}


def test_records_that_fail_are_counted_and_set_the_exit_code(broker: SocketBroker, servers: str) -> None:
    broker.broker.codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)  # the first batch fails, of any size
    slowly = ["--throughput", "20", "-c", "enable.idempotence=false"]
    code, out, _log = perf(servers, "--num-records", "5", *slowly, "--json")

    found = json.loads(out)
    assert (code, found["ok"]) == (SOME_FAILED, False)
    assert found["acknowledged"] == len(arrived(broker)) == 5 - found["failed"] < 5
    [failure] = found["failures"]
    assert "TOPIC_AUTHORIZATION_FAILED" in failure


def test_the_command_needs_no_pyarrow() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; import ottla.cli.commands, ottla.cli.perf.report"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_unreachable_brokers_are_an_error_and_no_traceback() -> None:
    code, out, log = perf("127.0.0.1:1", "--num-records", "5", "-c", "max.block.ms=300")

    assert code == SOME_FAILED
    assert out.startswith("records acknowledged: 0, failed: 0; ")
    assert "stopped: " in out
    assert "Traceback" not in out + log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--num-records"),
        (["--num-records", "0"], "--num-records"),
        (["--num-records", "1", "--payload-file", "EMPTY"], "has no lines"),
        (["--num-records", "1", "--report", "nowhere/report.html"], "--report"),
    ],
)
def test_wrong_usage_is_found_before_a_record_is_sent(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("EMPTY").write_bytes(b"")
    code, _out, log = perf("127.0.0.1:1", *arguments)

    assert code == USAGE
    assert said in log


def test_the_report_is_a_page_of_its_own(servers: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    code, out, _log = perf(servers, "--num-records", "20", "--report", str(file), "-c", "linger.ms=7")

    text = file.read_text(encoding="utf-8")
    assert code == FINE
    assert out.startswith("records acknowledged: 20, failed: 0; ")
    assert text.count("<svg") == 2
    assert '<th scope="row">linger.ms</th><td>7</td>' in text
    assert "http" not in text  # it loads nothing


def test_the_report_quotes_what_is_not_its_own() -> None:
    settings = SettingsInForce([SettingInForce(key="client.id", value="<b>&", source=GIVEN, default=None, meaning="")])
    recorder = LatencyRecorder(1)
    result = Result(
        sent=1,
        acknowledged=0,
        failed=1,
        size=0,
        seconds=0.0,
        latencies=recorder.latencies(),
        intervals=(),
        failures=("<script>",),
        error=None,
        interrupted=False,
    )
    text = page("<i>t", result, settings)

    assert "<script>" not in text
    assert "<i>" not in text
    assert "&lt;b&gt;&amp;" in text


def test_lines_that_cannot_be_printed_do_not_end_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", FullDisk())

    show_interval(Interval(ends_at=1.0, seconds=1.0, records=5, size=50, average_ms=1.0, max_ms=2.0))
