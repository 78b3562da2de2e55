"""The plugin as the core sees it: found by name, its keys checked, its targets those of the proxy."""

from __future__ import annotations

from typing import Any

import pytest

from ottla import check_config
from ottla.errors import ConfigError
from ottla.interfaces import HostTarget, Transport
from ottla.plugins.registry import Registry
from ottla_transport_plaintext import PlaintextTransport

GOOD = {
    "bootstrap.servers": "kafka:9092",
    "connection.via": "http-connect",
    "http.connect.proxy": "proxy.example.com:3128",
}


def problem(**changes: Any) -> str:
    """The error for a configuration with these keys changed."""
    with pytest.raises(ConfigError) as caught:
        check_config(GOOD | {f"http.connect.{key}": value for key, value in changes.items()})
    return str(caught.value)


def made(proxy: str) -> Transport:
    """The transport for a proxy, as the core makes it."""
    plugin = Registry().plugin("transport", "http-connect")
    address = plugin.config_keys()[0].type(proxy)
    config = {"http.connect.proxy": address, "http.connect.username": None, "http.connect.password": None}
    transport: Transport = plugin.create(config, inner=PlaintextTransport())
    return transport


def test_the_proxy_is_the_only_required_key() -> None:
    check_config(GOOD)
    check_config(GOOD | {"http.connect.username": "alice", "http.connect.password": "secret"})
    check_config(GOOD | {"connection.via": "ssl,http-connect"})


@pytest.mark.parametrize(
    ("proxy", "target"),
    [
        ("proxy.example.com:3128", HostTarget("proxy.example.com", 3128)),
        (" http://proxy:1/ ", HostTarget("proxy", 1)),
        ("[::1]:65535", HostTarget("::1", 65535)),
    ],
)
def test_every_broker_is_reached_through_the_proxy(proxy: str, target: HostTarget) -> None:
    transport = made(proxy)

    assert transport.targets("kafka", 9092) == [target]
    assert transport.targets("another", 9093) == [target]


@pytest.mark.parametrize(
    "written", ["", "proxy", "proxy:", ":1", "proxy:0", "proxy:65536", "ftp://proxy:1", "a@proxy:1", "::1:1"]
)
def test_a_proxy_that_is_not_an_address_is_refused_with_the_right_form(written: str) -> None:
    assert "write host:port, such as proxy.example.com:3128" in problem(proxy=written)


def test_a_proxy_behind_tls_is_refused_with_the_chain_to_set() -> None:
    assert "set connection.via=ssl,http-connect" in problem(proxy="https://proxy:3129")


def test_a_proxy_is_required() -> None:
    assert "connection.via=http-connect needs http.connect.proxy, as host:port" in problem(proxy=None)


@pytest.mark.parametrize("half", [{"username": "alice"}, {"password": "secret"}])
def test_a_user_without_a_password_or_the_reverse_is_refused(half: dict[str, str]) -> None:
    message = problem(**half)

    assert "http.connect.username and http.connect.password go together" in message
    assert "secret" not in message


@pytest.mark.parametrize("written", ["a:b", "", "a\nb"])
def test_a_user_name_that_a_request_cannot_hold_is_refused(written: str) -> None:
    assert "http.connect.username" in problem(username=written, password="secret")


def test_the_password_is_a_secret() -> None:
    keys = Registry().plugin("transport", "http-connect").config_keys()

    assert [key.name for key in keys if key.secret] == ["http.connect.password"]


def test_the_plugin_is_not_available_as_a_security_protocol() -> None:
    with pytest.raises(ConfigError, match=r"set connection\.via=http-connect"):
        Registry().plugin("transport", "http-connect").create({}, inner=None)
