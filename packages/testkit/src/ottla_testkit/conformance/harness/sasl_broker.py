"""The broker's side of a login: implemented by the mechanism's author, called by the suite."""

from __future__ import annotations

from typing import Protocol


class SaslBroker(Protocol):
    """The broker's half of one login: it holds the broker's data about the user, and checks the user against them."""

    satisfied: bool
    """Whether the user is authenticated by now."""

    def answer(self, data: bytes) -> bytes:
        """Return the broker's next message, empty if there is none. Raises ValueError if a broker would refuse."""
