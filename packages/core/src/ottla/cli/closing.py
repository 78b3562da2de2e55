"""The end of a command's producer."""

from __future__ import annotations

from contextlib import suppress

from ottla import Producer
from ottla.errors import UndeliveredError


def close(producer: Producer, timeout: float | None) -> None:
    """Close the producer; the deliveries have the errors. Ctrl-C ends the wait."""
    try:
        producer.close(timeout)
    except UndeliveredError:
        return
    except KeyboardInterrupt:
        with suppress(UndeliveredError):
            producer.close(0)
