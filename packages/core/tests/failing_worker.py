"""Work for a process of a pool, which has to be able to import it."""

from __future__ import annotations

from typing import NoReturn

from ottla.errors import BrokerError, DeliveryError, ErrorCode


def fail() -> NoReturn:
    """Raise the error of a record, with its cause."""
    error = DeliveryError("lost", topic="t", partition=1, attempts=2, possibly_persisted=True)
    raise error from BrokerError(ErrorCode.INVALID_RECORD)
