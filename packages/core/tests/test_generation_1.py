"""Third-party plugins that were written for the first generation of each contract load, and work.

The packages in `generation_1` are examples and templates as they were published with that generation; their hooks take
no context.
"""

from __future__ import annotations

import importlib
import pathlib
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Final

import pytest

from ottla import MetricName
from ottla.interfaces import TopicView
from ottla.plugins.registry import KINDS, KindName, Registry, make_alone
from ottla_testkit.mock_producer import MockProducer
from ottla_transport_plaintext import PlaintextTransport

PACKAGES: Final = pathlib.Path(__file__).with_name("generation_1")
KIND_OF: Final[Mapping[str, KindName]] = {
    "generation_1_authenticator": "authenticator",
    "generation_1_authenticator_msk_iam": "authenticator",
    "generation_1_compressor": "compressor",
    "generation_1_interceptor": "interceptor",
    "generation_1_partitioner": "partitioner",
    "generation_1_reporter": "reporter",
    "generation_1_reporter_prometheus": "reporter",
    "generation_1_serializer": "serializer",
    "generation_1_transport": "transport",
    "generation_1_transport_socks5": "transport",
    "generation_1_transport_unix": "transport",
}
NEEDS: Final[Mapping[str, Mapping[str, Any]]] = {
    "generation_1_authenticator": {"former.user": "ann", "former.token": "secret"},
    "generation_1_authenticator_msk_iam": {"aws.msk.access.key.id": "A", "aws.msk.secret.access.key": "S"},
    "generation_1_transport_socks5": {"socks5.proxy": "127.0.0.1:1080"},
    "generation_1_transport_unix": {"unix.path": "/tmp/relay"},
}
"""The settings without which a package's plugin cannot be made."""


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """All packages, importable."""
    folder = tmp_path_factory.mktemp("generation_1")
    for source in PACKAGES.glob("*/*.in"):
        target = folder / source.parent.name / source.name.removesuffix(".in")
        target.parent.mkdir(exist_ok=True)
        shutil.copy(source, target)
    info = folder / "former-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: former\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ottla.interceptors]\nformer = generation_1_interceptor.plugin\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
        for name in [name for name in sys.modules if name.startswith("generation_1_")]:
            del sys.modules[name]


def made(package: str) -> Any:
    """The object of a package's plugin, made as for a producer."""
    kind = KIND_OF[package]
    entries = [
        EntryPoint("former", f"{package}.plugin", KINDS[kind].group),
        EntryPoint("plaintext", "ottla_transport_plaintext.plugin", KINDS["transport"].group),
    ]
    registry = Registry(entries)
    return make_alone(registry.plugin(kind, "former"), NEEDS.get(package, {}), registry=registry)


def test_every_package_is_tried() -> None:
    assert sorted(KIND_OF) == sorted(path.name for path in PACKAGES.iterdir() if path.is_dir())


@pytest.mark.parametrize("package", KIND_OF)
def test_a_plugin_of_the_first_generation_is_loaded_and_made(package: str) -> None:
    plugin_made = made(package)

    assert plugin_made is not None
    assert not hasattr(importlib.import_module(f"{package}.plugin"), "ottla_spec")


def test_a_former_partitioner_chooses_partitions() -> None:
    view = TopicView(partitions=3, available=range(3), queued_bytes=[0, 0, 0])

    assert made("generation_1_partitioner").partition("t", b"key", view) in range(3)


def test_a_former_compressor_takes_a_level() -> None:
    compressor = made("generation_1_compressor")

    for level in (None, 3):
        assert compressor.decompress(compressor.compress([b"text" * 9], level=level), limit=100) == b"text" * 9


def test_a_former_serializer_makes_bytes() -> None:
    assert isinstance(made("generation_1_serializer").serialize("t", "text", ()), bytes)


@pytest.mark.parametrize("package", ["generation_1_transport", "generation_1_transport_unix"])
def test_a_former_transport_opens_a_layer(package: str) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        layer = made(package).open(ours, "broker", 9092)
        assert layer.handshake()
        assert layer.write([b"one", b"two"]) == 6
        assert layer.flush()
        assert theirs.recv(10) == b"onetwo"
        layer.close()


def test_a_former_proxy_gets_the_transport_behind_it() -> None:
    transport = made("generation_1_transport_socks5")

    assert isinstance(transport._inner, PlaintextTransport)
    assert transport.targets("broker", 9092)[0].sockaddr[:2] == ("127.0.0.1", 1080)


@pytest.mark.parametrize("package", ["generation_1_authenticator", "generation_1_authenticator_msk_iam"])
def test_a_former_mechanism_begins_a_login(package: str) -> None:
    mechanism = made(package)

    assert isinstance(mechanism.name, str)
    assert mechanism.authenticator("b-1.kafka.eu-west-1.amazonaws.com", 9098) is not None


@pytest.mark.parametrize("package", ["generation_1_reporter", "generation_1_reporter_prometheus"])
def test_a_former_reporter_is_started_and_closed_with_metrics(package: str) -> None:
    reporter = made(package)
    with MockProducer(client_id="shop") as producer:
        values = producer._engine.metric_values
        reporter.start(values)
        producer.send("t", b"value")
        reporter.close()

        assert MetricName("producer-metrics", "record-send-total", (("client-id", "shop"),)) in values.snapshot()


def test_a_former_interceptor_sees_the_records_of_a_producer() -> None:
    with MockProducer({"former.source": "shop"}, interceptor_classes="former") as producer:
        producer.send("t", b"value")
        [record] = producer.history

    assert record.value == b"value"
    assert b"shop" in dict(record.headers).values()
