"""Plugins that the program gives as objects, classes and functions: made, checked, named and closed."""

from __future__ import annotations

import asyncio
import functools
import threading
import zlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest

from ottla import ConfigError, DeliveryReport, Producer, check_config, doctor, per_process
from ottla.aio import AsyncProducer
from ottla.aio import per_process as async_per_process
from ottla.errors import InvalidPluginError, OttlaError
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Header, PluginContext, ProducerRecord, TopicView
from ottla.plugins.compressors.gzip import Gzip
from ottla.plugins.config_references import read_draft
from ottla.plugins.partitioners.round_robin import RoundRobin
from ottla.plugins.registry import Registry
from ottla.plugins.selection import Plugins, choose
from ottla.plugins.serializers.json import JsonSerializer
from ottla.plugins.transports.chain import TransportChain
from ottla.recordbatch.objects import ObjectEncoder
from ottla_testkit.conformance import PartitionerConformance
from ottla_testkit.mock_producer import MockProducer
from ottla_transport_plaintext.plugin import PlaintextTransport
from third_party_mechanism import Plain

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}
HERE = __name__


class Crc:
    """A partitioner by checksum, which counts how often it is closed."""

    made: ClassVar[list[Crc]] = []

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.closed = 0
        self.made.append(self)

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return zlib.crc32(key or b"", self.seed) % view.partitions

    def close(self) -> None:
        self.closed += 1

    def __repr__(self) -> str:
        return "hunter2"


def crc(topic: str, key: bytes | None, view: TopicView) -> int:
    return zlib.crc32(key or b"") % view.partitions


class Observer:
    """An interceptor, a reporter, and a serializer: each call of it is noted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.calls.append("on_send")
        return record

    def on_acknowledgement(self, metadata: Any, error: Exception | None, context: Any) -> None:
        self.calls.append("on_acknowledgement")

    def start(self, metrics: Any) -> None:
        self.calls.append("start")

    def close(self) -> None:
        self.calls.append("close")

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        return f"{topic}: {data} {dict(headers)}".encode()


class Wrapper(PlaintextTransport):
    """A transport that gets the one of security.protocol."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


class Contextual(Crc):
    """A partitioner that needs the context."""

    def __init__(self, context: PluginContext) -> None:
        super().__init__()
        self.context = context


class Provider:
    def get(self, path: str, keys: frozenset[str]) -> Mapping[str, str]:
        return {key: f"{path}{key}-of-the-vault" for key in keys}


class Hooked:
    """A plugin as an entry point has it: a hook, and keys."""

    @hookimpl
    def ottla_config_keys(self) -> Sequence[ConfigKey]:
        return [ConfigKey(name="crc.seed", type=int, default=0, meaning="the first checksum")]

    @hookimpl
    def ottla_partitioner(self, config: Mapping[str, Any]) -> Crc:
        return Crc(config["crc.seed"])


class TakesMore:
    def partition(self, t: str, k: bytes | None, v: Any, extra: int) -> int:
        return extra


class Unfit:
    def partition(self, topic: str, key: bytes | None) -> int:
        return 0


class Fails:
    def __init__(self) -> None:
        raise LookupError("no such table")


def chosen(**settings: Any) -> Plugins:
    """The plugins of a producer with these settings."""
    registry = Registry()
    return choose(read_draft(SERVERS, settings, registry=registry), registry)[1]


def refusal(**settings: Any) -> str:
    with pytest.raises(OttlaError) as caught:
        check_config(SERVERS, **settings)
    return str(caught.value)


def partition(partitioner: Any, key: bytes) -> int:
    with MockProducer(partitions=8, partitioner_class=partitioner) as producer:
        return producer.send("orders", b"", key=key).result(timeout=30).partition


@pytest.mark.parametrize(
    "given",
    [Crc(), Crc, functools.partial(Crc, 0), crc, Hooked, Hooked(), lambda topic, key, view: crc(topic, key, view)],
)
def test_a_partitioner_may_be_an_object_a_class_or_a_function(given: Any) -> None:
    for key in (b"a", b"b", b"c"):
        assert partition(given, key) == zlib.crc32(key) % 8


