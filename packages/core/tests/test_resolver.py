"""Names become addresses without keeping the thread that asks."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import NameResolutionError
from ottla.network.selector.resolver import Resolver
from ottla.network.selector_interface import Address
from ottla_testkit.manual_clock import ManualClock

HANG_GUARD = 20.0


class Asked:
    """A resolver and the moments at which it says that an answer is there."""

    def __init__(self, environment: Environment = SYSTEM) -> None:
        self.woken = threading.Event()
        self.resolver = Resolver(self.woken.set, environment)

    def answer(self, host: str, *, canonical: bool = False) -> Sequence[Address]:
        self.woken.clear()
        assert self.resolver.resolve(host, 9092, canonical=canonical) is None
        assert self.woken.wait(HANG_GUARD)
        found = self.resolver.resolve(host, 9092, canonical=canonical)
        assert found is not None
        return found


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.mark.rule("selector.names.digits")
@pytest.mark.parametrize(("digits", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_a_numeric_address_is_resolved_at_once(asked: Asked, digits: str, family: int) -> None:
    addresses = asked.resolver.resolve(digits, 9092, canonical=False)

    assert addresses is not None
    assert [(address.host, address.target.family, address.target.sockaddr[:2]) for address in addresses] == [
        (digits, family, (digits, 9092))
    ]
    assert not asked.woken.is_set()


@pytest.mark.rule("selector.names.all")
def test_a_lookup_returns_later_all_addresses_and_the_canonical_name(asked: Asked) -> None:
    addresses = asked.answer("localhost")

    expected = {entry[4] for entry in socket.getaddrinfo("localhost", 9092, type=socket.SOCK_STREAM)}
    assert {address.target.sockaddr for address in addresses} == expected
    assert {address.host for address in addresses} == {"localhost"}
    assert len(addresses) == len(expected)


@pytest.mark.rule("selector.names.uncached")
def test_each_lookup_asks_the_system_again(asked: Asked) -> None:
    assert asked.answer("localhost") == asked.answer("localhost")


@pytest.mark.rule("selector.names.uncached")
@pytest.mark.parametrize(("age", "is_used"), [(599.0, True), (601.0, False)])
def test_a_result_that_no_connection_wanted_for_long_is_not_used(age: float, is_used: bool) -> None:
    clock = ManualClock()
    lookups: list[Callable[[], object]] = []

    def hold(run: Callable[[], object], _name: str) -> Any:
        return SimpleNamespace(start=lambda: lookups.append(run))

    resolver = Resolver(lambda: None, attrs.evolve(SYSTEM, thread=hold, clock=clock))
    assert resolver.resolve("localhost", 9092, canonical=False) is None
    clock.advance(1_000.0)  # a slow lookup
    lookups[0]()
    clock.advance(age)

    found = resolver.resolve("localhost", 9092, canonical=False)
    assert (found is not None, len(lookups)) == ((True, 1) if is_used else (False, 2))
    if not is_used:
        lookups[1]()
        assert resolver.resolve("localhost", 9092, canonical=False)


def test_repeated_requests_during_a_lookup_start_no_second_one() -> None:
    lookups: list[Callable[[], object]] = []

    def hold(run: Callable[[], object], name: str) -> threading.Thread:
        lookups.append(run)
        return threading.Thread(target=lambda: None, name=name)

    resolver = Resolver(lambda: None, attrs.evolve(SYSTEM, thread=hold))
    answers = [resolver.resolve("localhost", 9092, canonical=False) for _ in range(5)]

    assert answers == [None] * 5
    assert len(lookups) == 1


@pytest.mark.rule("selector.names.canonical")
def test_a_canonical_name_replaces_the_requested_one(asked: Asked) -> None:
    addresses = asked.answer("127.0.0.1", canonical=True)

    name, _service = socket.getnameinfo(("127.0.0.1", 9092), socket.NI_NUMERICSERV)
    assert [address.host for address in addresses] == [name]
    assert addresses[0].target.sockaddr == ("127.0.0.1", 9092)


@pytest.mark.rule("selector.names.unknown")
@pytest.mark.parametrize("name", ["no-such-broker.invalid", "a..b", "x" * 70 + ".invalid"])
def test_a_name_without_an_address_is_an_error_that_names_it(asked: Asked, name: str) -> None:
    with pytest.raises(NameResolutionError, match=r"has no address.*bootstrap\.servers") as caught:
        asked.answer(name)

    assert repr(name) in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("error", [ZeroDivisionError("boom"), SystemExit("boom")])
def test_a_library_that_replaces_getaddrinfo_and_fails_is_an_error(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(NameResolutionError, match=rf"could not be resolved: {type(error).__name__}: boom$"):
        asked.answer("localhost")


def test_without_a_thread_the_error_does_not_blame_the_name() -> None:
    def refuse(*_arguments: object) -> threading.Thread:
        raise RuntimeError("can't start new thread")

    resolver = Resolver(lambda: None, attrs.evolve(SYSTEM, thread=refuse))
    with pytest.raises(
        NameResolutionError, match=r"'kafka-1' could not be resolved: .*can't start new thread"
    ) as caught:
        resolver.resolve("kafka-1", 9092, canonical=False)

    assert "bootstrap.servers" not in str(caught.value)
    assert not caught.value.final


def test_the_codec_that_lookups_need_is_imported_before_the_first() -> None:
    """A codec that could not be imported, without file descriptors for instance, is missing for ever."""
    program = "import ottla.network.selector.resolver, sys; sys.exit('encodings.idna' not in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.rule("selector.names.aside")
def test_the_thread_of_a_lookup_ends_with_it() -> None:
    threads: list[threading.Thread] = []

    def make(run: Callable[[], object], name: str) -> threading.Thread:
        threads.append(threading.Thread(target=run, name=name, daemon=True))
        return threads[-1]

    asked = Asked(attrs.evolve(SYSTEM, thread=make))
    asked.answer("localhost")

    [thread] = threads
    thread.join(HANG_GUARD)
    assert not thread.is_alive()


@pytest.mark.rule("selector.names.aside")
def test_a_slow_lookup_delays_no_other_name(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    held, released = threading.Event(), threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: str, *arguments: Any, **options: Any) -> Any:
        if host == "slow.example" and not options.get("flags"):
            held.set()
            released.wait(HANG_GUARD)
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    assert asked.resolver.resolve("slow.example", 9092, canonical=False) is None
    assert held.wait(HANG_GUARD)

    assert asked.answer("localhost")
    assert not released.is_set()
    released.set()


def test_a_failed_lookup_of_a_canonical_name_is_an_error(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> tuple[str, str]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getnameinfo", fail)

    with pytest.raises(NameResolutionError, match="try again") as caught:
        asked.answer("127.0.0.1", canonical=True)
    assert not caught.value.final


@pytest.mark.rule("selector.names.port")
@pytest.mark.parametrize("port", [0, -1, 65_536, 65_536 + 9092, 2**31 - 1])
def test_an_invalid_port_is_refused_and_never_truncated(asked: Asked, port: int) -> None:
    with pytest.raises(NameResolutionError, match=f"could not be resolved: {port} is not a port$"):
        asked.resolver.resolve("127.0.0.1", port, canonical=False)


@pytest.mark.rule("selector.names.digits")
def test_a_link_local_address_keeps_its_scope(asked: Asked) -> None:
    [loopback] = [number for number, name in socket.if_nameindex() if name == "lo"] or [1]

    addresses = asked.resolver.resolve(f"fe80::1%{loopback}", 9092, canonical=False)

    assert addresses is not None
    assert addresses[0].target.sockaddr[3] == loopback


def test_name_servers_that_do_not_answer_are_named_in_the_error(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_given: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(
        NameResolutionError, match=r"could not be resolved: .*name resolution; check this machine's name servers, and"
    ) as info:
        asked.answer("kafka")

    assert not info.value.final


def test_a_resolver_that_returns_no_address_is_an_error_of_the_name(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Libraries that replace getaddrinfo may do so; the system's raises an error."""
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_given, **_options: [])
    with pytest.raises(
        NameResolutionError, match=r"'kafka' could not be resolved: .*the resolver returned no address"
    ) as info:
        asked.answer("kafka")

    assert not info.value.final
