"""What a simulated broker responds, and responses that it gives later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs


@attrs.frozen
class KnownResponse:
    """A response without its length field, or None if nothing is sent.

    Afterwards, the broker reads nothing from this connection for `muted_seconds`.
    """

    content: bytes | None = None
    muted_seconds: float = attrs.field(default=0.0, kw_only=True)


class PendingResponse:
    """A response that is perhaps not known yet. Until it is, the broker reads nothing more from the connection."""

    def __init__(self) -> None:
        self._then: Callable[[KnownResponse], object] | None = None
        self._given: KnownResponse | None = None

    @property
    def known(self) -> KnownResponse | None:
        """The response, None until it is known."""
        return self._given

    def give(self, response: KnownResponse) -> None:
        """Complete it."""
        self._given = response
        if self._then is not None:
            self._then(response)

    def then(self, action: Callable[[KnownResponse], object]) -> None:
        """Call a function with the response as soon as it is known."""
        self._then = action
        if self._given is not None:
            action(self._given)


Response: TypeAlias = "KnownResponse | PendingResponse"


def when_known(response: Response, action: Callable[[KnownResponse], object]) -> None:
    """Call a function with a response, immediately if it is known."""
    if isinstance(response, PendingResponse):
        response.then(action)
    else:
        action(response)


def content_of(response: Response) -> bytes | None:
    """Return the content of a response that is known: none is late if followers need no batch."""
    assert isinstance(response, KnownResponse), "only of a known response"
    return response.content


def changed(response: Response, change: Callable[[bytes | None], bytes | None]) -> PendingResponse:
    """Return the response with its content as *change* changes it."""
    pending = PendingResponse()
    when_known(response, lambda known: pending.give(attrs.evolve(known, content=change(known.content))))
    return pending