def test_a_partial_gives_a_class_its_arguments() -> None:
    assert partition(functools.partial(Crc, seed=7), b"a") == zlib.crc32(b"a", 7) % 8


def test_every_setting_that_names_a_plugin_takes_an_object() -> None:
    given: dict[str, Any] = {
        "sasl_mechanism": Plain(),
        "connection_via": PlaintextTransport(),
        "partitioner_class": RoundRobin(),
        "compression_type": Gzip(5),
        "key_serializer": JsonSerializer(),
        "value_serializer": Observer(),
        "record_encoder": ObjectEncoder(),
        "metric_reporters": Observer(),
        "interceptor_classes": [Observer()],
    }
    plugins = chosen(security_protocol="SASL_PLAINTEXT", **given)

    assert plugins.mechanism is given["sasl_mechanism"]
    assert isinstance(plugins.transport, TransportChain)
    assert plugins.transport.links[0] is given["connection_via"]
    assert plugins.partitioner is given["partitioner_class"]
    assert plugins.compressor is given["compression_type"]
    assert plugins.key_serializer is given["key_serializer"]
    assert plugins.value_serializer is given["value_serializer"]
    assert plugins.encoder is given["record_encoder"]
    assert list(plugins.reporters.values()) == [given["metric_reporters"]]
    assert list(plugins.interceptors.values()) == given["interceptor_classes"]


def test_every_setting_that_names_a_plugin_takes_a_class() -> None:
    plugins = chosen(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=Plain,
        connection_via=[PlaintextTransport],
        partitioner_class=RoundRobin,
        compression_type=functools.partial(Gzip, 5),
        key_serializer=JsonSerializer,
        value_serializer=Observer,
        record_encoder=ObjectEncoder,
        metric_reporters=[Observer],
        interceptor_classes=Observer,
    )

    assert isinstance(plugins.mechanism, Plain)
    assert isinstance(plugins.compressor, Gzip)
    assert isinstance(plugins.key_serializer, JsonSerializer)
    assert isinstance(plugins.value_serializer, Observer)
    assert [type(each) for each in (*plugins.reporters.values(), *plugins.interceptors.values())] == [Observer] * 2


def test_a_producer_closes_what_it_made_and_leaves_an_object_open() -> None:
    Crc.made.clear()
    mine = Crc()
    for given in (mine, Crc, functools.partial(Crc, 1), mine):
        Producer(SERVERS, partitioner_class=given).close()
    check_config(SERVERS, partitioner_class=mine)

    assert [each.closed for each in Crc.made] == [0, 1, 1]


def test_a_reporter_object_is_started_and_closed_with_its_producer() -> None:
    reporter = Observer()
    Producer(SERVERS, metric_reporters=reporter).close()

    assert reporter.calls == ["start", "close"]


def test_a_class_gets_the_arguments_of_the_hook_that_it_requires() -> None:
    partitioner = chosen(partitioner_class=Contextual, client_id="shop").partitioner
    assert isinstance(partitioner, Contextual)
    assert partitioner.context.client_id == "shop"
    assert partitioner.context.logger.name == f"ottla.plugin.partitioner.{HERE}.contextual"


def test_a_transport_class_that_requires_inner_wraps_the_protocols() -> None:
    transport = chosen(connection_via=Wrapper).transport

    assert isinstance(transport, Wrapper)
    assert isinstance(transport.inner, PlaintextTransport)


def test_a_given_module_has_keys_like_an_entry_point() -> None:
    module = ModuleType("priority")
    module.ottla_config_keys = Hooked().ottla_config_keys  # type: ignore[attr-defined]
    module.ottla_partitioner = Hooked().ottla_partitioner  # type: ignore[attr-defined]
    with MockProducer({"crc.seed": "7"}, partitioner_class=module) as producer:
        assert producer.config["partitioner.class"] == "priority"
        assert producer.config["crc.seed"] == "7"
    assert "crc.seed='x': invalid literal" in refusal(partitioner_class=module, **{"crc.seed": "x"})


