"""The end of a caller's interest in a call that goes on, on another thread."""

from __future__ import annotations


class Cancellation:
    """What a call asks, on its own thread, before each step that its caller could still prevent. For any thread."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None
        """The error that ends the call, once it is cancelled."""

    def cancel(self, error: Exception) -> None:
        """Have the next `check` raise *error*. Does not wait for the call."""
        self.error = error

    def check(self) -> None:
        """Raise the error of `cancel` if that was called."""
        if self.error is not None:
            raise self.error
