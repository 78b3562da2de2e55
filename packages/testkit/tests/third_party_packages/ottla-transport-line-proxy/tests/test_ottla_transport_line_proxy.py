"""Tests that the transport meets all requirements, and its own promises."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ottla import ConfigError, OttlaError, Producer, check_config
from ottla.errors import ConnectionFailedError
from ottla.interfaces import HostTarget, Secret, Transport
from ottla_transport_plaintext import PlaintextTransport

from ottla_transport_line_proxy import LineProxyTransport
from ottla_transport_line_proxy.conformance import LineProxyConformance
from ottla_transport_line_proxy.negotiation import LONGEST_REASON, negotiation
from ottla_transport_line_proxy.plugin import ADDRESS, TOKEN, ottla_config_keys, ottla_transport

WORD = "t0ken-of-the-tests"
HERE = Path(__file__).parent
API_VERSIONS = b"\x00\x12"
"""The key of the request that a producer begins with, behind four bytes of length."""


def made_by_its_hook(token: str = WORD) -> Transport:
    config = {ADDRESS: HostTarget("localhost", 9000), TOKEN: Secret(token)}
    return ottla_transport(config=config, inner=PlaintextTransport())


class TestLineProxy(LineProxyConformance):
    @pytest.fixture
    def transport(self) -> Transport:
        return made_by_its_hook(self.settings[TOKEN])


def hear(answer: bytes, *, host: str = "kafka", token: str = WORD) -> tuple[bytes, bytes]:
    """Negotiate with a proxy that gives this answer; return the request, and what is left of the answer."""
    turns = negotiation(host, 9092, token=Secret(token), proxy="the line proxy")
    turn = next(turns)
    said = turn.send
    while True:
        heard, answer = answer[: turn.receive], answer[turn.receive :]
        assert len(heard) == turn.receive, "it wants to hear more than there is"
        try:
            turn = turns.send(heard)
        except StopIteration:
            return said, answer
        said += turn.send


def test_the_request_is_one_line_and_the_next_byte_is_the_brokers() -> None:
    assert hear(b"OK\nNO") == (b"CONNECT kafka 9092 t0ken-of-the-tests\n", b"NO")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"NO such broker\n", "refused kafka:9092: .such broker.; check line.proxy.token"),
        (b"NO\n", "refused kafka:9092: without a reason"),
        (b"NO \n", "refused kafka:9092: without a reason"),
        (b"NO \xff\x1b[2J\n", r"\\x1b"),
        (b"NO " + b"x" * 5000, "too long"),
        (b"HTTP/1.1 400", "is no line proxy.*connection.via=ssl,line-proxy"),
        (b"NOT\n", "is no line proxy"),
        (b"OK ", "is no line proxy"),
    ],
)
def test_other_answers_are_errors(answer: bytes, message: str) -> None:
    with pytest.raises(ConnectionFailedError, match=message) as raised:
        hear(answer)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("padding", range(LONGEST_REASON - len(WORD) - 5, LONGEST_REASON + 2))
def test_a_proxy_that_repeats_the_token_does_not_betray_it(padding: int) -> None:
    for answer in (f"NO {WORD} is wrong\n", f"NO {'x' * padding}{WORD}\n"):
        with pytest.raises(ConnectionFailedError) as raised:
            hear(answer.encode())
        assert WORD[:4] not in str(raised.value)


@pytest.mark.parametrize("host", ["kafka 1 word\nCONNECT", "a b", "a\r", "", "\ud800", "." * 70 + "ö"])
def test_a_host_cannot_add_words_to_the_request(host: str) -> None:
    with pytest.raises(ConnectionFailedError, match="cannot be requested from a line proxy"):
        hear(b"OK\n", host=host)


def test_a_host_that_is_not_ascii() -> None:
    assert hear(b"OK\n", host="bücher.example")[0].startswith(b"CONNECT xn--bcher-kva.example ")


class Proxy:
    """A line proxy in a thread, with the first bytes that each broker's connection gets; perhaps reached by TLS."""

    def __init__(self, *, outer_tls: bool, inner_tls: bool) -> None:
        self.requests: list[str] = []
        self.heard: list[bytes] = []
        self.arrived = threading.Event()
        self._outer_tls, self._inner_tls = outer_tls, inner_tls
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                sock, _address = self._server.accept()
            except OSError:
                return
            sock.settimeout(5)
            try:
                with sock:
                    self._serve(sock)
            except OSError:
                continue

    def _serve(self, sock: socket.socket) -> None:
        outer, inner = (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
        outer.load_cert_chain(HERE / "localhost.pem")
        inner.load_cert_chain(HERE / "broker.internal.pem")
        below = Bytes(outer if self._outer_tls else None, recv=lambda: sock.recv(65536), send=sock.sendall)
        line = b""
        while not line.endswith(b"\n"):
            line += below.read(1)
        self.requests.append(line.decode())
        if line.split()[-1] != WORD.encode():
            below.write(b"NO wrong token " + line.split()[-1] + b"\n")
            return
        below.write(b"OK\n")
        broker = Bytes(inner if self._inner_tls else None, recv=lambda: below.read(65536), send=below.write)
        self.heard.append(broker.read(6))
        self.arrived.set()

    def close(self) -> None:
        self._server.close()


class Bytes:
    """Reads and writes over any two functions, with TLS if there is a context."""

    def __init__(self, context: ssl.SSLContext | None, *, recv: Any, send: Any) -> None:
        self._recv, self._send, self._plain = recv, send, b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context and context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        if self._tls:
            self._do(self._tls.do_handshake)

    def _do(self, function: Any, *arguments: Any) -> Any:
        while True:
            try:
                result = function(*arguments)
            except ssl.SSLWantReadError:
                self._send(self._outgoing.read())
                if not (data := self._recv()):
                    raise ConnectionError from None
                self._incoming.write(data)
            else:
                self._send(self._outgoing.read())
                return result

    def read(self, count: int) -> bytes:
        """At most as many bytes."""
        if self._tls:
            return bytes(self._do(self._tls.read, count))
        if not self._plain and not (data := self._recv()):
            raise ConnectionError
        self._plain = self._plain or data
        result, self._plain = self._plain[:count], self._plain[count:]
        return result

    def write(self, data: bytes) -> None:
        if self._tls:
            self._do(self._tls.write, data)
        else:
            self._send(data)


def settings(port: int, **others: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": "broker.internal:9092",
        "connection.via": "line-proxy",
        ADDRESS: f"localhost:{port}",
        TOKEN: WORD,
        "max.block.ms": 3000,
        **others,
    }


def send_until_refused(given: dict[str, Any]) -> OttlaError:
    """Send a record, which fails because no broker answers."""
    with Producer(given) as producer, pytest.raises(OttlaError) as raised:
        producer.send("orders", b"value")
    return raised.value


@pytest.fixture(params=[(False, False), (False, True), (True, False), (True, True)], ids=str)
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    outer_tls, inner_tls = request.param
    made = Proxy(outer_tls=outer_tls, inner_tls=inner_tls)
    yield made
    made.close()


def test_producers_reach_brokers_through_it_with_tls_above_and_below(
    proxy: Proxy, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    outer_tls, inner_tls = request.node.callspec.params["proxy"]
    tls = {"ssl.truststore.location": str(HERE / "authority.pem")} if outer_tls or inner_tls else {}
    given = settings(proxy.port, **{"max.block.ms": 1500}, **tls)
    given["connection.via"] = "ssl,line-proxy" if outer_tls else "line-proxy"
    given["security.protocol"] = "SSL" if inner_tls else "PLAINTEXT"

    error = send_until_refused(given)

    assert WORD not in f"{error} {error!r} {caplog.text}"
    assert proxy.requests[0] == f"CONNECT broker.internal 9092 {WORD}\n"
    assert proxy.heard[0][4:6] == API_VERSIONS


def test_a_refusal_reaches_the_user_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    proxy = Proxy(outer_tls=False, inner_tls=False)
    wrong = "an-0ther-token"
    with caplog.at_level(logging.DEBUG):
        error = send_until_refused(settings(proxy.port, **{TOKEN: wrong}))
    proxy.close()

    assert proxy.requests[0].endswith(f" {wrong}\n")
    reported = f"{error} {error!r} {error.__cause__!r} {caplog.text}"
    assert "wrong token" in reported
    assert "check line.proxy.token" in reported
    assert wrong not in reported


def test_every_connection_goes_to_the_proxy() -> None:
    assert made_by_its_hook().targets("kafka", 9092) == [HostTarget("localhost", 9000)]


def test_the_token_is_a_secret() -> None:
    [_address, key] = ottla_config_keys()

    assert key.secret
    assert WORD not in repr(key.type(WORD))


@pytest.mark.parametrize("wrong", ["", "two words", "one\nline", "tökén", 7])
def test_a_value_that_is_no_token_is_refused_without_telling_it(wrong: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        check_config(settings(9000, **{TOKEN: wrong}))

    assert TOKEN in str(raised.value)
    assert not wrong or str(wrong) not in str(raised.value)


def test_both_keys_are_needed() -> None:
    with pytest.raises(ConfigError, match=re.compile(f"{ADDRESS}.*{TOKEN}", re.DOTALL)):
        check_config({"bootstrap.servers": "kafka:9092", "connection.via": "line-proxy"})


@pytest.mark.parametrize(
    ("written", "meant"),
    [("proxy:9000", HostTarget("proxy", 9000)), (" [::1]:1 ", HostTarget("::1", 1))],
)
def test_an_address_is_a_host_and_a_port(written: str, meant: HostTarget) -> None:
    assert ottla_config_keys()[0].type(written) == meant


@pytest.mark.parametrize("wrong", ["", "proxy", ":9000", "proxy:", "proxy:0", "proxy:65536", "proxy:x"])
def test_what_is_no_address_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        ottla_config_keys()[0].type(wrong)


def test_as_security_protocol_it_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"connection\.via=line-proxy"):
        ottla_transport(config={ADDRESS: None, TOKEN: None}, inner=None)


def test_its_repr_has_no_token() -> None:
    transport = made_by_its_hook()

    assert isinstance(transport, LineProxyTransport)
    assert WORD not in f"{transport!r} {vars(transport)}"
