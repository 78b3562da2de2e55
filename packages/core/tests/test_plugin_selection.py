"""The plugins of a configuration: all problems are collected before the first plugin is created, in a fixed order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from ottla import check_config
from ottla.accumulator.sealing import Sealer
from ottla.errors import ConfigError, InvalidPluginError, PluginNotFoundError
from ottla.errors.plugin_origin import origin_of
from ottla.hookspecs import hookimpl
from ottla.plugins.compressors import gzip
from ottla.plugins.config_references import read_draft
from ottla.plugins.partitioners import round_robin
from ottla.plugins.registry import KINDS, Registry
from ottla.plugins.selection import Plugins, choose
from ottla.plugins.serializers import json
from ottla.plugins.transports.chain import TransportChain
from ottla.recordbatch import objects
from ottla_transport_plaintext import plugin as plaintext
from plugin_site import Site, plugin_site
from third_party_mechanism import Plain

site = plugin_site

created: list[str] = []
"""The plugins that were created, in order."""

SETTINGS = {
    "bootstrap.servers": "127.0.0.1:9",
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
}


class Observer:
    """A reporter and an interceptor."""

    def __init__(self) -> None:
        self.start = self.close = self.on_send = self.on_acknowledgement = lambda *_: None


class Hooks:
    """A plugin of every kind; each hook is noted when it is called."""

    @hookimpl
    def ottla_transport(self, inner: Any) -> Any:
        created.append("transport" if inner is None else "connection_via")
        return plaintext.PlaintextTransport()

    @hookimpl
    def ottla_authenticator(self) -> Any:
        created.append("mechanism")
        return Plain()

    @hookimpl
    def ottla_partitioner(self) -> Any:
        created.append("partitioner")
        return round_robin.RoundRobin()

    @hookimpl
    def ottla_compressor(self) -> Any:
        created.append("compressor")
        return gzip.Gzip(5)

    @hookimpl
    def ottla_encoder(self) -> Any:
        created.append("encoder")
        return objects.ObjectEncoder()

    @hookimpl
    def ottla_serializer(self, is_key: bool) -> Any:
        created.append("key_serializer" if is_key else "value_serializer")
        return json.JsonSerializer()

    @hookimpl
    def ottla_reporter(self) -> Any:
        created.append("reporter")
        return Observer()

    @hookimpl
    def ottla_interceptor(self) -> Any:
        created.append("interceptor")
        return Observer()


@pytest.fixture(autouse=True)
def nothing_created() -> Iterator[None]:
    created.clear()
    yield
    created.clear()


def chosen(settings: dict[str, Any]) -> Plugins:
    """The plugins for these settings, of which `mine` and `plaintext` are all that is installed."""
    entries = [EntryPoint("mine", f"{__name__}:Hooks", kind.group) for kind in KINDS.values()]
    registry = Registry([*entries, EntryPoint("plaintext", f"{__name__}:Hooks", KINDS["transport"].group)])
    return choose(read_draft(settings, registry=registry), registry)[1]


def test_plugins_are_created_in_the_documented_order() -> None:
    plugins = chosen(SETTINGS)

    assert created == [
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
    assert list(plugins.reporters) == [f"reporter 'mine' of an unnamed distribution ({__name__}:Hooks)"]


def test_every_key_takes_the_package_with_the_name(site: Site) -> None:
    groups = "".join(f"[{kind.group}]\nmine = {__name__}:Hooks\n" for kind in KINDS.values())
    for dist in ("acme", "rival"):
        site.install_metadata(dist, groups)
    qualified = {key: value.replace("mine", "acme:mine") for key, value in SETTINGS.items()}
    registry = Registry()

    plugins = choose(read_draft(qualified, registry=registry), registry)[1]
    assert [name.split(" (")[0] for name in plugins.interceptors] == ["interceptor 'mine' of acme 1.0"]
    assert len(created) == len(SETTINGS) - 2
    with pytest.raises(ConfigError) as caught:
        choose(read_draft(SETTINGS, registry=registry), registry)
    assert len(caught.value.problems) == len(SETTINGS) - 2
    assert all("is named 'mine'; write acme:mine or rival:mine" in problem for problem in caught.value.problems)


def test_a_table_format_takes_the_package_with_the_name(site: Site) -> None:
    for dist in ("acme", "rival"):
        site.install_metadata(dist, f"[ottla.serializers]\nmine = {__name__}:Hooks\n")
    registry = Registry()
    formats = choose(read_draft({"bootstrap.servers": "127.0.0.1:9"}, registry=registry), registry)[1].value_formats

    assert formats.of("rival:mine")
    with pytest.raises(InvalidPluginError, match="write acme:mine or rival:mine"):
        formats.of("mine")


def test_no_plugin_is_created_while_a_problem_is_left() -> None:
    with pytest.raises(PluginNotFoundError, match="no interceptor is named 'none'"):
        chosen({**SETTINGS, "interceptor.classes": "none"})

    assert created == []


def test_problems_are_reported_in_the_order_of_the_requests() -> None:
    named = ("sasl.mechanism", "connection.via", "partitioner.class", "compression.type", "key.serializer")
    more = ("value.serializer", "record.encoder", "metric.reporters", "interceptor.classes")
    missing = {key: f"no-{number}" for number, key in enumerate((*named, *more))}

    with pytest.raises(ConfigError) as caught:
        chosen({**SETTINGS, **missing, "linger.ms": -1})

    first, *rest = caught.value.problems
    assert "linger.ms" in first
    assert all(f"'{name}'" in problem.lower() for name, problem in zip(missing.values(), rest, strict=True))


# Chains of transports


class Link(plaintext.PlaintextTransport):
    """A transport of a chain, and its inner one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    @hookimpl
    def ottla_transport(self, inner: Any) -> Any:
        return Link(inner)


