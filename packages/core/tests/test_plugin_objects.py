"""The context that each plugin gets, and the end of plugins: all closed once, in the stated order."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib.metadata import EntryPoint
from types import FrameType
from typing import Any, ClassVar

import attrs
import pytest

from ottla import MetricName
from ottla.concurrency.environment import Environment
from ottla.doctor import configuration
from ottla.errors import ConfigError, InvalidPluginError
from ottla.hookspecs import hookimpl
from ottla.interfaces import PluginContext
from ottla.plugins.calls import PluginCloser
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.partitioners.round_robin import RoundRobin
from ottla.plugins.plugin_objects import PluginObjects, numbered
from ottla.plugins.registry import KINDS, Registry
from ottla.plugins.selection import Plugins, choose_plugins
from ottla.plugins.serializers.json import JsonSerializer
from ottla.producer import build as assembly
from ottla.producer import config_check
from ottla.recordbatch.objects import ObjectEncoder
from ottla.tables import sealed
from ottla.transactions.admin import connect
from ottla_testkit.manual_clock import ManualClock
from ottla_transport_plaintext.plugin import PlaintextTransport
from simulated_producer import simulated
from third_party_mechanism import Plain

SECRET = "not for the log"

SETTINGS = {
    "bootstrap.servers": "seed:9092",
    "client.id": "shop",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "mine",
    "connection.via": "mine",
    "partitioner.class": "mine",
    "compression.type": "mine",
    "key.serializer": "mine",
    "value.serializer": "mine",
    "record.encoder": "mine",
    "metric.reporters": "mine",
    "interceptor.classes": "mine",
    "config.providers": "mine",
}
IN_ORDER = [
    "config_provider",
    "transport",
    "encoder",
    "value_serializer",
    "connection_via",
    "mechanism",
    "partitioner",
    "compressor",
    "key_serializer",
    "interceptor",
    "reporter",
]

contexts: dict[str, PluginContext] = {}
"""The contexts that the hooks got, in order."""
closed: list[str] = []
"""The plugins that were closed, in order."""
broken: set[str] = set()
"""The plugins whose hooks raise."""
fail_to_close: set[str] = set()
"""The plugins whose `close` raises."""


def made(name: str, base: type[Any], context: PluginContext) -> Any:
    """An object of this class that notes its end."""
    contexts[name] = context
    if name in broken:
        raise LookupError("no such server")

    def close(self: object) -> None:
        closed.append(name)
        if name in fail_to_close:
            raise SystemExit(SECRET)

    return type(base.__name__, (base,), {"close": close})()


class Reporter:
    def start(self, registry: object) -> None:
        """Start nothing."""


class Interceptor:
    def on_send(self, topic: str, key: Any, value: Any, headers: Any) -> Any:
        """The record unchanged."""
        return key, value, headers

    def on_acknowledgement(self, metadata: object, error: object) -> None:
        """Note nothing."""


class Provider:
    def get(self, path: str, keys: object) -> Mapping[str, str]:
        """No values."""
        return {}


class Codec(Gzip):
    def __init__(self) -> None:
        super().__init__(1)


class Hooks:
    """A plugin of every kind; each hook takes a context."""

    @hookimpl
    def ottla_transport(self, context: PluginContext, inner: Any) -> Any:
        return made("transport" if inner is None else "connection_via", PlaintextTransport, context)

    @hookimpl
    def ottla_authenticator(self, context: PluginContext) -> Any:
        return made("mechanism", Plain, context)

    @hookimpl
    def ottla_partitioner(self, context: PluginContext) -> Any:
        return made("partitioner", RoundRobin, context)

    @hookimpl
    def ottla_compressor(self, context: PluginContext) -> Any:
        return made("compressor", Codec, context)

    @hookimpl
    def ottla_encoder(self, context: PluginContext) -> Any:
        return made("encoder", ObjectEncoder, context)

    @hookimpl
    def ottla_serializer(self, context: PluginContext, is_key: bool) -> Any:
        return made("key_serializer" if is_key else "value_serializer", JsonSerializer, context)

    @hookimpl
    def ottla_reporter(self, context: PluginContext) -> Any:
        return made("reporter", Reporter, context)

    @hookimpl
    def ottla_interceptor(self, context: PluginContext) -> Any:
        return made("interceptor", Interceptor, context)

    @hookimpl
    def ottla_config_provider(self, context: PluginContext) -> Any:
        return made("config_provider", Provider, context)


@pytest.fixture(autouse=True)
def _nothing_noted() -> None:
    contexts.clear()
    closed.clear()
    broken.clear()
    fail_to_close.clear()


def hooks_only() -> Registry:
    """The plugins `mine` of every kind, and `plaintext`, all of this module."""
    entries = [EntryPoint("mine", f"{__name__}:Hooks", kind.group) for kind in KINDS.values()]
    return Registry([*entries, EntryPoint("plaintext", f"{__name__}:Hooks", KINDS["transport"].group)])


def chosen(clock: Any = None, **changes: Any) -> Plugins:
    """The plugins of `SETTINGS`; None removes a setting."""
    settings = {**SETTINGS, **{name.replace("_", "."): value for name, value in changes.items()}}
    objects = PluginObjects() if clock is None else PluginObjects(clock=clock)
    given = {name: value for name, value in settings.items() if value is not None}
    return choose_plugins(given, registry=hooks_only(), objects=objects)[1]


def test_plugins_of_every_kind_get_a_context() -> None:
    clock = ManualClock(5.0)
    chosen(clock)

    assert list(contexts) == IN_ORDER
    assert {context.clock() for context in contexts.values()} == {5.0}


def test_the_metrics_of_a_plugin_are_tagged_with_the_key_that_names_it() -> None:
    plugins = chosen()
    for context in contexts.values():
        context.metrics.add_counter("calls-total", unit="calls", meaning="Calls.")
    tags = [dict(name.tags) for name, _value in plugins.objects.metrics.snapshot(("client-id", "shop"))]

    assert [(each["config"], each["class"]) for each in tags] == [
        ("config.providers", "Provider"),
        ("security.protocol", "PlaintextTransport"),
        ("record.encoder", "ObjectEncoder"),
        ("value.serializer", "JsonSerializer"),
        ("connection.via", "PlaintextTransport"),
        ("sasl.mechanism", "Plain"),
        ("partitioner.class", "RoundRobin"),
        ("compression.type", "Codec"),
        ("key.serializer", "JsonSerializer"),
        ("interceptor.classes", "Interceptor"),
        ("metric.reporters", "Reporter"),
    ]
    assert {each["plugin"] for each in tags} == {"mine", "plaintext"}


class Counting:
    """A plugin whose hook adds a metric, and may fail after that."""

    seen: ClassVar[list[MetricName]] = []

    @hookimpl
    def ottla_partitioner(self, config: Mapping[str, Any], context: PluginContext) -> Any:
        context.metrics.add_counter("calls-total", unit="calls", meaning="Calls.")
        self.seen[:] = names_of_metrics(config["objects"])
        if config["fails"]:
            raise LookupError("no such server")
        return RoundRobin()


def names_of_metrics(objects: PluginObjects) -> list[MetricName]:
    return [name for name, _value in objects.metrics.snapshot(("client-id", "shop"))]


@pytest.mark.parametrize("fails", [False, True])
def test_the_metrics_of_a_hook_appear_once_it_has_returned_its_object(fails: bool) -> None:
    kind, objects = KINDS["partitioner"], PluginObjects()
    registry = Registry([EntryPoint("counting", f"{__name__}:Counting", kind.group)])
    plugin = registry.plugin(kind.name, "counting")
    config: Any = {"objects": objects, "fails": fails}
    with nullcontext() if not fails else pytest.raises(InvalidPluginError, match="no such server"):
        objects.create(plugin, config)

    assert Counting.seen == []
    assert len(names_of_metrics(objects)) == (0 if fails else 1)


def test_the_client_id_of_a_context_is_known_once_settings_are_read() -> None:
    chosen()
    provider = contexts.pop("config_provider")

    assert provider.client_id is None
    assert {context.client_id for context in contexts.values()} == {"shop"}


def test_without_client_id_a_context_has_the_one_that_is_made_up() -> None:
    plugins = chosen(client_id=None)

    assert plugins.client_id.startswith("ottla-producer-")
    assert contexts["partitioner"].client_id == plugins.client_id


def test_the_client_id_of_a_context_is_that_of_metrics() -> None:
    with simulated(1) as simulation:
        client_id = simulation.producer._engine.plugins.client_id
        names = simulation.producer.metrics()

    assert MetricName("kafka-metrics-count", "count", (("client-id", client_id),)) in names


def test_the_logger_of_a_context_names_kind_and_plugin() -> None:
    chosen()

    assert contexts["partitioner"].logger.name == "ottla.plugin.partitioner.mine"
    assert contexts["mechanism"].logger.name == "ottla.plugin.authenticator.mine"


def test_plugins_are_closed_once_in_the_reverse_of_their_creation() -> None:
    plugins = chosen()
    for name, reporter in plugins.reporters.items():
        plugins.objects.closer.add(name, reporter, first=True)  # as when it has started
    plugins.close()
    plugins.close()

    assert closed == IN_ORDER[::-1]


def test_a_reporter_that_was_not_started_is_not_closed() -> None:
    chosen().close()

    assert "reporter" not in closed


def test_a_hook_that_fails_closes_the_plugins_before_it() -> None:
    broken.add("compressor")
    with pytest.raises(InvalidPluginError, match="no such server"):
        chosen()

    assert closed == IN_ORDER[: IN_ORDER.index("compressor")][::-1]


def test_a_wrong_setting_closes_the_config_providers() -> None:
    with pytest.raises(ConfigError):
        chosen(linger_ms="soon")

    assert closed == ["config_provider"]


def test_parts_that_cannot_be_built_close_the_plugins() -> None:
    def fail() -> Any:
        raise OSError("no file descriptor is left")

    environment = Environment(selector=fail)
    with pytest.raises(OSError, match="no file descriptor"):
        assembly.build(SETTINGS, {}, registry=hooks_only(), environment=environment)

    assert closed == IN_ORDER[-2::-1]


def test_a_checked_configuration_leaves_no_plugin_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_check, "Registry", hooks_only)
    config_check.check_config(SETTINGS)

    assert closed == IN_ORDER[-2::-1]


def test_a_producer_closes_its_plugins_after_its_last_record() -> None:
    class Late(RoundRobin):
        used_after_close = False

        def partition(self, *arguments: Any) -> int:
            self.used_after_close |= bool(closed)
            return super().partition(*arguments)

        def close(self) -> None:
            closed.append("partitioner")

    partitioner = Late()
    with simulated(1, plugins={"partitioner": partitioner}) as simulation:
        delivery = simulation.producer.send("t", b"value")
        simulation.producer.close()

        assert delivery.result(0).offset == 0
    assert closed == ["partitioner"]
    assert not partitioner.used_after_close


def test_an_object_that_two_hooks_return_is_closed_once() -> None:
    closer, one = PluginCloser(), made("twice", RoundRobin, _context())
    closer.add("first", one)
    closer.add("second", one)
    closer.close(1.0)

    assert closed == ["twice"]


def test_an_object_made_after_the_end_is_closed_immediately() -> None:
    closer = PluginCloser()
    closer.close(1.0)
    closer.add("late", made("late", RoundRobin, _context()))

    assert closed == ["late"]


@pytest.mark.parametrize(("role", "quoted"), [("compressor", True), ("mechanism", False), ("config_provider", False)])
def test_a_failing_close_is_logged_and_stops_no_other(
    role: str, quoted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    fail_to_close.add(role)
    chosen().close()

    assert closed == IN_ORDER[-2::-1]
    [message] = caplog.messages
    assert message.startswith(f"the {base_kind(role)} 'mine' of ")
    assert "failed to close" in message
    assert (SECRET in caplog.text) is quoted


def test_a_table_sealer_closes_its_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "Registry", hooks_only)
    with sealed.TableSealer({**SETTINGS, "interceptor.classes": ""}, {"t": 1}):
        assert closed == []

    assert closed[0] == "key_serializer"
    assert closed[-1] == "config_provider"


def test_blocking_requests_close_their_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "Registry", hooks_only)
    connections = connect.connect(SETTINGS)
    connections.close()

    assert closed == IN_ORDER[-2::-1]


@pytest.mark.parametrize("line", range(6))
def test_two_threads_that_ask_for_a_name_get_different_ones(line: int) -> None:
    """The trace function stands for the other thread: it asks for a name before a line of ours."""
    name_client, names, lines = numbered(f"shop-{line}"), list[str | None](), itertools.count()

    def another_thread(frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_code.co_filename == numbered.__code__.co_filename and next(lines) == line:
            names.append(name_client(None))  # is not traced itself
        return another_thread

    before = sys.gettrace()
    sys.settrace(another_thread)
    try:
        names.append(name_client(None))
    finally:
        sys.settrace(before)

    assert len(set(names)) == len(names)


def test_the_doctor_closes_its_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "Registry", hooks_only)
    steps = configuration.checked(SETTINGS, clock=ManualClock())
    next(steps)
    with pytest.raises(StopIteration) as ended:
        next(steps)
    ended.value.value.close()

    assert contexts["transport"].client_id == "ottla-doctor"
    assert closed == IN_ORDER[-2::-1]


def base_kind(role: str) -> str:
    return "authenticator" if role == "mechanism" else role


def _context() -> PluginContext:
    chosen()
    context = contexts["partitioner"]
    return attrs.evolve(context)
