"""From settings to a producer: plugins are found, problems are listed, nothing is started too early."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

import pyarrow as pa
import pytest

from ottla import check_config
from ottla.errors import ConfigError, PluginNotFoundError
from ottla.plugins.partitioners.murmur2 import Murmur2Partitioner
from ottla.plugins.partitioners.round_robin import RoundRobin
from ottla.plugins.registry import Registry
from ottla.plugins.serializers.json import JsonSerializer
from ottla.producer import build as assembly
from ottla.producer.components import Engine
from ottla_accel.json_rows import objects

SERVERS = {"bootstrap.servers": "127.0.0.1:9"}


@pytest.fixture
def built() -> Iterator[list[Engine]]:
    """Engines to be ended: their threads are not started, but their sockets are open."""
    engines: list[Engine] = []
    yield engines
    for engine in engines:
        engine.io_thread.start()
        engine.io_thread.begin_close(0)
        engine.io_thread.join(20.0)


def without(*names: str) -> Registry:
    """A registry from which these plugins are missing."""
    groups = ("transports", "authenticators", "partitioners", "compressors", "encoders", "serializers")
    found: list[EntryPoint] = [e for group in groups for e in entry_points(group=f"ottla.{group}")]
    return Registry([entry for entry in found if entry.name not in names])


def test_the_default_partitioner_is_that_of_java(built: list[Engine]) -> None:
    built.append(assembly.build(SERVERS, {}))

    assert isinstance(built[0].plugins.partitioner, Murmur2Partitioner)


def test_another_partitioner_is_chosen_by_name(built: list[Engine]) -> None:
    built.append(assembly.build(SERVERS, {"partitioner_class": "round_robin"}))

    assert isinstance(built[0].plugins.partitioner, RoundRobin)


def test_without_a_transport_the_error_says_what_to_install() -> None:
    with pytest.raises(PluginNotFoundError, match="pip install ottla-transport-plaintext"):
        assembly.build(SERVERS, {}, registry=without("plaintext"))


def test_tls_without_its_plugin_names_the_plugin_to_install() -> None:
    with pytest.raises(PluginNotFoundError, match="pip install ottla-transport-ssl"):
        assembly.build(SERVERS, {"security_protocol": "SSL"}, registry=without("ssl"))


def test_a_missing_mechanism_plugin_is_named_and_none_of_its_keys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "plain", "sasl.username": "ann"}

    with pytest.raises(
        PluginNotFoundError, match="no authenticator is named 'plain'; try: pip install ottla-authenticator"
    ):
        assembly.build(settings, {}, registry=without("PLAIN"))
    assert caplog.text == ""


def test_a_misnamed_mechanism_without_plugin_is_not_the_default() -> None:
    settings = {**SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "ssl.ca.location": "/ca.pem"}

    with pytest.raises(ConfigError) as caught:
        assembly.build(settings, {}, registry=without("ssl", "PLAIN", "GSSAPI"))

    unknown_mechanism, unknown_authority, transport, mechanism = caught.value.problems
    assert unknown_mechanism == "'sasl.mechanisms' is not a known key; did you mean 'sasl.mechanism'?"
    assert unknown_authority == "'ssl.ca.location' is not a known key; did you mean 'ssl.truststore.location'?"
    assert "pip install ottla-transport-ssl" in transport
    assert "no authenticator is named 'plain'; try: pip install ottla-authenticator-sasl" in mechanism


def test_the_default_mechanism_is_that_of_java_and_the_error_says_so() -> None:
    with pytest.raises(PluginNotFoundError, match=r"ottla-authenticator-sasl\[gssapi\].*sasl\.mechanism was left out"):
        assembly.build({**SERVERS, "security.protocol": "SASL_PLAINTEXT"}, {}, registry=without("GSSAPI"))


@pytest.mark.parametrize("gone", ["acme", "Acme", "acme-corp", "acme_corp"])
def test_keys_of_a_missing_plugin_are_accepted_and_others_are_not(gone: str) -> None:
    begin = gone.lower().replace("-", ".").replace("_", ".")
    settings = {**SERVERS, "connection.via": gone, f"{begin}.address": "gateway:1", f"{begin}.token": "secret"}

    with pytest.raises(PluginNotFoundError, match=f"no transport is named '{gone.lower()}'"):
        assembly.build(settings, {})
    with pytest.raises(ConfigError, match=r"'acmer\.address' is not a known key") as caught:
        assembly.build({**settings, "acmer.address": "gateway:1"}, {})
    assert f"'{begin}.address'" not in str(caught.value)


def test_a_mechanism_is_chosen_by_name_in_any_case(built: list[Engine]) -> None:
    settings = {**SERVERS, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "x-Plain", "x.plain.password": "p"}
    third_party = EntryPoint("X-PLAIN", "third_party_mechanism", "ottla.authenticators")
    groups = ("transports", "partitioners", "encoders")
    others = [entry for group in groups for entry in entry_points(group=f"ottla.{group}")]

    built.append(assembly.build(settings, {}, registry=Registry([third_party, *others])))


def test_without_a_login_no_mechanism_is_loaded(built: list[Engine]) -> None:
    built.append(assembly.build({**SERVERS, "sasl.mechanism": "no-such-one"}, {}))


def test_a_missing_plugin_and_a_wrong_value_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        assembly.build(SERVERS, {"linger_ms": -1, "compression_type": "brotli"}, registry=without())

    assert len(caught.value.problems) == 2
    assert "linger.ms" in caught.value.problems[0]
    assert "brotli" in caught.value.problems[1]


@pytest.mark.parametrize(
    ("key", "kind"),
    [("interceptor_classes", "interceptor"), ("metric_reporters", "reporter")],
)
def test_a_missing_interceptor_or_reporter_is_reported_like_a_plugin(key: str, kind: str) -> None:
    with pytest.raises(
        PluginNotFoundError, match=f"no {kind} is named 'mine'; install a package .* group ottla.{kind}s"
    ):
        assembly.build(SERVERS, {key: "mine"})


def test_all_missing_interceptors_and_reporters_are_reported_together() -> None:
    with pytest.raises(ConfigError) as caught:
        assembly.build(SERVERS, {"interceptor_classes": "one, two", "metric_reporters": ["three"]})

    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(("codec", "level"), [("gzip", 0), ("gzip", 10), ("lz4", 18), ("zstd", 23), ("zstd", "high")])
def test_a_level_that_the_codec_does_not_have_is_refused(codec: str, level: object) -> None:
    with pytest.raises(ConfigError, match=rf"compression\.{codec}\.level"):
        assembly.build(SERVERS, {"compression_type": codec, f"compression_{codec}_level": level})


def test_a_codec_without_levels_has_no_key_for_one() -> None:
    with pytest.raises(ConfigError, match=r"compression\.snappy\.level"):
        assembly.build({**SERVERS, "compression.type": "snappy", "compression.snappy.level": 3}, {})


def test_a_misspelt_key_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms"):
        assembly.build({**SERVERS, "linger.m": 5}, {})


def test_a_configuration_can_be_checked_without_a_producer() -> None:
    check_config(SERVERS, linger_ms=5)

    with pytest.raises(ConfigError, match=r"linger\.ms"):
        check_config(SERVERS, linger_ms=-1)
    with pytest.raises(PluginNotFoundError):
        check_config(SERVERS, security_protocol="SASL_PLAINTEXT", sasl_mechanism="NO-SUCH-ONE")


def test_a_function_may_be_a_serializer(built: list[Engine]) -> None:
    built.append(assembly.build(SERVERS, {"value_serializer": lambda data: str(data).encode()}))

    serializer = built[0].plugins.value_serializer
    assert serializer is not None
    assert serializer.serialize("t", 42, ()) == b"42"


def test_a_serializer_function_that_returns_no_bytes_is_reported(built: list[Engine]) -> None:
    built.append(assembly.build(SERVERS, {"value_serializer": str}))

    serializer = built[0].plugins.value_serializer
    assert serializer is not None
    with pytest.raises(TypeError, match="returned str, not bytes"):
        serializer.serialize("t", 42, ())


def test_a_coroutine_of_a_serializer_is_closed_and_reported(built: list[Engine]) -> None:
    """Otherwise Python warns at any later time that it was never awaited."""

    async def serialize(data: object) -> bytes:
        raise AssertionError(data)

    built.append(assembly.build(SERVERS, {"value_serializer": lambda data: serialize(data)}))
    serializer = built[0].plugins.value_serializer
    assert serializer is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="returned a coroutine, which nothing awaits; await it before send"):
            serializer.serialize("t", 42, ())
        gc.collect()


@pytest.mark.parametrize("named", ["json", "bytes"])
def test_json_uses_an_encoder_by_priority_by_name_or_for_a_table(built: list[Engine], named: str) -> None:
    built.append(assembly.build(SERVERS, {"value_serializer": named, "record_encoder": "native"}))
    built.append(assembly.build(SERVERS, {"value_serializer": named, "record_encoder": "python"}))
    column = pa.array([{"a": 1.5, "b": None}, None])

    native, python = (engine.plugins.value_formats.of("json") for engine in built)
    assert isinstance(native, JsonSerializer)
    assert isinstance(python, JsonSerializer)
    assert (native._rows is objects, python._rows) == (True, None)
    assert native.serialize_column("t", column).to_pylist() == ['{"a":1.5}', None]
    assert python.serialize_column("t", column).to_pylist() == ['{"a":1.5}', None]
