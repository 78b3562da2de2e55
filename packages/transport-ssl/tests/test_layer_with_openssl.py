"""Behaviour that Python's own server does not have, by OpenSSL's server with command line options."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla.interfaces import Interest
from ottla_transport_ssl import TlsLayer
from tls_peers import HANG_GUARD, read_all, readable, transport, until

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl command")


class OpenSslServer:
    """`openssl s_server`: what is written to it goes to the client, and a line with a command letter is obeyed."""

    def __init__(self, certificate: Path, *options: str) -> None:
        self._process = subprocess.Popen(
            ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", str(certificate), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._said = b""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        self.port = int(self.says(rb"ACCEPT .*:(\d+)")[1])

    def says(self, pattern: bytes) -> re.Match[bytes]:
        """Wait until it has printed this."""
        with self._news:
            assert self._news.wait_for(lambda: re.search(pattern, self._said), HANG_GUARD), self._said
            found = re.search(pattern, self._said)
            assert found is not None
            return found

    def type(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def end(self) -> None:
        self._process.kill()
        self._process.wait(HANG_GUARD)
        self._reader.join(HANG_GUARD)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while part := self._process.stdout.read1(4096):  # type: ignore[attr-defined]
            with self._news:
                self._said += part
                self._news.notify_all()


@pytest.fixture
def certificate_file(server_certificate: trustme.LeafCert, tmp_path: Path) -> Path:
    file = tmp_path / "server.pem"
    server_certificate.private_key_and_cert_chain_pem.write_to_path(str(file))
    return file


@pytest.fixture
def opened(request: pytest.FixtureRequest, certificate_file: Path, trusting: Mapping[str, Any]) -> Iterator[Any]:
    """The server with the options of the test, and a layer that has shaken hands with it."""
    server = OpenSslServer(certificate_file, *request.param)
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setblocking(False)
    layer = transport(trusting).open(sock, "localhost", server.port)
    until(layer.handshake, lambda: readable(sock) if not layer.handshake() else None)
    yield layer, server
    layer.close()
    server.end()


# Without tickets: one that is still on its way would look like the update.
@pytest.mark.parametrize("opened", [("-tls1_3", "-num_tickets", "0")], indirect=True)
@pytest.mark.parametrize("command", ["k", "K"])
def test_a_key_update_during_the_connection_is_followed(opened: tuple[TlsLayer, OpenSslServer], command: str) -> None:
    layer, server = opened
    layer.write([b"before\n"])
    server.says(b"before")

    server.type(command)
    readable(layer._sock)  # the update; a line that the server reads together with the command would be lost
    server.type("from the server")
    assert b"from the server" in read_all(layer, len("from the server\n"))
    layer.write([b"after\n"])
    until(layer.flush)
    server.says(b"after")


@pytest.mark.parametrize("opened", [("-tls1_2",)], indirect=True)
def test_a_renegotiation_is_refused_with_its_alert(opened: tuple[TlsLayer, OpenSslServer]) -> None:
    layer, server = opened

    server.type("r")
    readable(layer._sock)
    buffer = memoryview(bytearray(100))
    assert layer.read_into(buffer) is None
    assert layer.interest() is Interest.NONE
    server.says(b"(?i)no.renegotiation")
