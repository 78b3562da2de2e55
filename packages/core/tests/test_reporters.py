"""Reporters start and end with their producer, and their failures are logged and affect nothing else."""

from __future__ import annotations

import importlib
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla import ConfigError, MetricName, Producer
from ottla.interfaces import MetricsRegistry
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import Simulated, simulated


class Reporter:
    """Records its calls."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.registry: Any = None
        self.last: Mapping[MetricName, float] = {}

    def start(self, registry: MetricsRegistry) -> None:
        self.events.append("start")
        self.registry = registry

    def close(self) -> None:
        self.events.append("close")
        self.last = self.registry.snapshot()

    def sent(self) -> float:
        return sum(v for n, v in self.last.items() if (n.group, n.name) == ("producer-metrics", "record-send-total"))


class FailsAtItsStart(Reporter):
    def start(self, registry: MetricsRegistry) -> None:
        super().start(registry)
        raise OSError("no such server")


class FailsAtItsEnd(Reporter):
    def close(self) -> None:
        super().close()
        raise OSError("no such server")


def simulated_with(**reporters: Any) -> Any:
    return simulated(1, plugins={"reporters": reporters})


@pytest.mark.rule("producer.reporters")
def test_a_reporter_lives_with_its_producer_and_gets_the_last_metrics() -> None:
    reporter = Reporter()
    with simulated_with(mine=reporter) as simulation:
        assert reporter.events == ["start"]
        for _ in range(5):
            simulation.producer.send("t", b"value")
        simulation.producer.close()
        simulation.producer.close()

    assert reporter.events == ["start", "close"]
    assert reporter.sent() == 5


@pytest.mark.rule("producer.reporters")
def test_an_error_of_a_reporter_is_logged_and_affects_nothing_more(caplog: pytest.LogCaptureFixture) -> None:
    first, wrong, rude, last = Reporter(), FailsAtItsStart(), FailsAtItsEnd(), Reporter()
    with simulated_with(first=first, wrong=wrong, rude=rude, last=last) as simulation:
        simulation.producer.send("t", b"value")
        assert simulation.producer.close().acknowledged == 1

    assert first.events == rude.events == last.events == ["start", "close"]
    assert wrong.events == ["start"]
    assert caplog.messages == [
        "the wrong cannot be started; the producer continues without it: no such server",
        "the rude failed to close",
    ]


def test_a_producer_closed_in_a_callback_closes_its_reporters() -> None:
    reporter = Reporter()
    with simulated_with(mine=reporter) as simulation:
        simulation.producer.send("t", b"value", on_delivery=lambda _delivery: simulation.producer.close())
        simulation.run_until_idle()
        assert reporter.events == ["start"]
        simulation.thread.join(20.0)

        assert reporter.events == ["start", "close"]


def test_a_dropped_producer_closes_its_reporters() -> None:
    reporter = Reporter()
    simulation = Simulated(1, plugins={"reporters": {"mine": reporter}})
    simulation.producer.send("t", b"value")
    del simulation.producer
    simulation.thread.join(20.0)

    assert reporter.events == ["start", "close"]
    assert reporter.sent() == 1


PLUGIN = """
    from ottla.hookspecs import hookimpl
    from ottla.interfaces import ConfigKey

    class ToFile:
        def __init__(self, path):
            self._path = path

        def start(self, registry):
            self._registry = registry

        def close(self):
            sent = {str(n): v for n, v in self._registry.snapshot().items() if n.name == "record-send-total"}
            with open(self._path, "w") as file:
                file.write(str(sum(sent.values())))

    @hookimpl
    def ottla_config_keys():
        return [
            ConfigKey(name="acme.file", type=str, default="", meaning="where to"),
            ConfigKey(name="acme.password", type=str, default="", meaning="a secret", secret=True),
        ]

    @hookimpl
    def ottla_reporter(config):
        return ToFile(config["acme.file"])

    class Stamp:
        def on_send(self, topic, key, value, headers):
            return key, value, (*headers, ("stamp", b"1"))

        def on_acknowledgement(self, metadata, error):
            pass

    @hookimpl
    def ottla_interceptor(config):
        return Stamp()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a reporter and an interceptor, both named acme."""
    (tmp_path / "acme_observers.py").write_text(textwrap.dedent(PLUGIN))
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    groups = "".join(f"[ottla.{kind}s]\nacme = acme_observers\n" for kind in ("reporter", "interceptor"))
    (info / "entry_points.txt").write_text(groups)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("acme_observers")
    yield tmp_path
    del sys.modules["acme_observers"]


@pytest.mark.rule("producer.reporters", "producer.send.interceptors")
def test_interceptors_and_reporters_are_plugins_with_their_own_keys(installed: Path) -> None:
    reported = installed / "reported"
    with MockProducer({"acme.file": str(reported)}, metric_reporters="ACME", interceptor_classes=["acme"]) as producer:
        producer.send("t", b"value")
        assert producer.history[0].headers == (("stamp", b"1"),)

    assert json.loads(reported.read_text()) == 2.0  # of the producer, and of its topic


def test_a_log_line_names_the_package(installed: Path, caplog: pytest.LogCaptureFixture) -> None:
    MockProducer({"acme.file": str(installed)}, metric_reporters="acme").close()

    assert caplog.messages == ["the reporter 'acme' of acme 1.0 (acme_observers) failed to close"]


def test_a_wrong_key_of_a_reporter_is_refused_with_the_nearest(installed: Path) -> None:
    with pytest.raises(ConfigError, match=r"acme\.fil.*acme\.file"):
        Producer({"acme.fil": "x"}, bootstrap_servers="localhost:9", metric_reporters="acme")
