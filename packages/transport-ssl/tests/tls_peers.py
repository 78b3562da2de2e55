"""The other end of a connection: a server's half of TLS that a test moves by hand, without any thread."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from ottla.config import ConfigDraft
from ottla.plugins.registry import Registry
from ottla_transport_ssl import TlsLayer, TlsTransport

HANG_GUARD = 20.0


class Peer:
    """A server on a socket of ours. `step` does what can be done now; `got` is the plaintext that has come."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext) -> None:
        sock.setblocking(False)
        self.sock = sock
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._unsent = b""
        self.ready = False
        self.ended = False
        self.said_goodbye = False
        self.error: ssl.SSLError | None = None
        self.got = bytearray()

    def step(self) -> None:
        self.step_without_sending()
        self.push()

    def step_without_sending(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while data := self.sock.recv(65536):
                self._incoming.write(data)
            self._incoming.write_eof()
        self._go_on()

    def receive(self, size: int) -> None:
        """So many bytes of ciphertext, and no more: the socket stays as full as it was otherwise."""
        with contextlib.suppress(BlockingIOError):
            self._incoming.write(self.sock.recv(size))
        self._go_on()

    def _go_on(self) -> None:
        try:
            if not self.ready:
                self.tls.do_handshake()
                self.ready = True
            while data := self.tls.read(65536):
                self.got += data
            self.ended = self.said_goodbye = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLEOFError:
            self.ended = True
        except ssl.SSLError as error:
            self.error = self.error or error

    def push(self) -> None:
        """Send what is there to be sent."""
        self._unsent += self._outgoing.read()
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._unsent = self._unsent[self.sock.send(self._unsent) :]

    def say(self, data: bytes) -> None:
        self.tls.write(data)
        self.push()

    def take_outgoing(self) -> bytes:
        """The bytes to send next, for a test that sends them in its own way."""
        unsent, self._unsent = self._unsent + self._outgoing.read(), b""
        return unsent

    def say_goodbye(self) -> None:
        with contextlib.suppress(ssl.SSLError):
            self.tls.unwrap()
        self.push()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection on this machine; ours does not block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _address = listener.accept()
    ours.setblocking(False)
    theirs.settimeout(HANG_GUARD)
    return ours, theirs


def transport(settings: Mapping[str, Any]) -> TlsTransport:
    """The layer of a producer with these settings."""
    draft = ConfigDraft.read({"bootstrap.servers": "localhost:9093", "security.protocol": "SSL", **settings})
    plugin = Registry().plugin("transport", "ssl")
    values = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish()
    made = plugin.create(values, inner=None)
    assert isinstance(made, TlsTransport)
    return made


def shake(layer: TlsLayer, peer: Peer) -> None:
    """Both through the handshake."""
    shaken = False

    def go_on() -> None:
        nonlocal shaken
        shaken = shaken or layer.handshake()

    until(lambda: shaken and peer.ready, peer.step, go_on)


def until(done: Callable[[], bool], *turns: Callable[[], object]) -> None:
    """Take turns until it is done; a test that hangs fails."""
    deadline = time.monotonic() + HANG_GUARD
    while not done():
        for turn in turns:
            turn()
        assert time.monotonic() < deadline, "this takes too long"


def readable(sock: socket.socket) -> None:
    """Wait until there is something to read, or the end."""
    assert select.select([sock], [], [], HANG_GUARD)[0], "nothing comes"


def read(layer: TlsLayer, size: int = 65536) -> bytes | None:
    """One read."""
    buffer = bytearray(size)
    got = layer.read_into(memoryview(buffer))
    return None if got is None else bytes(buffer[:got])


def read_all(layer: TlsLayer, size: int, *turns: Callable[[], object]) -> bytes:
    """So many bytes."""
    got = bytearray()

    def go_on() -> None:
        got.extend(read(layer) or b"")

    until(lambda: len(got) >= size, *turns, go_on)
    return bytes(got)
