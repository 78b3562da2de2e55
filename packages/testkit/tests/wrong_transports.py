"""Transports that each break one promise, all made from one that keeps them."""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from ottla.errors import ConnectionFailedError
from ottla.interfaces import Buffer, Interest, Target, TransportLayer
from ottla_testkit.conformance import PlainPeer


class Right:
    """Keeps all promises: bytes as they are, and up to 64 kB ahead of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.held = bytearray()

    def handshake(self) -> bool:
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        if not self.flush():
            return 0
        taken = b"".join(chunks)[:65536]
        self.held += taken
        self.flush()
        return len(taken)

    def flush(self) -> bool:
        try:
            while self.held:
                del self.held[: self.sock.send(self.held)]
        except BlockingIOError:
            return False
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        try:
            return self.sock.recv_into(buffer)
        except BlockingIOError:
            return None

    def interest(self) -> Interest:
        return Interest.WRITE if self.held else Interest.NONE

    def may_read(self) -> bool:
        return False

    def close(self) -> None:
        self.sock.close()


class IgnoresShortWrites(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = b"".join(chunks)
        try:
            self.sock.send(taken)
        except BlockingIOError:
            return 0
        return len(taken)


class TakesMoreThanItSays(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = super().write(chunks)
        return taken - 1 if taken > 1 else taken


class SaysMoreThanThereWas(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        return super().write(chunks) + sum(map(len, chunks)) + 1


class TakesWithoutEnd(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        self.held += b"".join(chunks)
        self.flush()
        return sum(len(chunk) for chunk in chunks)


class TakesTooFarAhead(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        if len(self.held) > 1_000_000:
            self.flush()
            return 0
        return TakesWithoutEnd.write(self, chunks)  # type: ignore[arg-type]


class EatsTheList(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = super().write(chunks)
        if isinstance(chunks, list):
            chunks.clear()
        return taken


class SwapsChunks(Right):
    def write(self, chunks: Sequence[Buffer]) -> int:
        return super().write(sorted(chunks, key=len))


class LiesAboutFlush(Right):
    def flush(self) -> bool:
        super().flush()
        return True

    def write(self, chunks: Sequence[Buffer]) -> int:
        return 0 if self.held and not Right.flush(self) else super().write(chunks)


class FlushesNever(Right):
    def flush(self) -> bool:
        super().flush()
        return False

    def write(self, chunks: Sequence[Buffer]) -> int:
        taken = b"".join(chunks)[: 65536 - len(self.held)]
        self.held += taken
        return len(taken)


class Blocks(Right):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        sock.setblocking(True)


class Sleeps(Right):
    def handshake(self) -> bool:
        time.sleep(1.5)  # what is caught is just this
        return True


class ReadsAheadInSecret(Right):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.came = bytearray()

    def read_into(self, buffer: memoryview) -> int | None:
        if not self.came:
            try:
                self.came += self.sock.recv(65536)
            except BlockingIOError:
                return None
        got = len(self.came[: len(buffer)])
        buffer[:got] = self.came[:got]
        del self.came[:got]
        return got


class LosesWhatHasNoRoom(Right):
    def read_into(self, buffer: memoryview) -> int | None:
        try:
            came = self.sock.recv(65536)[: len(buffer)]
        except BlockingIOError:
            return None
        buffer[: len(came)] = came
        return len(came)


class ReadsTooMuch(Right):
    def read_into(self, buffer: memoryview) -> int | None:
        try:
            came = self.sock.recv(65536)
        except BlockingIOError:
            return None
        buffer[:] = came[: len(buffer)].ljust(len(buffer))
        return len(came)


class SaysClosedForNothing(Right):
    def read_into(self, buffer: memoryview) -> int | None:
        return super().read_into(buffer) or 0


class SaysNothingForClosed(Right):
    def read_into(self, buffer: memoryview) -> int | None:
        return super().read_into(buffer) or None


class MayAlwaysRead(Right):
    def may_read(self) -> bool:
        return True


class WantsToWriteAlways(Right):
    def interest(self) -> Interest:
        return Interest.WRITE


class WaitsForNothing(Right):
    def handshake(self) -> bool:
        return bool(self.read_into(memoryview(bytearray(1))))


class SpinsInTheHandshake(WaitsForNothing):
    def interest(self) -> Interest:
        return Interest.WRITE


class RaisesInClose(Right):
    def close(self) -> None:
        if self.sock.fileno() == -1:
            raise ConnectionFailedError("closed already")
        super().close()


class LeavesTheSocketOpen(Right):
    def close(self) -> None:
        pass


class HangsUpHard(Right):
    """By a reset, and what was flushed may still be on its way."""

    def close(self) -> None:
        if self.sock.fileno() != -1:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        super().close()


class RaisesWhatItLikes(Right):
    def read_into(self, buffer: memoryview) -> int | None:
        got = super().read_into(buffer)
        if got == 0:
            raise ValueError("no bytes")
        return got


class HandshakesAgain(Right):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.times = 0

    def handshake(self) -> bool:
        self.times += 1
        return self.times == 1


class NamesOnlyTheProtocol(Right):
    def cipher(self) -> str:
        return "TLSv1.3"


class ShakesForEver(Right):
    """Does not notice that the peer has gone."""

    def handshake(self) -> bool:
        self.read_into(memoryview(bytearray(1)))
        return False

    def interest(self) -> Interest:
        return Interest.READ


class WrongTransport:
    """Opens wrong layers."""

    def __init__(self, layer: type[Right]) -> None:
        self._layer = layer

    def targets(self, host: str, port: int) -> Sequence[Target] | None:
        return None

    def open(self, sock: socket.socket, host: str, port: int) -> Right:
        return self._layer(sock)


class RightTransport(WrongTransport):
    """Keeps all promises."""

    def __init__(self) -> None:
        super().__init__(Right)


class Refused(Right):
    """Waits for an answer of one byte, `+`; reports another one."""

    answer = b""

    def handshake(self) -> bool:
        try:
            self.answer = self.answer or self.sock.recv(1)
        except BlockingIOError:
            return False
        if self.answer != b"+":
            self.refuse()
        return True

    def refuse(self) -> None:
        raise ConnectionFailedError("the gateway refused; check its rules")

    def interest(self) -> Interest:
        return super().interest() if self.answer else Interest.READ


class Answering(PlainPeer):
    """A gateway that answers with one byte, and is the broker from then on."""

    def __init__(self, sock: socket.socket, answer: bytes) -> None:
        super().__init__(sock)
        self.write(answer)


class IgnoresRefusals(Refused):
    def refuse(self) -> None:
        pass


class WaitsAfterRefusals(Refused):
    def handshake(self) -> bool:
        try:
            return super().handshake()
        except ConnectionFailedError:
            return False

    def interest(self) -> Interest:
        return Interest.READ


class RaisesOsErrors(Refused):
    def refuse(self) -> None:
        raise OSError("refused")


class QuotesEverything(Refused):
    def refuse(self) -> None:
        raise ConnectionFailedError("no" * 5000)


class ShowsItsTokenInErrors(Refused):
    def refuse(self) -> None:
        raise ConnectionFailedError("refused: my-token-of-the-gateway")


class ShowsItsTokenInDetails(Refused):
    def details(self) -> Sequence[tuple[str, str]]:
        return [("through", "my-token-of-the-gateway")]


class ShowsItsTokenInItsRepr(Refused):
    def __repr__(self) -> str:
        return "my-token-of-the-gateway"


class LogsItsToken(Refused):
    def handshake(self) -> bool:
        logging.getLogger("gateway").debug("the token is %s", "my-token-of-the-gateway")
        return super().handshake()


class Shared(WrongTransport):
    """The same layer's memory for every connection."""

    def __init__(self) -> None:
        super().__init__(Right)
        self.first: Right | None = None

    def open(self, sock: socket.socket, host: str, port: int) -> Right:
        self.first = self.first or Right(sock)
        return self.first


