"""One connection under test: a layer visited as the core's selector visits it, a cable, and the peer at its other end.

Every call to the layer goes through here: it is watched for waiting, and what it returns or raises is checked against
the contract of `ottla.interfaces.TransportLayer`.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.errors import OttlaError
from ottla.interfaces import Buffer, Interest, Transport, TransportLayer
from ottla_testkit.conformance.cable import MUCH, Cable
from ottla_testkit.conformance.peer import Peer, Serve
from ottla_testkit.conformance.watchdog import Watchdog

BLOCKED: Final = 5.0
"""Seconds after which a call is taken to wait for something."""

_BREATH: Final = 0.005
_IDLE_TURNS: Final = 3
"""After which somebody else gets the processor; a socket that sips moves something every other turn."""

_CANARY: Final = b"\xa5" * 8


class Link:
    """`until` lets everybody take turns; the rest are the layer's methods, checked."""

    def __init__(
        self, transport: Transport, serve: Serve, *, host: str, port: int, patience: float, sip: int = 0
    ) -> None:
        self._patience = patience
        self.cable = Cable(family_of(transport, host, port), sip=sip)
        self._watchdog = Watchdog(patience=min(BLOCKED, patience), free=lambda: self.cable.cut(reset=True))
        self.peer = Peer(self.cable.theirs, serve, patience=patience)
        self.layer: TransportLayer = self._watched("open", transport.open, self.cable.ours, host, port)
        whole = isinstance(self.layer, TransportLayer)
        assert whole, f"{self.layer!r} lacks a method of ottla.interfaces.TransportLayer"
        waits = self.cable.ours.getblocking()
        assert not waits, "open made the socket wait; it has to stay as it was given, non-blocking"
        self.ready = False
        self.ended = False
        self.got = bytearray()
        self.taken = 0
        self.window = MUCH
        self._unsent: list[Buffer] = []
        self._sending = False
        self._stalled = False
        self._visited = False
        self._closed = False

    # What happens, turn by turn

    def send(self, *chunks: Buffer) -> None:
        """To be written from the next visit on."""
        self._unsent += chunks
        self._sending = True

    @property
    def sending(self) -> bool:
        """Whether something is to be written, or not flushed yet."""
        return self._sending

    @property
    def shaken(self) -> bool:
        """Whether both are through the handshake."""
        return self.ready and self.peer.ready

    def until(
        self,
        done: Callable[[], bool],
        what: str,
        *,
        to_peer: int = MUCH,
        to_layer: int = MUCH,
        peer: bool = True,
        layer: bool = True,
    ) -> None:
        """Turns for the layer, the cable and the peer until it is *done*; fails with *what* when nothing moves.

        OSError and OttlaError of the layer are the caller's to expect.
        """
        moved_at, idle = time.monotonic(), 0
        while not done():
            moved = self.visit() if layer else 0
            moved += self.cable.carry(to_peer=to_peer, to_layer=to_layer)
            if peer:
                moved += self.peer.step()
            idle = 0 if moved else idle + 1
            if moved:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > self._patience:
                raise AssertionError(f"{what}: nothing moves any more; {self._state()}")
            elif idle > _IDLE_TURNS:
                self.peer.breathe(_BREATH)

    def shake_hands(self, *, to_peer: int = MUCH, to_layer: int = MUCH) -> None:
        """Both through the handshake."""
        self.until(lambda: self.shaken, "the handshake", to_peer=to_peer, to_layer=to_layer)

    def visit(self) -> int:
        """Once, if the selector would; how far that led, in bytes and steps."""
        if self.ended:
            return 0
        mask = self._events()
        impatient = self.ready and not self._stalled and self.may_read()
        if self._visited and not mask and not impatient:
            return 0
        self._visited = True
        before = self._progress()
        if not self.ready:
            self.ready = self.handshake()
        if self.ready:
            if mask & Interest.READ or impatient:
                self._read()
            if self._sending and not self.ended:
                self._write()
        return int(self._progress() != before)

    def close(self) -> None:
        """The layer first, then everything of the test's."""
        try:
            self.close_layer()
        finally:
            self._watchdog.stop()
            self.cable.cut(reset=False)
            self.peer.close()
            self.cable.close()

    # The layer's methods

    def handshake(self) -> bool:
        """As the layer says."""
        ready = self._call("handshake")
        assert isinstance(ready, bool), f"handshake returned {ready!r}, not True or False"
        return ready

    def write(self, chunks: Sequence[Buffer]) -> int:
        """As the layer says; the chunks have to stay what they were."""
        given = list(chunks)
        taken = self._call("write", given)
        total = sum(len(chunk) for chunk in chunks)
        assert isinstance(taken, int), f"write returned {taken!r}, not a number of bytes"
        assert 0 <= taken <= total, f"write says that it took {taken} of {total} bytes"
        same = len(given) == len(chunks) and all(one is other for one, other in zip(given, chunks, strict=True))
        assert same, "write changed the list of chunks, which is the channel's"
        self.taken += taken
        return taken

    def flush(self) -> bool:
        """As the layer says."""
        flushed = self._call("flush")
        assert isinstance(flushed, bool), f"flush returned {flushed!r}, not True or False"
        return flushed

    def read(self, size: int) -> bytes | None:
        """What one `read_into` gave; None: nothing now; empty: the end."""
        store = bytearray(_CANARY + bytes(size) + _CANARY)
        got = self._call("read_into", memoryview(store)[len(_CANARY) : len(_CANARY) + size])
        assert got is None or (isinstance(got, int) and 0 <= got <= size), f"read_into({size} bytes) returned {got!r}"
        intact = store.startswith(_CANARY) and store.endswith(_CANARY) and len(store) == size + 2 * len(_CANARY)
        assert intact, "read_into wrote beside the buffer that it was given"
        return None if got is None else bytes(store[len(_CANARY) : len(_CANARY) + got])

    def interest(self) -> Interest:
        """As the layer says."""
        interest = self._call("interest")
        assert isinstance(interest, Interest), f"interest returned {interest!r}, which is no Interest"
        return interest

    def may_read(self) -> bool:
        """As the layer says."""
        may = self._call("may_read")
        assert isinstance(may, bool), f"may_read returned {may!r}, not True or False"
        return may

    def close_layer(self) -> None:
        """Once or again; it never raises."""
        try:
            self._watched("close", self.layer.close)
        except Exception as error:
            raise AssertionError(f"close raised {error!r}; it has to do its best and never raise") from error
        self._closed = True

    # Helpers

    def _progress(self) -> tuple[object, ...]:
        return self.ready, self.ended, len(self.got), self.taken, self._sending, self.cable.sipped()

    def _call(self, name: str, *args: Any) -> Any:
        result = self._watched(name, getattr(self.layer, name), *args)
        fileno = self.cable.ours.fileno()
        assert fileno >= 0, f"{name}: the socket was closed or detached, while the selector still watches it"
        return result

    def _watched(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        error: Exception | None = None
        with self._watchdog.watching():
            try:
                result = call(*args)
            except Exception as raised:
                error = raised
        assert not self._watchdog.barked, f"{name} did not come back: a layer never waits"
        if error is None:
            return result
        if isinstance(error, OSError | OttlaError) and not isinstance(error, BlockingIOError):
            raise error
        raise AssertionError(
            f"{name} raised {error!r}; what fails a connection is OSError or of ottla.errors"
        ) from error

    def _events(self) -> Interest:
        wanted = self.interest()
        if self.ready:
            wanted |= Interest.READ
            if self._sending:
                wanted |= Interest.WRITE
        sock = [self.cable.ours]
        readable, writable, _ = select.select(
            sock if wanted & Interest.READ else [], sock if wanted & Interest.WRITE else [], [], 0
        )
        return (Interest.READ if readable else Interest.NONE) | (Interest.WRITE if writable else Interest.NONE)

    def _readable(self) -> bool:
        return bool(select.select([self.cable.ours], [], [], 0)[0])

    def _read(self) -> None:
        data = self.read(self.window)
        self._stalled = data is None
        self.ended = data == b""
        self.got += data or b""

    def _write(self) -> None:
        if self._unsent:
            self._unsent = rest(self._unsent, self.write(self._unsent))
        if not self._unsent and self.flush():
            self._sending = False

    def _state(self) -> str:
        if self.ended or self._closed:
            return "the layer has told of the end"
        socket_has = "has" if self._readable() else "has no"
        return (
            f"ready: {self.ready}, interest(): {self.interest()}, may_read(): {self.ready and self.may_read()}, "
            f"read so far: {len(self.got)}, written so far: {self.taken}, the socket {socket_has} bytes"
        )


def family_of(transport: Transport, host: str, port: int) -> int:
    """The kind of socket that the transport asks for."""
    targets = transport.targets(host, port)
    return targets[0].family if targets else socket.AF_INET


def rest(chunks: Sequence[Buffer], taken: int) -> list[Buffer]:
    """What is left when *taken* bytes are gone from the front, as the core's channel does it."""
    left: list[Buffer] = []
    for chunk in chunks:
        if taken < len(chunk):
            left.append(memoryview(chunk)[taken:] if taken else chunk)
        taken = max(taken - len(chunk), 0)
    return left
