"""Targets of a transport that are names: resolved again for each attempt, aside, and once for all that wait."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from ottla.errors import NameResolutionError
from ottla.interfaces import HostTarget, Target, TransportLayer
from ottla.network.selector import Selector
from ottla.network.selector_interface import Address
from real_selector import HANG_GUARD, Shutdown, make_selector

FIXED = Target(socket.AF_INET, ("127.0.0.9", 1080))


class ByProxy:
    """A transport that opens nothing. Its targets are those of a test, and it counts how often it is asked."""

    def __init__(self, *targets: Target | HostTarget) -> None:
        self.goes_by: Sequence[Target | HostTarget] = targets
        self.asked = 0

    def targets(self, host: str, port: int) -> Sequence[Target | HostTarget]:
        self.asked += 1
        return self.goes_by

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        raise NotImplementedError


class Names:
    """A resolver of the system for `*.proxy`: what it knows, what it was asked, and when it answers."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.asked: list[str] = []
        self.answers = threading.Event()
        self.answers.set()
        self._system = socket.getaddrinfo

    def getaddrinfo(self, host: str, port: int, **others: Any) -> Any:
        if not host.endswith(".proxy") or others.get("flags"):
            return self._system(host, port, **others)
        self.asked.append(host)
        assert self.answers.wait(HANG_GUARD)
        if host not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.known[host], port))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    names = Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    return names


@contextlib.contextmanager
def selecting(transport: ByProxy) -> Iterator[Selector]:
    selector = make_selector(transport=transport)
    with contextlib.closing(Shutdown(selector)):
        yield selector


def resolved(selector: Selector, host: str = "kafka") -> Sequence[Address]:
    """The addresses for one attempt."""
    while (found := selector.resolve(host, 9092)) is None:
        selector.poll(HANG_GUARD)
    return found


def sockaddrs(found: Sequence[Address]) -> list[Any]:
    return [address.target.sockaddr for address in found]


@pytest.mark.rule("selector.names.transport")
def test_a_proxy_that_moved_is_found_at_the_next_attempt(names: Names) -> None:
    transport = ByProxy(HostTarget("a.proxy", 1080))
    with selecting(transport) as selector:
        names.known["a.proxy"] = "127.0.0.2"
        before = resolved(selector)
        names.known["a.proxy"] = "127.0.0.3"
        after = resolved(selector)

    assert sockaddrs(before) == [("127.0.0.2", 1080)]
    assert sockaddrs(after) == [("127.0.0.3", 1080)]
    assert {address.host for address in (*before, *after)} == {"kafka"}
    assert transport.asked == 2


@pytest.mark.rule("selector.names.aside")
def test_a_slow_lookup_of_a_proxy_keeps_no_round_waiting(names: Names) -> None:
    names.answers.clear()
    with selecting(ByProxy(HostTarget("a.proxy", 1080))) as selector:
        assert selector.resolve("kafka", 9092) is None
        selector.poll(0)
        assert selector.resolve("kafka", 9092) is None
        names.answers.set()
        with pytest.raises(NameResolutionError):
            resolved(selector)


def test_one_lookup_of_a_proxy_serves_all_brokers_that_wait(names: Names) -> None:
    names.known["a.proxy"] = "127.0.0.2"
    names.answers.clear()
    brokers = [f"kafka-{number}" for number in range(30)]
    with selecting(ByProxy(HostTarget("a.proxy", 1080))) as selector:
        assert [selector.resolve(broker, 9092) for broker in brokers] == [None] * 30
        names.answers.set()
        found = [resolved(selector, broker) for broker in brokers]

    assert [sockaddrs(each) for each in found] == [[("127.0.0.2", 1080)]] * 30
    assert names.asked == ["a.proxy"]


def test_addresses_come_in_the_order_of_the_targets(names: Names) -> None:
    names.known |= {"a.proxy": "127.0.0.2", "b.proxy": "127.0.0.3"}
    transport = ByProxy(HostTarget("b.proxy", 1), FIXED, HostTarget("a.proxy", 2), HostTarget("127.0.0.4", 3))
    with selecting(transport) as selector:
        found = resolved(selector)

    assert sockaddrs(found) == [("127.0.0.3", 1), ("127.0.0.9", 1080), ("127.0.0.2", 2), ("127.0.0.4", 3)]


def test_a_target_without_an_address_is_left_out_if_another_has_one(names: Names) -> None:
    with selecting(ByProxy(HostTarget("lost.proxy", 1080), FIXED)) as selector:
        assert sockaddrs(resolved(selector)) == [("127.0.0.9", 1080)]


@pytest.mark.rule("selector.names.unknown")
def test_targets_without_any_address_are_an_error_that_names_the_first(names: Names) -> None:
    targets = (HostTarget("lost.proxy", 1080), HostTarget("gone.proxy", 1080))
    with (
        selecting(ByProxy(*targets)) as selector,
        pytest.raises(NameResolutionError, match=r"'lost.proxy:1080'.*the transport's own settings") as caught,
    ):
        resolved(selector)

    assert caught.value.final
    assert "bootstrap.servers" not in str(caught.value)


@pytest.mark.parametrize("name", [HostTarget("a b", 1080), HostTarget("127.0.0.1", 65_536), HostTarget("", 1)])
def test_a_target_that_no_host_can_have_is_refused_without_a_lookup(names: Names, name: HostTarget) -> None:
    with (
        selecting(ByProxy(name)) as selector,
        pytest.raises(NameResolutionError, match="the transport connects to"),
    ):
        selector.resolve("kafka", 9092)

    assert names.asked == []


def test_after_an_unknown_name_the_next_attempt_asks_again(names: Names) -> None:
    with selecting(ByProxy(HostTarget("a.proxy", 1080))) as selector:
        with pytest.raises(NameResolutionError):
            resolved(selector)
        names.known["a.proxy"] = "127.0.0.2"
        assert sockaddrs(resolved(selector)) == [("127.0.0.2", 1080)]
