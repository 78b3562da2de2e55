"""Who is at the other end of a login: written by the mechanism's author, asked by the suite."""

from __future__ import annotations

from typing import Protocol


class SaslBroker(Protocol):
    """The broker's half of one login: knows what a broker would know of the user, and checks it."""

    satisfied: bool
    """Whether it knows by now who is there, and lets them in."""

    def answer(self, data: bytes) -> bytes:
        """Its next message, empty when there is nothing to say. Raises ValueError for what a broker would refuse."""
