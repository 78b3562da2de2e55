"""Tests that the reporter meets all requirements, and its own promises."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from ottla import ConfigError, MetricName, check_config
from ottla.interfaces import MetricDescription, MetricsReporter
from ottla_testkit.conformance import MetricsReporterConformance, plugin_context
from ottla_testkit.mock_producer import MockProducer

from ottla_reporter_statsd import StatsdReporter
from ottla_reporter_statsd.lines import MAX_BYTES, Lines, datagrams, number
from ottla_reporter_statsd.plugin import HOST, INTERVAL, PORT, PREFIX, TAGS, ottla_config_keys, ottla_reporter


class Server:
    """Keeps what is sent to it, as a StatsD server would."""

    def __init__(self) -> None:
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.sock.bind(("127.0.0.1", 0))
        self.sock.settimeout(5)
        self.port: int = self.sock.getsockname()[1]

    def datagram(self) -> list[str]:
        return self.sock.recv(65_536).decode().split("\n")

    def all(self) -> list[str]:
        """The lines that have arrived."""
        lines = []
        self.sock.setblocking(False)
        while True:
            try:
                lines += self.datagram()
            except BlockingIOError:
                self.sock.settimeout(5)
                return lines


class Registry:
    """A registry whose values the test sets."""

    def __init__(self, *described: MetricDescription) -> None:
        self.described = list(described)
        self.values: dict[MetricName, float] = {}
        self.fault: Exception | None = None

    def snapshot(self) -> Mapping[MetricName, float]:
        if self.fault is not None:
            raise self.fault
        return dict(self.values)

    def describe(self) -> Sequence[MetricDescription]:
        return list(self.described)


def description(name: str, *, cumulative: bool, unit: str = "records") -> MetricDescription:
    return MetricDescription(group="g", name=name, labels=(), cumulative=cumulative, unit=unit, meaning="m")


TOTAL = MetricName("g", "total", (("topic", "orders"),))
GAUGE = MetricName("g", "now")
DESCRIBED = {
    ("g", "total"): description("total", cumulative=True),
    ("g", "now"): description("now", cumulative=False, unit="records/s"),
}


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with made.sock:
        yield made


def made_by_its_hook(port: int, *, host: str = "127.0.0.1", interval: float = 60.0) -> StatsdReporter:
    config = {HOST: host, PORT: port, INTERVAL: interval, PREFIX: "ottla", TAGS: ()}
    made = ottla_reporter(config=config, context=plugin_context())
    assert isinstance(made, StatsdReporter)
    return made


class TestStatsd(MetricsReporterConformance):
    @pytest.fixture
    def reporter(self, server: Server) -> MetricsReporter:
        return made_by_its_hook(server.port)

    @pytest.fixture
    def another(self, server: Server) -> MetricsReporter:
        return made_by_its_hook(server.port)


def contents(lines: Lines, values: Mapping[MetricName, float]) -> list[str]:
    made = list(lines.of(values, DESCRIBED))
    lines.sent(made)
    return [line.content.decode() for line in made]


def test_lines_have_units_and_tags() -> None:
    lines = Lines(prefix="ottla", tags=("env:prod",))

    assert contents(lines, {TOTAL: 10.0, GAUGE: 2.5}) == [
        "ottla.g.total:10|c|#topic:orders,unit:records,env:prod",
        "ottla.g.now:2.5|g|#unit:records/s,env:prod",
    ]


def test_a_counter_is_sent_as_what_it_has_grown_by() -> None:
    lines = Lines(prefix="", tags=())

    sent = [contents(lines, {TOTAL: value}) for value in (10.0, 10.0, 12.0, 5.0)]

    assert sent == [[f"g.total:{grown}|c|#topic:orders,unit:records"] if grown else [] for grown in (10, 0, 2, 5)]


def test_reporters_share_no_values() -> None:
    assert [contents(Lines(prefix="", tags=()), {TOTAL: 1.0}) for _ in range(2)] == [
        ["g.total:1|c|#topic:orders,unit:records"]
    ] * 2


def test_the_interval_is_milliseconds() -> None:
    [interval] = [key for key in ottla_config_keys() if key.name == INTERVAL]

    assert interval.type("1500") == 1.5


def test_what_was_not_sent_is_sent_with_the_next() -> None:
    lines = Lines(prefix="", tags=())

    list(lines.of({TOTAL: 10.0}, DESCRIBED))

    assert contents(lines, {TOTAL: 12.0}) == ["g.total:12|c|#topic:orders,unit:records"]


def test_a_metric_without_a_description_is_a_gauge_without_a_unit() -> None:
    assert contents(Lines(prefix="", tags=()), {MetricName("new", "one"): 1.0}) == ["new.one:1|g"]


def test_a_negative_gauge_is_set_not_changed() -> None:
    [both] = contents(Lines(prefix="", tags=()), {GAUGE: -3.0})

    assert both.split("\n") == ["g.now:0|g|#unit:records/s", "g.now:-3|g|#unit:records/s"]


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_an_average_of_nothing_is_not_sent(nothing: float) -> None:
    assert contents(Lines(prefix="", tags=()), {GAUGE: nothing, TOTAL: nothing}) == []


def test_tags_cannot_add_lines_or_metrics() -> None:
    hostile = MetricName("g", "now", (("client-id", "a|c\nother:1|c#x,y@ z"),))

    [line] = contents(Lines(prefix="", tags=()), {hostile: 1.0})

    assert line == "g.now:1|g|#client-id:a_c_other_1_c_x_y__z,unit:records/s"


@pytest.mark.parametrize(
    ("value", "written"), [(1e-7, "0.0000001"), (1e22, "1" + "0" * 22), (3.0, "3"), (0.25, "0.25")]
)
def test_numbers_have_no_exponent(value: float, written: str) -> None:
    assert number(value) == written


def test_datagrams_fit_into_a_frame() -> None:
    names = [MetricName("g", "now", (("topic", "t" * length),)) for length in (*range(300), 2000, 1)]
    made = list(Lines(prefix="", tags=()).of(dict.fromkeys(names, 1.0), DESCRIBED))

    groups = list(datagrams(made))

    assert [line for group in groups for line in group] == made
    sizes = [len(b"\n".join(line.content for line in group)) for group in groups]
    assert max(sizes) > 2000
    assert all(size <= MAX_BYTES or len(group) == 1 for size, group in zip(sizes, groups, strict=True))
    assert len(groups) < 60


def test_it_sends_at_intervals_and_at_the_end(server: Server) -> None:
    registry = Registry(*DESCRIBED.values())
    registry.values[TOTAL] = 10.0
    reporter = made_by_its_hook(server.port, interval=0.05)

    reporter.start(registry)
    assert server.datagram() == ["ottla.g.total:10|c|#topic:orders,unit:records"]
    registry.values[TOTAL] = 11.0
    assert server.datagram() == ["ottla.g.total:1|c|#topic:orders,unit:records"]
    reporter._interval = 60.0
    time.sleep(0.2)
    registry.values[TOTAL] = 14.0
    reporter.close()

    assert server.all() == ["ottla.g.total:3|c|#topic:orders,unit:records"]


def test_a_metric_that_is_added_later_has_its_unit(server: Server) -> None:
    registry = Registry(description("early", cumulative=False, unit="1"))
    registry.values[MetricName("g", "early")] = 1.0
    reporter = made_by_its_hook(server.port, interval=0.05)

    reporter.start(registry)
    assert server.datagram() == ["ottla.g.early:1|g|#unit:1"]
    registry.described.append(DESCRIBED["g", "now"])
    registry.values = {GAUGE: 1.0}
    reporter.close()

    assert "ottla.g.now:1|g|#unit:records/s" in server.all()


def test_faults_are_logged_once_and_do_not_end_it(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry(*DESCRIBED.values())
    registry.fault = ValueError("broken")
    reporter = made_by_its_hook(server.port, interval=0.01)
    with caplog.at_level(logging.WARNING):
        reporter.start(registry)
        time.sleep(0.3)
        registry.values, registry.fault = {TOTAL: 10.0}, None
        assert server.datagram() == ["ottla.g.total:10|c|#topic:orders,unit:records"]
        reporter.close()

    [message] = caplog.messages
    assert message.startswith("conformance: metrics could not be sent to 127.0.0.1:")
    assert message.endswith(": broken")


def test_a_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def unknown(*_args: Any, **_options: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    reporter = made_by_its_hook(8125, host="nowhere.invalid")

    reporter.start(Registry())
    reporter.close()

    assert "nowhere.invalid:8125" in caplog.text
    assert "Name or service not known; check statsd.host and statsd.port" in caplog.text


def test_a_producer_reports_its_metrics(server: Server) -> None:
    settings = {"bootstrap.servers": "localhost:9092", "client.id": "till", "metric.reporters": "statsd"}
    with MockProducer({**settings, HOST: "127.0.0.1", PORT: server.port, TAGS: "env:prod"}) as producer:
        producer.send("orders", b"value")

    lines = server.all()
    assert any(line.startswith("ottla.kafka-metrics-count.count:") for line in lines)
    assert all("client-id:till" in line and line.endswith("env:prod") for line in lines)


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        (HOST, " "),
        (PORT, "0"),
        (PORT, "65536"),
        (PORT, "http"),
        (INTERVAL, "0"),
        (PREFIX, "a:b"),
        (TAGS, ":prod"),
        (TAGS, "env:p|c"),
    ],
)
def test_wrong_settings_are_refused(key: str, wrong: str) -> None:
    settings = {"bootstrap.servers": "localhost:9092", "metric.reporters": "statsd"}

    with pytest.raises(ConfigError, match=key):
        check_config({**settings, key: wrong})
