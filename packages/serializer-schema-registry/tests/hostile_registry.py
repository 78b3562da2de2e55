"""An HTTP server with the answers that a test gives it, such as broken ones, which a real registry does not send."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import attrs
import pytest


@attrs.define
class Hostile:
    """The server's address, the requests that it got, and the answers that it gives next; then it gives `last`.

    With TLS also the certificate of each client that sent a request, or None.
    """

    address: str = ""
    requests: list[tuple[str, Mapping[str, str], bytes]] = attrs.field(factory=list)
    answers: list[Callable[[Any], None]] = attrs.field(factory=list)
    last: Callable[[Any], None] = attrs.field(factory=lambda: says({"id": 7}))
    client_certificates: list[Mapping[str, Any] | None] = attrs.field(factory=list)


def says(
    body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None, length: int | None = None
) -> Callable[[Any], None]:
    """An answer; a *length* that is larger than the body is an answer cut in the middle."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def answer(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(raw) if length is None else length))
        for name, value in (headers or {}).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(raw)
        if length is not None:
            handler.close_connection = True

    return answer


def trickles(handler: Any) -> None:
    """One byte of the headers every 20 ms, for ever: no time-out of a single read ends that."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    with suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.02)
    handler.close_connection = True


@contextmanager
def hostile_registry(*, tls: ssl.SSLContext | None = None) -> Iterator[Hostile]:
    """Run a server."""
    hostile = Hostile()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hostile.requests.append((f"{self.command} {self.path}", dict(self.headers), body))
            if isinstance(self.connection, ssl.SSLSocket):
                hostile.client_certificates.append(self.connection.getpeercert() or None)
            answer = hostile.answers.pop(0) if hostile.answers else hostile.last
            with suppress(ConnectionError):
                answer(self)

        do_GET = do_POST

        def log_message(self, *_arguments: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            if tls is None:
                super().finish_request(request, client_address)
                return
            with suppress(OSError), tls.wrap_socket(request, server_side=True) as secured:  # a client ends handshakes
                super().finish_request(secured, client_address)

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    hostile.address = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield hostile
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def hostile_server() -> Iterator[Hostile]:
    """A server for one test."""
    with hostile_registry() as running:
        yield running