class WrongTargets(WrongTransport):
    def __init__(self) -> None:
        super().__init__(Right)

    def targets(self, host: str, port: int) -> Any:
        return [(host, port)]


class NoTargets(WrongTargets):
    def targets(self, host: str, port: int) -> Any:
        return []


class RightOver:
    """Keeps all promises over another layer, with 64 kB ahead of it at most."""

    def __init__(self, lower: TransportLayer) -> None:
        self.lower = lower
        self.begun = False
        self.held = bytearray()

    def handshake(self) -> bool:
        self.begun = self.begun or self.lower.handshake()
        return self.begun

    def write(self, chunks: Sequence[Buffer]) -> int:
        if not self.flush():
            return 0
        taken = b"".join(chunks)[:65536]
        self.held += taken
        self.flush()
        return len(taken)

    def flush(self) -> bool:
        return self.passes_on() and self.lower.flush()

    def passes_on(self) -> bool:
        while self.held:
            taken = self.lower.write([bytes(self.held)])
            if not taken:
                return False
            del self.held[:taken]
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        return self.lower.read_into(buffer)

    def interest(self) -> Interest:
        return self.lower.interest() | (Interest.WRITE if self.held else Interest.NONE)

    def may_read(self) -> bool:
        return self.lower.may_read()

    def close(self) -> None:
        self.lower.close()


class SkipsTheLowerHandshake(RightOver):
    def handshake(self) -> bool:
        return True


class ForgetsTheLowerFlush(RightOver):
    def flush(self) -> bool:
        return self.passes_on()


class IgnoresTheLowerInterest(RightOver):
    def interest(self) -> Interest:
        return Interest.NONE


class HidesLowerBytes(RightOver):
    def may_read(self) -> bool:
        return False


class StopsBeforeTheLowerLayer(RightOver):
    """Passes on nothing until it has two pieces of the lower layer, and reads one in a call."""

    def __init__(self, lower: TransportLayer) -> None:
        super().__init__(lower)
        self.first: bytes | None = None

    def read_into(self, buffer: memoryview) -> int | None:
        if self.first is not None:
            first, self.first = self.first, None
            buffer[: len(first)] = first
            return len(first)
        piece = bytearray(len(buffer))
        got = self.lower.read_into(memoryview(piece))
        if got:
            self.first = bytes(piece[:got])
            return None
        return got


class ReadsWhileTheLowerLayerMayRead(RightOver):
    """Takes a hint for a promise."""

    def read_into(self, buffer: memoryview) -> int | None:
        until = time.monotonic() + 1.5  # what is caught is just this
        while self.lower.may_read() and time.monotonic() < until:
            got = self.lower.read_into(buffer)
            if got is not None:
                return got
        return self.lower.read_into(buffer)


class LeavesTheLowerLayerOpen(RightOver):
    def close(self) -> None:
        pass


class WrongOverTransport(WrongTransport):
    """Opens wrong layers over others, and right ones over sockets."""

    def __init__(self, layer: type[RightOver]) -> None:
        super().__init__(Right)
        self._over = layer

    def open_over(self, lower: TransportLayer, host: str, port: int) -> RightOver:
        return self._over(lower)