def test_a_serializer_object_gets_topic_and_headers() -> None:
    with MockProducer(value_serializer=Observer(), key_serializer=str.encode) as producer:
        producer.send("orders", 5, key="k", headers={"a": b"1"}).result(timeout=30)

        [record] = producer.history
        assert (record.key, record.value) == (b"k", b"orders: 5 {'a': b'1'}")


def test_interceptors_of_one_class_are_several() -> None:
    first, second = Observer(), Observer()
    with MockProducer(interceptor_classes=[first, second]) as producer:
        producer.send("orders", b"").result(timeout=30)
        assert producer.config["interceptor.classes"] == (f"{HERE}.Observer", f"{HERE}.Observer")

    assert first.calls == second.calls == ["on_send", "on_acknowledgement"]


def test_a_config_provider_may_be_an_object() -> None:
    given = {"config.providers": "vault", "config.providers.vault.class": Provider(), "client.id": "${vault:a/:name}"}
    registry = Registry()
    config, _plugins = choose(read_draft(SERVERS | given, registry=registry), registry)

    assert config.connection.client_id == "a/name-of-the-vault"


def test_config_and_reprs_name_the_class_and_show_no_repr_of_it() -> None:
    with MockProducer({"partitioner.class": Crc()}, value_serializer=str.encode) as producer:
        shown = [repr(producer), repr(producer.config), str(dict(producer.config))]

        assert producer.config["partitioner.class"] == f"{HERE}.Crc"
        assert producer.config["value.serializer"] == "builtins.str.encode"
        assert producer.config.source("partitioner.class") == "given"
        assert all(f"{HERE}.Crc" in text for text in shown)
        assert not any("hunter2" in text for text in shown)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Unfit(), "Unfit cannot be used: the object is an Unfit, whose partition lacks the argument view; the call is"),
        (Unfit, "Unfit cannot be used: the class returned an Unfit, whose partition lacks the argument view"),
        (Observer(), "the object is an Observer, which is not a Partitioner: it lacks partition"),
        (Fails, "Fails cannot be used: the class raised LookupError: no such table; correct it, or use another"),
        (Wrapper, "the class requires the argument inner, and a producer passes only context; give an object, or a "),
        (
            TakesMore(),
            "is a TakesMore, whose partition requires the argument extra; the call is partition(topic, key, ",
        ),
        (lambda topic, key: 0, "the function is used as a Partitioner, whose partition lacks the argument view"),
        (lambda key, all_partitions, available: 0, "are those of a partitioner of kafka-python or aiokafka (key, all_"),
        (5, "partitioner.class: 5 is not the name of a partitioner plugin, a partitioner, its class, or a function"),
        (b"crc", "partitioner.class: b'crc' is not the name of a partitioner plugin"),
        ("<shop.Crc object at 0x7fab>", "is the text of a Python object, not a plugin: where settings are only text"),
        (threading, "partitioner threading has no hook for its kind; it must implement ottla_partitioner"),
    ],
)
def test_an_unfit_partitioner_is_refused_with_the_reason(given: Any, reason: str) -> None:
    assert reason in refusal(partitioner_class=given)


async def _later(value: Any) -> bytes:
    return b""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (_later, "_later cannot be used: it only makes a generator or a coroutine; write it without yield and async"),
        (lambda value, context: b"", "it cannot be called with one argument, the key or the value; a serializer that"),
    ],
)
def test_an_unfit_serializer_is_refused_with_the_reason(given: Any, reason: str) -> None:
    assert reason in refusal(value_serializer=given)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (lambda: Crc, "the function returned the class Crc, not an object"),
        ([Observer, Observer], "Observer is named twice"),
        ([Observer(), 5], "interceptor.classes: 5 is not a plugin's name"),
    ],
)
def test_an_unfit_interceptor_is_refused_with_the_reason(given: Any, reason: str) -> None:
    assert reason in refusal(interceptor_classes=given)


