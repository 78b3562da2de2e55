"""A peer that sends key updates without end, by OpenSSL's library: Python's `ssl` cannot send any."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import trustme

from ottla.errors import ConnectionFailedError
from ottla_transport_ssl import TlsLayer
from ottla_transport_ssl.tls_stream import MAX_QUEUED, MAX_WITHOUT_DATA, RECEIVE
from tls_peers import HANG_GUARD, read, readable, transport, until

LIBRARY: Final = ctypes.util.find_library("ssl")
UPDATE_REQUESTED: Final = 1
RECORD: Final = 30
"""Bytes of an update, and some more."""

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="there is no library of OpenSSL")


class Updates:
    """A server that sends updates on one connection until that ends, with a byte of data after each *every*."""

    def __init__(self, certificate: Path, *, every: int | None, reads: bool) -> None:
        self._library = ctypes.CDLL(str(LIBRARY))
        for name in ("TLS_server_method", "SSL_CTX_new", "SSL_new"):
            getattr(self._library, name).restype = ctypes.c_void_p
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._certificate, self._every, self._reads = certificate, every, reads
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(HANG_GUARD)
        self._listener.close()
        assert not self._thread.is_alive()
        assert self.problems == []

    def _serve(self) -> None:
        sock, _address = self._listener.accept()
        with sock:
            sock.setblocking(True)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection = self._shaken(sock)
            reader = threading.Thread(target=self._read, args=(sock,))
            if self._reads:
                reader.start()
            self._send(connection)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            if self._reads:
                reader.join(HANG_GUARD)

    def _shaken(self, sock: socket.socket) -> ctypes.c_void_p:
        library, file = self._library, str(self._certificate).encode()
        context = ctypes.c_void_p(library.SSL_CTX_new(ctypes.c_void_p(library.TLS_server_method())))
        library.SSL_CTX_use_certificate_chain_file(context, file)
        library.SSL_CTX_use_PrivateKey_file(context, file, 1)
        connection = ctypes.c_void_p(library.SSL_new(context))
        library.SSL_set_fd(connection, sock.fileno())
        if library.SSL_accept(connection) != 1:
            self.problems.append("the handshake failed")
        return connection

    def _send(self, connection: ctypes.c_void_p) -> None:
        sent = 0
        while True:
            sent += 1
            if self._every is not None and sent % self._every == 0 and self._library.SSL_write(connection, b"x", 1) < 1:
                return
            self._library.SSL_key_update(connection, UPDATE_REQUESTED)
            if self._library.SSL_do_handshake(connection) != 1:
                return

    def _read(self, sock: socket.socket) -> None:
        try:
            while sock.recv(65536):
                pass
        except OSError:
            return


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, server_certificate: trustme.LeafCert, tmp_path: Path, trusting: Mapping[str, Any]
) -> Iterator[TlsLayer]:
    """A layer that has shaken hands with the server of the test."""
    file = tmp_path / "server.pem"
    server_certificate.private_key_and_cert_chain_pem.write_to_path(str(file))
    server = Updates(file, **request.param)
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sock.setblocking(False)
    layer = transport(trusting).open(sock, "localhost", server.port)
    until(layer.handshake, lambda: readable(sock) if not layer.handshake() else None)
    assert isinstance(layer, TlsLayer)
    yield layer
    layer.close()
    sock.close()
    server.join()


@pytest.mark.parametrize(
    "opened",
    [{"every": None, "reads": False}, {"every": None, "reads": True}, {"every": 1000, "reads": False}],
    ids=["no data", "no data, and answers are read", "some data"],
    indirect=True,
)
def test_endless_key_updates_end_the_connection_within_bounds(opened: TlsLayer) -> None:
    pulled: list[int] = []
    pull = opened._pull

    def counting() -> bytes | None:
        received = pull()
        pulled.append(len(received or b""))
        return received

    opened._pull = counting  # type: ignore[method-assign]

    def turn() -> None:
        pulled.clear()
        if read(opened) is None and not opened.may_read():
            readable(opened._sock)
        opened.interest()
        assert sum(pulled) <= 3 * RECEIVE
        assert opened._outgoing.pending + len(opened._unsent) <= MAX_QUEUED + RECEIVE + RECORD
        assert opened._without_data <= MAX_WITHOUT_DATA + 3 * RECEIVE

    with pytest.raises(ConnectionFailedError, match="sends too many messages of TLS itself"):
        until(lambda: False, turn)
