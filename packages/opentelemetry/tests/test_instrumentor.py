"""`OttlaInstrumentor`: producers get the plugins without a change of the program."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.instrumentation.auto_instrumentation._load import _load_instrumentors
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from ottla import ConfigError, Producer
from ottla.aio import AsyncProducer
from ottla.config.key_names import merge
from ottla.interfaces import Secret
from ottla_opentelemetry import OpenTelemetryReporter, TracingInterceptor
from ottla_opentelemetry.instrumentor import OttlaInstrumentor, with_plugins

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def instrumentor() -> Iterator[OttlaInstrumentor]:
    made = OttlaInstrumentor()
    yield made
    if made.is_instrumented_by_opentelemetry:
        made.uninstrument()


def plugins_of(producer: Producer) -> list[type]:
    plugins = producer._engine.plugins
    return [type(each) for each in (*plugins.interceptors.values(), *plugins.reporters.values())]


def test_an_instrumented_producer_has_both_plugins(instrumentor: OttlaInstrumentor) -> None:
    original = Producer.__init__
    instrumentor.instrument(tracer_provider=TracerProvider(), meter_provider=MeterProvider())
    with Producer(NOWHERE) as producer:
        assert plugins_of(producer) == [TracingInterceptor, OpenTelemetryReporter]
    instrumentor.uninstrument()
    with Producer(NOWHERE) as producer:
        assert plugins_of(producer) == []
    assert Producer.__init__ is original


def test_the_wrapper_of_another_library_outlives_the_instrumentation(
    instrumentor: OttlaInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "__init__", Producer.__init__)  # undone in the end
    instrumentor.instrument()
    ours, made = Producer.__init__, list[Producer]()

    def of_another_library(self: Producer, *settings: Any, **keywords: Any) -> None:
        ours(self, *settings, **keywords)
        made.append(self)

    Producer.__init__ = of_another_library  # type: ignore[method-assign]
    instrumentor.uninstrument()

    with Producer(NOWHERE) as producer:
        assert plugins_of(producer) == []
    assert made == [producer]


@pytest.mark.parametrize(
    ("options", "expected"), [({"traces": False}, [OpenTelemetryReporter]), ({"metrics": False}, [TracingInterceptor])]
)
def test_one_of_the_two_can_be_left_out(
    instrumentor: OttlaInstrumentor, options: dict[str, Any], expected: list[type]
) -> None:
    instrumentor.instrument(**options)
    with Producer(NOWHERE) as producer:
        assert plugins_of(producer) == expected


async def asynchronous() -> list[type]:
    async with AsyncProducer(NOWHERE) as producer:
        return plugins_of(producer._producer)


def test_an_asynchronous_producer_is_instrumented_too(instrumentor: OttlaInstrumentor) -> None:
    import asyncio

    instrumentor.instrument()

    assert asyncio.run(asynchronous()) == [TracingInterceptor, OpenTelemetryReporter]


def test_log_lines_name_the_place_in_the_program(instrumentor: OttlaInstrumentor) -> None:
    instrumentor.instrument()
    with Producer(NOWHERE) as producer:
        assert "test_instrumentor.py:" in producer._lifecycle._name


@pytest.mark.parametrize(
    ("config", "keywords", "named"),
    [
        ({}, {}, []),
        ({"interceptor.classes": "mask, trace"}, {}, ["mask", "trace"]),
        ({"interceptor.classes": ["mask"]}, {}, ["mask"]),
        ({"interceptor.classes": len}, {}, [len]),
        ({"interceptor.classes": None}, {}, []),
        ({}, {"interceptor_classes": ("mask",)}, ["mask"]),
        ({}, {"interceptor.classes": ["mask"]}, ["mask"]),
        ({"interceptor.classes": ["mask"]}, {"interceptor_classes": None}, ["mask"]),
    ],
)
def test_plugins_of_the_program_come_first(config: Any, keywords: Any, named: list[Any]) -> None:
    hidden, options = with_plugins(config, keywords, {"interceptor.classes": TracingInterceptor})

    problems: list[str] = []
    merged = merge(hidden, options, problems=problems)
    assert merged["interceptor.classes"] == [*named, TracingInterceptor]
    assert problems == []


@pytest.mark.parametrize("ours", ["opentelemetry", "ottla-opentelemetry:OpenTelemetry", TracingInterceptor])
def test_a_producer_that_names_the_plugin_gets_no_second_one(ours: Any) -> None:
    hidden, _options = with_plugins({"interceptor.classes": ours}, {}, {"interceptor.classes": TracingInterceptor})

    value = hidden["interceptor.classes"]
    assert isinstance(value, Secret)  # hidden as all settings are, and unchanged


def test_no_frame_of_an_error_has_a_plain_secret(instrumentor: OttlaInstrumentor) -> None:
    instrumentor.instrument()
    with pytest.raises(ConfigError) as caught:
        Producer(NOWHERE, sasl_password="hunter2-of-the-test", no_such_key=1)  # type: ignore[call-arg]

    frames = [frame for frame in traceback.walk_tb(caught.tb) if "ottla" in frame[0].f_globals["__name__"]]
    ours = [frame for frame, _line in frames if frame.f_globals["__name__"] != __name__]
    assert any(frame.f_globals["__name__"] == "ottla_opentelemetry.instrumentor" for frame in ours)
    assert [frame.f_code.co_name for frame in ours if "hunter2-of-the-test" in repr(frame.f_locals)] == []


def test_settings_that_are_no_mapping_are_refused_as_before(instrumentor: OttlaInstrumentor) -> None:
    instrumentor.instrument()
    with pytest.raises((ConfigError, TypeError)):
        Producer("localhost:9092")  # type: ignore[arg-type]


def test_opentelemetry_instrument_finds_the_instrumentor(instrumentor: OttlaInstrumentor) -> None:
    class Distro:
        def load_instrumentor(self, entry_point: Any, **options: Any) -> None:
            entry_point.load()().instrument(**options)

    _load_instrumentors(Distro())  # type: ignore[no-untyped-call]

    assert instrumentor.is_instrumented_by_opentelemetry


def test_a_program_under_opentelemetry_instrument_is_traced() -> None:
    program = (
        "from ottla import Producer\n"
        f"with Producer({NOWHERE!r}, max_block_ms=1) as producer:\n"
        "    print(producer.config['interceptor.classes'])\n"
    )
    instrument = str(Path(sys.executable).with_name("opentelemetry-instrument"))
    command = [instrument, sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert "TracingInterceptor" in ended.stdout
