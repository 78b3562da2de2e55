"""A response that a simulated broker gives later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias


class PendingResponse:
    """A response that is not known yet: later it gets its bytes, or None if there is no response.

    Until then, the broker reads nothing more.
    """

    def __init__(self) -> None:
        self._then: Callable[[bytes | None], object] | None = None
        self._given: tuple[bytes | None] | None = None

    @property
    def known(self) -> bool:
        """Whether it is complete."""
        return self._given is not None

    @property
    def content(self) -> bytes | None:
        """The bytes of a complete one."""
        assert self._given is not None, "only of a complete response"
        return self._given[0]

    def give(self, response: bytes | None) -> None:
        """Complete it."""
        self._given = (response,)
        if self._then is not None:
            self._then(response)

    def then(self, action: Callable[[bytes | None], object]) -> None:
        """Call a function with the response as soon as it is known."""
        self._then = action
        if self._given is not None:
            action(*self._given)


Response: TypeAlias = "bytes | PendingResponse | None"


def when_known(response: Response, action: Callable[[bytes | None], object]) -> None:
    """Call a function with a response, immediately unless it is a pending one."""
    if isinstance(response, PendingResponse):
        response.then(action)
    else:
        action(response)


def changed(response: Response, change: Callable[[bytes | None], bytes | None]) -> PendingResponse:
    """Return the response as *change* changes it."""
    pending = PendingResponse()
    when_known(response, lambda content: pending.give(change(content)))
    return pending
