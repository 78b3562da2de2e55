"""Awaited deliveries in C: which producers have them, and what they refuse. Their waits have the core's tests, too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla import Delivery
from ottla.aio import AsyncProducer
from ottla_accel.waiting import AwaitedDelivery, AwaitedRecord
from simulated_producer import simulated

pytestmark = pytest.mark.unmeasured


@pytest.mark.parametrize(("encoder", "wanted"), [("native", AwaitedDelivery), ("python", Delivery)])
def test_asynchronous_producers_have_deliveries_in_c(encoder: str, wanted: type[Delivery]) -> None:
    with simulated(0, config={"record.encoder": encoder, "linger.ms": 1000}) as simulation:
        producer = AsyncProducer.__new__(AsyncProducer)
        producer._begin(simulation.producer)
        first = asyncio.run(producer.send("t", b"begins a batch"))
        second = asyncio.run(producer.send("t", b"is appended to it"))
        with_headers = asyncio.run(producer.send("t", b"v", headers=[("name", b"content")]))

        assert [type(each) for each in (first, second, with_headers)] == [wanted] * 3
        assert type(simulation.producer.send("t", b"v")) is Delivery


@pytest.mark.parametrize("other", [None, object(), Delivery])
def test_only_a_delivery_can_be_awaited(other: Any) -> None:
    with pytest.raises(TypeError, match="is no delivery"):
        AwaitedDelivery.__await__(other)


def test_a_delivery_or_wait_made_without_its_constructor_is_refused() -> None:
    with pytest.raises(TypeError, match="without its constructor"):
        next(AwaitedDelivery.__await__(AwaitedDelivery.__new__(AwaitedDelivery)))
    with pytest.raises(TypeError, match="without its constructor"):
        next(AwaitedRecord(None))  # type: ignore[call-overload]  # it has no __next__ for type checkers
