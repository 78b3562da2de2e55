"""The plugin as the core sees it: found by name, its keys checked, its targets those of the proxy."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from ottla import check_config
from ottla.errors import ConfigError
from ottla.interfaces import HostTarget, Transport, TransportLayer
from ottla.plugins.registry import Registry
from ottla_transport_plaintext import PlaintextTransport
from ottla_transport_socks5_example import Socks5Transport

GOOD = {"bootstrap.servers": "kafka:9092", "connection.via": "socks5", "socks5.proxy": "127.0.0.1:1080"}


def problem(**changes: Any) -> str:
    """The error for a configuration with these keys changed."""
    with pytest.raises(ConfigError) as caught:
        check_config(GOOD | {f"socks5.{key}": value for key, value in changes.items()})
    return str(caught.value)


def made(proxy: str) -> Transport:
    """The transport for a proxy, as the core makes it."""
    plugin = Registry().plugin("transport", "socks5")
    config = {"socks5.proxy": plugin.config_keys()[0].type(proxy), "socks5.username": None, "socks5.password": None}
    transport: Transport = plugin.create(config, inner=PlaintextTransport())
    return transport


def test_the_plugin_is_found_by_its_connection_via_name() -> None:
    plugin = Registry().plugin("transport", "socks5")

    assert plugin.distribution == "ottla-transport-socks5-example"
    assert isinstance(made("127.0.0.1:1080"), Socks5Transport)


def test_the_plugin_has_all_attributes_of_the_contract() -> None:
    ours, theirs = socket.socketpair()
    layer = made("127.0.0.1:1080").open(ours, "kafka", 9092)

    assert isinstance(layer, TransportLayer)
    layer.close()
    theirs.close()


def test_the_proxy_is_the_only_required_key() -> None:
    check_config(GOOD)
    check_config(GOOD | {"socks5.username": "alice", "socks5.password": "secret"})


@pytest.mark.parametrize(
    ("proxy", "target"),
    [
        ("127.0.0.1:1080", HostTarget("127.0.0.1", 1080)),
        (" proxy.example.com:1 ", HostTarget("proxy.example.com", 1)),
        ("[::1]:65535", HostTarget("::1", 65535)),
    ],
)
def test_every_broker_is_reached_through_the_proxy(proxy: str, target: HostTarget) -> None:
    transport = made(proxy)

    assert transport.targets("kafka", 9092) == [target]
    assert transport.targets("another", 9093) == [target]


@pytest.mark.parametrize(
    "written",
    [
        "",
        "proxy",
        "proxy:",
        ":1080",
        "proxy:0",
        "proxy:65536",
        "proxy:x",
        "http://proxy:1",
        "a@proxy:1",
        "::1:1",
        "[::1:1",
    ],
)
def test_a_proxy_that_is_not_an_address_is_refused_with_the_right_form(written: str) -> None:
    assert "write host:port, such as proxy.example.com:1080" in problem(proxy=written)


def test_a_proxy_is_required() -> None:
    assert "connection.via=socks5 needs socks5.proxy, as host:port" in problem(proxy=None)


def test_the_password_is_a_secret() -> None:
    keys = Registry().plugin("transport", "socks5").config_keys()

    assert [key.name for key in keys if key.secret] == ["socks5.password"]


@pytest.mark.parametrize("half", [{"username": "alice"}, {"password": "secret"}])
def test_a_user_without_a_password_or_the_reverse_is_refused(half: dict[str, str]) -> None:
    message = problem(**half)

    assert "socks5.username and socks5.password go together" in message
    assert "secret" not in message


@pytest.mark.parametrize("written", ["", "ä" * 128])
def test_a_login_longer_than_255_bytes_is_refused(written: str) -> None:
    assert "1 to 255 bytes" in problem(username=written, password="secret")
    assert "socks5.password=[hidden]" in problem(username="alice", password=written)


def test_a_misspelt_key_is_refused_with_the_nearest() -> None:
    assert "socks5.username" in problem(user_name="alice")


def test_the_plugin_is_not_available_as_a_security_protocol() -> None:
    with pytest.raises(ConfigError, match=r"set connection\.via=socks5"):
        Registry().plugin("transport", "socks5").create({}, inner=None)
