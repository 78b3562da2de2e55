"""The broker's end of a simulated connection: it returns requests once they are complete, while the broker reads."""

from __future__ import annotations

from typing import Final

import attrs

from ottla_testkit.simulation.login import HangUpError

LARGEST_REQUEST: Final = 100 * 1024 * 1024
"""Maximum bytes of a request: the default of brokers' `socket.request.max.bytes`."""


@attrs.define(eq=False)
class BrokerEnd:
    """The broker's socket. While it is frozen, its system still buffers bytes."""

    frozen: bool = False
    unread: list[bytes] = attrs.field(factory=list)
    _read: bytearray = attrs.field(factory=bytearray)

    def arrive(self, data: bytes) -> bool:
        """Buffer bytes from the client; return False if the broker is frozen and does not read them."""
        if self.frozen:
            self.unread.append(data)
            return False
        self._read += data
        return True

    def take_unread(self) -> list[bytes]:
        """Return the bytes that came while the broker was frozen, and forget them."""
        unread, self.unread = self.unread, []
        return unread

    def next_request(self) -> bytes | None:
        """Return the next complete request, without its size; None if there is none. Raises HangUpError."""
        if len(self._read) < 4:
            return None
        size = int.from_bytes(self._read[:4], "big", signed=True)
        if not 0 <= size <= LARGEST_REQUEST:
            raise HangUpError
        if len(self._read) < 4 + size:
            return None
        request = bytes(self._read[4 : 4 + size])
        del self._read[: 4 + size]
        return request
