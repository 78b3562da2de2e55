"""A hash of all bytes of a simulated network with their times, to check that two histories are equal."""

from __future__ import annotations

from hashlib import blake2b


class Trace:
    """Every request as it arrives at a broker, and all bytes that brokers send."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.entries = 0

    def note(self, now: float, node: int, way: str, data: bytes) -> None:
        """Add bytes of a connection; *way* is ">" to the broker, "<" to the client."""
        self.entries += 1
        self._hash.update(f"{now!r} {node} {way} {len(data)} ".encode())
        self._hash.update(data)

    @property
    def digest(self) -> str:
        """A digest that is equal for equal histories."""
        return self._hash.hexdigest()
