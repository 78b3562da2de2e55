"""An identity server of a few lines: answers a request with what the test lined up, and keeps what it was asked."""

from __future__ import annotations

import base64
import http.server
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any, Self

import attrs


def jwt(**claims: Any) -> str:
    """A token with these claims, and a signature that is never verified."""

    def part(content: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    return ".".join((part({"alg": "none"}), part(claims), "c2lnbmF0dXJl"))


@attrs.frozen(kw_only=True)
class Answer:
    """A response. `trickle`: byte by byte, with this many seconds in between."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = attrs.Factory(dict)
    trickle: float = 0.0

    @classmethod
    def of(cls, status: int = 200, **fields: Any) -> Answer:
        """An answer in JSON."""
        return cls(status=status, body=json.dumps(fields).encode(), headers={"Content-Type": "application/json"})


@attrs.frozen(kw_only=True)
class Asked:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: str


class TokenServer:
    """Serves on 127.0.0.1. `answer` is called for each request, by the server's threads."""

    def __init__(self, answer: Callable[[Asked], Answer], *, tls: SSLContext | None = None) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.ended = threading.Event()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if tls is None else "https"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, path: str = "/token", *, host: str = "127.0.0.1") -> str:
        return f"{self._scheme}://{host}:{self.port}{path}"

    @contextmanager
    def serving(self) -> Iterator[TokenServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                asked = Asked(path=self.path, headers=dict(self.headers), body=body)
                server.asked.append(asked)
                answer = server.answer(asked)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self._write(answer)

            def _write(self, answer: Answer) -> None:
                if not answer.trickle:
                    self.wfile.write(answer.body)
                    return
                for byte in answer.body:
                    if server.ended.wait(answer.trickle):
                        return
                    self.wfile.write(bytes([byte]))

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    return  # the client had enough

            def log_message(self, format: str, *args: Any) -> None:
                return

        return Handler


def wait_until(reached: Callable[[], bool], *, seconds: float = 20.0) -> None:
    """Look until it is so. AssertionError: it was not in this time."""
    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        threading.Event().wait(0.01)


class Listener:
    """A server on 127.0.0.1 with a thread for each connection, in which `_serve` runs; all end with the block."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = int(self._listening.getsockname()[1])
        self.connections = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for each in (self._listening, *self._open):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        raise NotImplementedError


class Speaker(Listener):
    """Reads something of each connection, and then hands the socket to *speak*."""

    def __init__(self, speak: Callable[[socket.socket], object]) -> None:
        super().__init__()
        self._speak = speak
        self.url = f"http://127.0.0.1:{self.port}/token"

    def _serve(self, sock: socket.socket) -> None:
        try:
            with sock:
                sock.recv(65536)
                self._speak(sock)
        except OSError:
            return  # the client has left


def dripping(start: bytes, drip: bytes) -> Callable[[socket.socket], None]:
    """A server that sends *start*, and then *drip* repeatedly until the client closes."""

    def speak(sock: socket.socket) -> None:
        sock.sendall(start)
        while True:
            sock.sendall(drip)
            threading.Event().wait(0.02)

    return speak
