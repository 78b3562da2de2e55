"""Servers on 127.0.0.1 that send what a test wants: other protocols, and brokers with invented responses."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from ottla.protocol import API_VERSIONS, METADATA, ApiVersion, ApiVersionsResponse, MetadataResponse
from ottla.protocol.notation import fields_of

HANG_GUARD = 20.0

Conduct: TypeAlias = Callable[[socket.socket], object]
"""A server's handler of each connection; the connection is closed afterwards in any case."""

NEWEST: Mapping[int, tuple[int, int]] = {0: (0, 13), METADATA.key: (0, 13), API_VERSIONS.key: (0, 4)}


@contextlib.contextmanager
def serving(conduct: Conduct) -> Iterator[tuple[str, int]]:
    """The address of a server with a thread for each connection; it ends with the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()
    held: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def run() -> None:
        while True:
            peer, _address = listener.accept()
            if ended.is_set():
                peer.close()
                return
            held.append(peer)
            peer.settimeout(HANG_GUARD)
            threads.append(threading.Thread(target=treat, args=(peer,), daemon=True))
            threads[-1].start()

    def treat(peer: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the test's side hung up
            conduct(peer)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        ended.set()
        for peer in held:  # first: a conduct may be waiting for its peer
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        socket.create_connection(listener.getsockname()).close()
        for each in (thread, *threads):
            each.join(HANG_GUARD)
        listener.close()
        for peer in held:
            peer.close()


def says(answer: bytes) -> Conduct:
    """Read a little, then say this and stay."""

    def conduct(peer: socket.socket) -> None:
        peer.recv(4096)
        peer.sendall(answer)

    return conduct


def stays_silent(_peer: socket.socket) -> None:
    """Take the connection, and nothing else."""


def closes_connection(peer: socket.socket) -> None:
    """Read a little and close."""
    peer.recv(4096)
    peer.close()


class ScriptedBroker:
    """Answers requests from tables; `asked` keeps the key, version and body of each. One that has no answer: hangs up.

    `versions` is what it offers. `metadata` makes its answer, given its own address. A `refuses_versions_above` makes
    it one that does not know the version of ApiVersions that it is asked with.
    """

    def __init__(
        self,
        *,
        versions: Mapping[int, tuple[int, int]] = NEWEST,
        metadata: Callable[[str, int], MetadataResponse] | None = None,
        refuses_versions_above: int = 4,
    ) -> None:
        self._versions = versions
        self._metadata = metadata
        self._refuses_versions_above = refuses_versions_above
        self.asked: list[tuple[int, int, bytes]] = []

    def __call__(self, peer: socket.socket) -> None:
        while True:
            [size] = struct.unpack(">i", _exactly(peer, 4))
            request = _exactly(peer, size)
            key, version, correlation_id, client = struct.unpack_from(">hhih", request)
            self.asked.append((key, version, request[10 + client :]))
            answer = self._answer(peer, key, version)
            if answer is None:
                peer.close()
                return
            tagged = b"\0" if key == METADATA.key and METADATA.flexible(version) else b""
            framed = struct.pack(">i", correlation_id) + tagged + answer
            peer.sendall(struct.pack(">i", len(framed)) + framed)

    def _answer(self, peer: socket.socket, key: int, version: int) -> bytes | None:
        if key == API_VERSIONS.key:
            return self._offer(version)
        if key == METADATA.key and self._metadata is not None:
            answer = self._metadata(*peer.getsockname())
            return METADATA.response(version).encode(as_of(version, answer))
        return None

    def _offer(self, version: int) -> bytes:
        if version > self._refuses_versions_above:
            return struct.pack(">hi", 35, 0)
        offered = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self._versions.items()
        ]
        return API_VERSIONS.response(version).encode(ApiVersionsResponse(api_keys=offered))


def as_of(version: int, struct: Any) -> Any:
    """The struct without what a version lacks, as an older broker would fill it."""
    known: dict[str, Any] = {}
    for field in fields_of(struct.__class__):
        value = getattr(struct, field.name)
        if isinstance(value, list):
            value = [as_of(version, item) if attrs.has(type(item)) else item for item in value]
        known[field.name] = value if version in field.versions else field.default
    return attrs.evolve(struct, **known)


def _exactly(peer: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        more = peer.recv(size - len(got))
        if not more:
            raise OSError("the other side is gone")
        got += more
    return got