class SocketLink:
    """A transport that is made for sockets only."""

    @hookimpl
    def ottla_transport(self, inner: Any) -> Any:
        return self if inner is None else SocketLink()

    def targets(self, host: str, port: int) -> None:
        return None

    def open(self, sock: Any, host: str, port: int) -> Any:
        raise NotImplementedError


def chained(via: object, *, plain: str = "Hooks") -> Plugins:
    """The plugins with transports named `near`, `far` and `bare`, which takes only sockets."""
    entries = [
        EntryPoint(name, f"{__name__}:{made}", KINDS["transport"].group)
        for name, made in (("near", "NEAR"), ("far", "FAR"), ("bare", "SocketLink"), ("plaintext", plain))
    ]
    registry = Registry(
        [
            *entries,
            EntryPoint("murmur2", "ottla.plugins.partitioners.murmur2", KINDS["partitioner"].group),
            EntryPoint("python", "ottla.recordbatch.objects", KINDS["encoder"].group),
        ]
    )
    settings = {"bootstrap.servers": "127.0.0.1:9", "connection.via": via, "record.encoder": "python"}
    return choose(read_draft(settings, registry=registry), registry)[1]


NEAR = Link(None)
FAR = Link(None)


def test_one_transport_to_go_through_gets_the_one_of_the_protocol() -> None:
    transport = chained("near").transport

    assert isinstance(transport, Link)
    assert isinstance(transport.inner, plaintext.PlaintextTransport)


@pytest.mark.parametrize("via", ["near, far", ["near", "FAR"], ("bare", "near", "far")])
def test_several_transports_to_go_through_are_a_chain(via: object) -> None:
    assert isinstance(chained(via).transport, TransportChain)


def test_a_transport_of_security_protocol_is_a_link_even_if_it_is_alone() -> None:
    transport = chained("plaintext").transport

    assert isinstance(transport, TransportChain)
    assert len(transport.links) == 2


