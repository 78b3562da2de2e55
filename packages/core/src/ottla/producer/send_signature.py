"""The signature that all versions of `send` have; `producer.build.choose_send` lists the versions."""

from __future__ import annotations

import weakref
from datetime import datetime
from typing import Any, Protocol

from ottla.accumulator.delivery import Delivery, OnDelivery
from ottla.errors import ProducerClosedError
from ottla.interfaces import Headers


class Send(Protocol):
    """`Producer.send`, bound to a producer."""

    def __call__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        """Queue a record and return its delivery; `Producer.send` documents the arguments and errors."""


def weak_send(producer: object) -> Send:
    """A producer's method `send`, with a weak reference: a dropped producer must end without the cycle collector."""
    reference = weakref.ref(producer)

    def send(
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        on_delivery: OnDelivery | None = None,
        timeout: float | None = None,
    ) -> Delivery:
        kept: Any = reference()
        if kept is None:
            raise ProducerClosedError(
                "the producer was garbage-collected; keep a reference to it while its send is used"
            )
        delivery: Delivery = type(kept).send(
            kept,
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
            timeout=timeout,
        )
        return delivery

    method: Any = type(producer).send  # type: ignore[attr-defined]  # a producer has one
    send.__doc__ = method.__doc__
    return send