@pytest.mark.parametrize(
    ("spec", "remedy"),
    [
        (3, "upgrade ottla, or write it for one of these: `ottla_spec = 2`"),
        (0, "write it for one of these: `ottla_spec = 2`"),
        ("2", "write it for one of these: `ottla_spec = 2`"),
        (2.5, "write it for one of these: `ottla_spec = 2`"),
    ],
)
def test_an_object_of_an_unknown_generation_is_refused(spec: Any, remedy: str) -> None:
    class Stated(Observer):
        ottla_spec = spec

    said = f"is made for hook specs {spec!r}, but this version of ottla supports 1 and 2; {remedy}"
    for given in (Stated, Stated()):
        refused = refusal(interceptor_classes=[given])

        assert said in refused
        assert "the program" not in refused


def test_all_plugins_that_do_not_fit_are_in_one_error() -> None:
    given: dict[str, Any] = {"partitioner_class": Unfit(), "value_serializer": 5, "key_serializer": _later}
    said = refusal(linger_ms="x", **given)

    assert all(part in said for part in ("linger.ms: 'x'", "value.serializer: 5", "_later cannot be used"))


def test_a_mock_of_an_interface_is_a_plugin() -> None:
    assert chosen(interceptor_classes=MagicMock(spec=Observer)).interceptors


def test_a_fault_of_an_object_names_its_class() -> None:
    def beyond(topic: str, key: bytes | None, view: TopicView) -> int:
        return view.partitions

    with MockProducer(partitioner_class=beyond) as producer, pytest.raises(InvalidPluginError) as caught:
        producer.send("orders", b"", key=b"k")
    assert f"partitioner {HERE}.test_a_fault_of_an_object_names_its_class.<locals>.beyond" in str(caught.value)


@pytest.mark.parametrize("taker", [per_process, async_per_process])
@pytest.mark.parametrize(
    "settings",
    [{"partitioner.class": Crc()}, {"interceptor.classes": [Observer, Observer()]}, {"value.serializer": Observer()}],
)
def test_an_object_is_refused_for_a_producer_of_each_process(taker: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="is an object, of which each process would have a copy"):
        taker(SERVERS | settings)
    with pytest.raises(ConfigError, match=r"give the class, or functools\.partial"):
        taker(SERVERS, **{key.replace(".", "_"): value for key, value in settings.items()})


def test_a_plugin_that_is_none_fits_a_producer_of_each_process() -> None:
    """As of a program whose own option for it was not given."""
    settings = SERVERS | {"partitioner.class": None}
    producer = per_process(settings, value_serializer=None)
    assert isinstance(producer(), Producer)
    producer.close()

    async def of_a_loop() -> None:
        producer = async_per_process(settings, value_serializer=None)
        assert isinstance(producer(), AsyncProducer)
        await producer.close()

    asyncio.run(of_a_loop())


def test_of_each_process_a_producer_never_made_has_an_empty_report() -> None:
    assert per_process(SERVERS).close() == DeliveryReport({})
    assert asyncio.run(async_per_process(SERVERS).close()) == DeliveryReport({})


def test_classes_and_functions_fit_a_producer_of_each_process() -> None:
    given = {"interceptor.classes": [Observer], "value.serializer": str.encode, "partitioner.class": "round_robin"}
    producer = per_process(SERVERS | given, key_serializer=Observer)
    try:
        assert producer().config["key.serializer"] == f"{HERE}.Observer"
    finally:
        producer.close()


def test_the_doctor_names_a_given_transport() -> None:
    examination = doctor.examine(SERVERS | {"connection.via": PlaintextTransport()})
    said = examination.findings[0].message

    assert f"transport {PlaintextTransport.__module__}.PlaintextTransport of the program" in said


class TestCrc(PartitionerConformance):
    """The suite takes the same object that a producer does."""

    keys_decide = True

    @pytest.fixture
    def partitioner(self) -> Crc:
        return Crc()


def test_an_object_of_code_that_exec_runs_is_no_plain_data() -> None:
    code = "class Mine:\n    def serialize(self, topic, data, headers):\n        return data.encode()"
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["Mine"].__module__ == "builtins"
    producer = MockProducer(value_serializer=names["Mine"]())
    producer.send("t", "text")

    assert [record.value for record in producer.history] == [b"text"]