def test_an_error_of_a_chain_names_each_of_its_plugins() -> None:
    plugins = chained("near, far")
    name = origin_of("transport", plugins.transport).name

    assert name.startswith("chain of transport 'near' of an unnamed distribution")
    assert "transport 'far' of" in name
    assert "transport 'plaintext' of" in name


@pytest.mark.parametrize(
    ("via", "plain", "named"),
    [
        ("near,bare", "Hooks", "the transport 'bare' of an unnamed distribution"),
        ("near,far", "SocketLink", "the transport of security.protocol"),
    ],
)
def test_a_transport_for_sockets_only_is_refused_after_another(via: str, plain: str, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        chained(via, plain=plain)

    assert f"connection.via={via}: {named}" in str(caught.value)
    assert "takes only a socket" in str(caught.value)


def test_a_transport_to_go_through_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="named 2 times, as near and near; leave one"):
        chained("near, near")


class Leveled:
    """A compressor of another package, which notes the level of each call."""

    def __init__(self, codec_id: int) -> None:
        self.codec_id = codec_id
        self.levels: list[int | None] = []

    def compress(self, chunks: Any, *, level: int | None) -> bytes:
        self.levels.append(level)
        return b"".join(chunks)

    def decompress(self, buffer: Any, *, limit: int) -> bytes:
        return bytes(buffer)


CODECS = [(1, "gzip", 9), (3, "lz4", 17), (4, "zstd", -5)]


@pytest.mark.parametrize(("codec_id", "codec", "level"), CODECS)
def test_a_compressor_gets_the_level_set_with_kafkas_key_of_its_codec(codec_id: int, codec: str, level: int) -> None:
    compressor = Leveled(codec_id)
    plugins = chosen_with(compressor, {f"compression.{codec}.level": level})
    Sealer(plugins.compressor, level=plugins.compression_level).seal_columns(some_columns(plugins))

    assert compressor.levels == [level]


def test_a_compressor_gets_no_level_of_another_codec() -> None:
    compressor = Leveled(4)
    plugins = chosen_with(compressor, {"compression.gzip.level": 9})
    Sealer(plugins.compressor, level=plugins.compression_level).seal_columns(some_columns(plugins))

    assert compressor.levels == [None]


def test_a_built_in_codec_is_made_without_a_level_and_takes_any() -> None:
    plain = [bytes(range(256)) * 200]

    assert len(gzip.Gzip().compress(plain, level=1)) > len(gzip.Gzip().compress(plain, level=9))
    assert gzip.Gzip().compress(plain) == gzip.Gzip().compress(plain, level=-1)


def chosen_with(compressor: Leveled, settings: dict[str, Any]) -> Plugins:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gzip, "Gzip", lambda _level: compressor)
        return chosen({**SETTINGS, **settings})


def some_columns(plugins: Plugins) -> Any:
    columns = plugins.columns(1000)
    columns.append(None, b"value", (), 0)
    return columns


@pytest.mark.parametrize(("codec", "library"), [("lz4", "lz4"), ("snappy", "cramjam"), ("zstd", "zstandard")])
def test_a_missing_library_of_a_codec_is_listed_with_other_problems(
    codec: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    missing = f'compression.type={codec} needs the library {library}; try: pip install "ottla[{codec}]"'
    given = {"bootstrap.servers": "127.0.0.1:9", "compression.type": codec}

    with pytest.raises(PluginNotFoundError) as alone:
        check_config(given)
    with pytest.raises(ConfigError) as listed:
        check_config({**given, "linger.ms": "soon"})

    assert str(alone.value) == missing
    assert listed.value.problems == ("linger.ms: 'soon' is not a whole number of at least 0", missing)


def test_an_adjusted_setting_is_logged_with_the_client_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "ottla.config")

    check_config({"bootstrap.servers": "127.0.0.1:9", "client.id": "shop", "request.timeout.ms": 200_000})

    assert caplog.messages[0].startswith("shop: delivery.timeout.ms is 200005 instead of 120000, because")
