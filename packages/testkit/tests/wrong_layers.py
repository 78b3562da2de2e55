"""Transports that break one promise each, as their authors might; every other promise is plaintext's."""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence

from ottla.interfaces import Buffer, Interest, Target, TransportLayer
from ottla_transport_plaintext import PlaintextLayer, PlaintextTransport


class Wrong(PlaintextTransport):
    """Opens layers of one wrong kind."""

    def __init__(self, kind: type[PlaintextLayer]) -> None:
        self._kind = kind

    def open(self, sock: socket.socket, host: str, port: int) -> TransportLayer:
        return self._kind(sock)


class Moody(PlaintextTransport):
    """Connects elsewhere each time."""

    def __init__(self) -> None:
        self._asked = 0

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        self._asked += 1
        return [Target(socket.AF_INET, (host, port + self._asked))]


class WaitsInOpen(PlaintextLayer):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        sock.setblocking(True)


class WaitsForBytes(PlaintextLayer):
    def read_into(self, buffer: memoryview) -> int | None:
        select.select([self._sock], [], [])
        return super().read_into(buffer)


class WaitsForRoom(PlaintextLayer):
    def write(self, chunks: Sequence[Buffer]) -> int:
        select.select([], [self._sock], [])
        return super().write(chunks)


class NeverReady(PlaintextLayer):
    def handshake(self) -> bool:
        return False


class WaitsForNobodyKnowsWhat(PlaintextLayer):
    """Hears a byte in its handshake, and does not say that it waits for one."""

    def handshake(self) -> bool:
        return self.read_into(memoryview(bytearray(1))) == 1


class DropsWhatFollows(PlaintextLayer):
    """Reads more than its handshake, and forgets the rest."""

    shaken = False

    def handshake(self) -> bool:
        self.shaken = self.shaken or bool(self.read_into(memoryview(bytearray(1000))))
        return self.shaken

    def interest(self) -> Interest:
        return Interest.NONE if self.shaken else Interest.READ


class ChokesOnStrangers(DropsWhatFollows):
    def handshake(self) -> bool:
        greeting = bytearray(1)
        if not self.shaken and self.read_into(memoryview(greeting)):
            self.shaken = {ord("!"): True}[greeting[0]]
        return self.shaken


class SaysMoreThanItTook(PlaintextLayer):
    def write(self, chunks: Sequence[Buffer]) -> int:
        return super().write(chunks) and sum(len(chunk) for chunk in chunks)


class TakesTwice(PlaintextLayer):
    """Sends the first chunk, and says that it took nothing."""

    sent = False

    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = super().write(chunks)
        first, self.sent = not self.sent, True
        return 0 if first else taken


class EatsTheList(PlaintextLayer):
    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = super().write(chunks)
        if isinstance(chunks, list):
            chunks.clear()
        return taken


class Queueing(PlaintextLayer):
    """Takes everything ahead of the socket; right but for the amount."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self._queue = bytearray()

    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = b"".join(chunks)
        self._queue += taken
        self.flush()
        return len(taken)

    def flush(self) -> bool:
        while self._queue and (sent := super().write([bytes(self._queue[:65536])])):
            del self._queue[:sent]
        return not self._queue

    def interest(self) -> Interest:
        self.flush()
        return Interest.WRITE if self._queue else Interest.NONE


class FlushesInWords(Queueing):
    """Takes 200 kB ahead at the most, and says that they are gone."""

    def write(self, chunks: Sequence[Buffer]) -> int:
        super().flush()
        return 0 if self._queue else super().write([memoryview(b"".join(chunks))[:200_000]])

    def flush(self) -> bool:
        super().flush()
        return True


class LosesWhatIsFlushed(Queueing):
    """Keeps the last bytes to itself, until more come."""

    def flush(self) -> bool:
        while len(self._queue) > 3 and (sent := PlaintextLayer.write(self, [bytes(self._queue[:-3])])):
            del self._queue[:sent]
        return True


class ReadsAhead(PlaintextLayer):
    """Holds what it has read, and does not say so."""

    _held = b""

    def read_into(self, buffer: memoryview) -> int | None:
        if not self._held:
            store = bytearray(65536)
            got = super().read_into(memoryview(store))
            if not got:
                return got
            self._held = bytes(store[:got])
        size = min(len(buffer), len(self._held))
        buffer[:size], self._held = self._held[:size], self._held[size:]
        return size


class TakesNothingForTheEnd(PlaintextLayer):
    def read_into(self, buffer: memoryview) -> int | None:
        return super().read_into(buffer) or 0


class NeverEnds(PlaintextLayer):
    def read_into(self, buffer: memoryview) -> int | None:
        return super().read_into(buffer) or None


class WritesBesideTheBuffer(PlaintextLayer):
    def read_into(self, buffer: memoryview) -> int | None:
        got = super().read_into(buffer)
        assert isinstance(buffer.obj, bytearray)
        buffer.obj[-1] = 0
        return got


class AlwaysWantsToWrite(PlaintextLayer):
    def interest(self) -> Interest:
        return Interest.WRITE


class TakesTheSocketAway(PlaintextLayer):
    def handshake(self) -> bool:
        if self._sock.fileno() >= 0 and type(self._sock) is not socket.socket:
            return True
        self._sock = _Own(fileno=self._sock.detach())
        return True


class _Own(socket.socket):
    pass


class ClosesOnce(PlaintextLayer):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("closed already")
        self.closed = True
        super().close()


class SaysGoodbyeToTheDead(PlaintextLayer):
    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()


class LeavesTheSocketOpen(PlaintextLayer):
    def close(self) -> None:
        """Somebody else will."""


class HangsUpHard(PlaintextLayer):
    """What was flushed may be on its way still, and is thrown away."""

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))
        self._sock.close()


class SharesItsBuffer(PlaintextLayer):
    """One store for all connections."""

    store = bytearray()

    def read_into(self, buffer: memoryview) -> int | None:
        piece = bytearray(len(buffer))
        got = super().read_into(memoryview(piece))
        self.store.extend(piece[: got or 0])
        buffer[: got or 0] = self.store[: got or 0]
        return got


class IgnoresResets(PlaintextLayer):
    def write(self, chunks: Sequence[Buffer]) -> int:
        try:
            return super().write(chunks)
        except OSError:
            return 0
