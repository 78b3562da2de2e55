"""The process behind a `DelayingProxy`: it forwards connections and delivers every byte half a round trip later.

It runs in a separate interpreter, because in the client's process it would wait for the client's interpreter lock,
up to 5 ms at a time. It is started by its path, so it imports only the standard library.

One thread reads bytes, notes the time at which they are due, and queues them per direction. Any number of bytes may be
in flight, and their order is kept. Commands are lines of JSON on stdin; each is confirmed by a line on stdout. The
process ends when stdin ends, so it does not outlive its owner.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import select
import selectors
import signal
import socket
import struct
import sys
import time
from collections import deque

CHUNK = 1 << 18
OVERDUE = 1 << 22  # bytes that the receiver has not taken; with more, its sender is not read
NARROW = 1 << 16  # the same for bytes that a limited rate or a held direction keeps back
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER
_PR_SET_TIMERSLACK = 29
_MAX_LATENESS = 0.001
_PIECE_SECONDS = 0.02  # of a limited rate, which is made of pieces; one byte at least
_SELECT_LIMIT = 1024  # FD_SETSIZE: `select` takes no higher descriptor


class Distance:
    """Seconds of a round trip, and the maximum random addition; the rate of bytes, and directions that deliver none.

    All of it may change at any time.
    """

    def __init__(self, round_trip: float, jitter: float, seed: int | None = None) -> None:
        self.round_trip = round_trip
        self.jitter = jitter
        self.bytes_per_second: float | None = None  # of each direction of each connection
        self.held: frozenset[str] = frozenset()
        self._chance = random.Random(seed)

    def one_way(self) -> float:
        """Return the delay of bytes that are read now."""
        extra = self._chance.uniform(0, self.jitter) if self.jitter else 0.0
        return (self.round_trip + extra) / 2


class Line:
    """One direction of a connection: bytes from the sender, with the times at which the receiver gets them.

    The end of the bytes is queued like them: `b""` for a normal close, None for a reset.
    """

    def __init__(self, distance: Distance, way: str, *, not_before: float = 0.0) -> None:
        self._distance = distance
        self._way = way
        self._under_way: deque[tuple[float, bytes | None]] = deque()
        self._latest = not_before
        self._kept_back = 0
        self.arrived = bytearray()
        self.ended = False
        self.reset = False

    @property
    def due(self) -> float:
        """The time when the next bytes arrive; infinity when none are in flight, or the direction is held."""
        return self._under_way[0][0] if self._under_way and not self._held else float("inf")

    @property
    def congested(self) -> bool:
        """Whether the receiver does not take the bytes that have arrived, or many are kept back."""
        limited = self._held or self._distance.bytes_per_second is not None
        return len(self.arrived) > OVERDUE or (limited and self._kept_back > NARROW)

    @property
    def _held(self) -> bool:
        return self._way in self._distance.held

    def put(self, data: bytes | None, now: float) -> None:
        """Queue these bytes; they never arrive before earlier ones."""
        self._latest = max(self._latest, now + self._distance.one_way())
        rate = self._distance.bytes_per_second
        if rate is None or not data:
            self._queue(data)
            return
        size = max(int(rate * _PIECE_SECONDS), 1)
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self._latest += len(piece) / rate
            self._queue(piece)

    def advance(self, now: float) -> None:
        """Move bytes that are due to `arrived`."""
        while self.due <= now:
            _, data = self._under_way.popleft()
            self._kept_back -= len(data or b"")
            if data:
                self.arrived += data
            else:
                self.ended, self.reset = True, data is None

    def _queue(self, data: bytes | None) -> None:
        self._under_way.append((self._latest, data))
        self._kept_back += len(data or b"")


class End:
    """One socket of a connection: reads for one line, and writes the bytes of the other."""

    def __init__(self, sock: socket.socket, *, out: Line, back: Line, connecting: bool = False) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.outgoing = out
        self.incoming = back
        self.connecting = connecting
        self.reading = True
        self.shut = False
        self.events = 0

    def read(self, now: float) -> int:
        """Read available bytes; return their number."""
        try:
            data: bytes | None = self.sock.recv(CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = None
        if not data:
            self.reading = False
        self.outgoing.put(data, now)
        return len(data or b"")

    def write(self, now: float) -> None:
        """Write bytes that are due; raises `OSError` when the socket has failed."""
        if self.connecting:
            return
        line = self.incoming
        line.advance(now)
        with contextlib.suppress(BlockingIOError):
            while line.arrived:
                # PyPy frees no view by itself before a collection, and until then the bytearray keeps its size.
                with memoryview(line.arrived) as arrived, arrived[:CHUNK] as part:
                    sent = self.sock.send(part)
                del line.arrived[:sent]
        if line.ended and not line.arrived and not self.shut:
            if line.reset:
                raise ConnectionResetError
            self.shut = True
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_WR)

    @property
    def wanted(self) -> int:
        """The events to wait for."""
        if self.connecting:
            return selectors.EVENT_WRITE
        wanted = selectors.EVENT_READ if self.reading and not self.outgoing.congested else 0
        return wanted | (selectors.EVENT_WRITE if self.incoming.arrived else 0)


class Forwarder:
    """Accept on one socket, and connect each client to the current target."""

    def __init__(self, listener: socket.socket, target: tuple[str, int], distance: Distance) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._target = target
        self._distance = distance
        self._pairs: dict[End, End] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        # `select` and `poll` have no descriptor of their own.
        self._watched = getattr(self._selector, "fileno", lambda: _SELECT_LIMIT)()
        self._lateness = 0.0
        self._commands = b""
        self._accepted = 0
        self._forwarded = {"out": 0, "back": 0}
        self._outward: set[End] = set()  # clients' ends

    def run(self, commands: int) -> None:
        """Forward until the command `end`, or the end of *commands*, a file descriptor; then reset every connection.

        Blocks meanwhile.
        """
        self._selector.register(commands, selectors.EVENT_READ)
        while True:
            self._wait()
            for key, events in self._selector.select(0):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fd == commands:
                    if not self._obey(commands):
                        self._lose(*list(self._pairs))
                        return
                elif key.data in self._pairs:  # otherwise lost a moment ago, with its peer
                    self._serve(key.data, events)
            self._deliver(time.monotonic() + self._lateness)

    def _wait(self) -> None:
        """Wait until a socket is ready, or bytes are due.

        The operating system wakes a process 50 to 500 µs late. The forwarder measures the delay and asks to be woken
        earlier by that time.
        """
        due = min((end.incoming.due for end in self._pairs if not end.connecting), default=float("inf"))
        if due == float("inf"):
            self._select(None)
            return
        wake_at = due - self._lateness
        timeout = wake_at - time.monotonic()
        if timeout <= 0 or self._select(timeout):
            return
        late = time.monotonic() - wake_at
        self._lateness = min(_MAX_LATENESS, self._lateness + (late - self._lateness) / 8)

    def _select(self, timeout: float | None) -> bool:
        """Return whether a socket is ready."""
        if self._watched < _SELECT_LIMIT:  # epoll itself rounds a time up to whole milliseconds
            return bool(select.select([self._watched], [], [], timeout)[0])
        return bool(self._selector.select(timeout))

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                client, _ = self._listener.accept()
                self._join(client)

    def _join(self, client: socket.socket) -> None:
        # A client's connect succeeds as soon as our system completes the handshake. With the delay it would succeed a
        # round trip later, so the first bytes arrive as late as they would then.
        out = Line(self._distance, "out", not_before=time.monotonic() + 1.5 * self._distance.round_trip)
        back = Line(self._distance, "back")
        near = End(client, out=out, back=back)
        target = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        target.setblocking(False)
        refused = target.connect_ex(self._target) not in (0, errno.EINPROGRESS)
        far = End(target, out=back, back=out, connecting=not refused)
        self._accepted += 1
        self._pairs[near], self._pairs[far] = far, near
        self._outward.add(near)
        if refused:
            far.reading = False
            back.put(None, time.monotonic() + self._distance.one_way())
        self._watch(near, far)

    def _serve(self, end: End, events: int) -> None:
        now = time.monotonic()
        if end.connecting:
            end.connecting = False
            if end.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                end.reading = False
                end.outgoing.put(None, now)
        elif events & selectors.EVENT_READ:
            self._forwarded["out" if end in self._outward else "back"] += end.read(now)
        self._watch(end)

    def _deliver(self, now: float) -> None:
        for end in list(self._pairs):
            if end not in self._pairs or not (end.incoming.due <= now or end.incoming.arrived or end.incoming.ended):
                continue
            peer = self._pairs[end]
            try:
                end.write(now)
            except OSError:
                self._lose(end, peer)
                continue
            if end.shut and peer.shut:
                self._lose(end, peer, reset=False)
            else:
                self._watch(end, peer)

    def _watch(self, *ends: End) -> None:
        for end in ends:
            wanted = end.wanted
            if wanted == end.events:
                continue
            if not end.events:
                self._selector.register(end.sock, wanted, end)
            elif not wanted:
                self._selector.unregister(end.sock)
            else:
                self._selector.modify(end.sock, wanted, end)
            end.events = wanted

    def _lose(self, *ends: End, reset: bool = True) -> None:
        for end in ends:
            if end.events:
                self._selector.unregister(end.sock)
            if reset:
                with contextlib.suppress(OSError):
                    end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.sock.close()
            del self._pairs[end]
            self._outward.discard(end)

    def _obey(self, commands: int) -> bool:
        data = os.read(commands, CHUNK)
        self._commands += data
        *lines, self._commands = self._commands.split(b"\n")
        for line in lines:
            command = json.loads(line)
            if "end" in command:
                return False
            self._distance.round_trip = command.get("round_trip", self._distance.round_trip)
            self._distance.jitter = command.get("jitter", self._distance.jitter)
            self._distance.bytes_per_second = command.get("bytes_per_second", self._distance.bytes_per_second)
            self._distance.held = frozenset(command.get("held", self._distance.held))
            self._target = tuple(command.get("target", self._target))
            if "cut" in command:
                self._lose(*list(self._pairs))
            self._watch(*self._pairs)
            print(json.dumps({"accepted": self._accepted, **self._forwarded}), flush=True)
        return bool(data)


def main(description: str) -> None:
    """Forward as the JSON in *description* says; it has the descriptor of the owner's listening socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, which closes stdin
    given = json.loads(description)
    with contextlib.suppress(OSError, AttributeError):  # Linux: wake up to 50 µs earlier
        ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    distance = Distance(given["round_trip"], given["jitter"], given["seed"])
    Forwarder(socket.socket(fileno=given["listener"]), tuple(given["target"]), distance).run(sys.stdin.fileno())


if __name__ == "__main__":
    main(sys.argv[1])
