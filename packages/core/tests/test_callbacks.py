"""The check of `on_delivery`, and what a callback reads from the delivery that it gets."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import MethodType
from typing import Any
from unittest.mock import Mock

import error_copies
import pytest

from ottla import DeliveryError, InvalidRecordError, RecordMetadata
from ottla.accumulator.delivery import Delivery
from ottla.errors import ErrorCode
from ottla.producer.callbacks import UNCHECKED, check_callback
from simulated_producer import simulated


def one(delivery: Delivery) -> None:
    """As it should be."""


def two(err: object, msg: object) -> None:
    """As other clients call it."""


class Called:
    """A class with callbacks of each kind."""

    def __call__(self, delivery: Delivery) -> None:
        """As it should be."""

    def method(self, delivery: Delivery) -> None:
        """As it should be."""

    def two(self, err: object, msg: object) -> None:
        """As other clients call it."""

    @classmethod
    def of_class(cls, delivery: Delivery) -> None:
        """As it should be."""


class CalledWithTwo:
    """An object that other clients can call."""

    def __call__(self, err: object, msg: object) -> None:
        """As other clients call it."""


class StaticCall:
    """An object whose call has no self."""

    @staticmethod
    def __call__(delivery: Delivery) -> None:
        """As it should be."""


@functools.wraps(two)
def adapted(*arguments: object) -> None:
    """Adapt a function of another client."""


SOUND: dict[str, Callable[..., object]] = {
    "function": one,
    "lambda": lambda delivery: None,
    "any number": lambda *arguments: None,
    "default": lambda delivery, name="bound in a loop": None,
    "keyword with default": lambda delivery, *, name="": None,
    "method": Called().method,
    "class method": Called.of_class,
    "object": Called(),
    "object with a static call": StaticCall(),
    "class": Called,
    "built-in": [].append,
    "partial": partial(lambda name, delivery: None, "name"),
    "partial with a keyword": partial(lambda delivery, name: None, name="name"),
    "partial with a keyword-only argument": partial(lambda delivery, *, name: None, name="name"),
    "partial of a method": partial(Called().method),
    "partial of a class's method": partial(Called.method, Called()),
    "partial of a built-in": partial([].append),
    "method of an object": MethodType(Called(), object()),
    "wrapper": adapted,
    "mock": Mock(),
}


@pytest.mark.parametrize("kind", SOUND)
def test_a_callback_that_takes_one_argument_is_accepted(kind: str) -> None:
    check_callback(SOUND[kind])


PORTED: dict[str, Callable[..., object]] = {
    "function": two,
    "lambda": lambda metadata, error: None,
    "method": Called().two,
    "function of a class": Called.two,
    "object": CalledWithTwo(),
    "partial": partial(lambda name, err, msg: None, "name"),
    "partial with a keyword": partial(lambda err, msg, name: None, name="name"),
    "partial of a method": partial(Called().two),
    "required keyword": lambda delivery, *, name: None,
    "three": lambda a, b, c=None: None,
}


if sys.version_info >= (3, 14):
    from functools import Placeholder

    SOUND |= {
        "partial with a gap": partial(lambda delivery, name: None, Placeholder, "name"),
        "partial with a gap for a default": partial(lambda delivery=None, name="": None, Placeholder, "name"),
        "partial of a method with a gap": partial(Called.two, Called(), Placeholder, "name"),
        "partial of any number with a gap": partial(lambda *arguments: None, Placeholder, "name"),
    }
    PORTED |= {
        "partial with two gaps": partial(lambda err, msg, name: None, Placeholder, Placeholder, "name"),
        "partial with one gap and more": partial(lambda err, name, msg: None, Placeholder, "name"),
    }


@pytest.mark.rule("producer.send.refused.callback")
@pytest.mark.parametrize("kind", PORTED)
def test_a_callback_that_takes_more_than_one_argument_is_refused(kind: str) -> None:
    with pytest.raises(
        TypeError, match=r"^on_delivery is called with one argument, the record's delivery, and .*takes"
    ):
        check_callback(PORTED[kind])


async def awaited(delivery: object) -> None:
    """Nothing."""


@pytest.mark.parametrize("callback", [awaited, partial(awaited)])
def test_a_coroutine_function_is_refused_because_nothing_would_await_it(callback: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"awaited is a coroutine function: nothing would await it"):
        check_callback(callback)


def generator(_delivery: object) -> Iterator[None]:
    yield


async def async_generator(_delivery: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("callback", [generator, async_generator, partial(generator)])
def test_a_generator_function_is_refused_because_nothing_of_it_would_run(callback: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match=r"generator is a generator function: nothing would iterate over"):
        check_callback(callback)


NONE: Any = None


@pytest.mark.parametrize("callback", [lambda: None, partial(one, NONE), partial(one, delivery=NONE)])
def test_a_callback_that_takes_no_argument_is_refused(callback: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="takes none: define it as f"):
        check_callback(callback)


def test_the_refusal_of_a_callback_shows_its_signature_and_what_to_read() -> None:
    with pytest.raises(TypeError) as caught:
        check_callback(Called().two)

    assert str(caught.value) == (
        "on_delivery is called with one argument, the record's delivery, and Called.two(err: 'object', msg: 'object') "
        "-> 'None' takes more: define it as f(delivery); delivery.error is None if the record was acknowledged, and "
        "delivery.metadata is None if it was not"
    )


def test_functions_of_one_definition_are_checked_once() -> None:
    made = [lambda delivery, number=number: number for number in range(2)]

    assert check_callback(made[0]) is check_callback(made[1])
    assert check_callback(Called().method) is check_callback(Called().method)
    assert check_callback(partial(one)) is check_callback(one)
    assert check_callback(Called()) is Called
    # Only PyPy's built-in functions have code objects.
    assert check_callback(partial([].append)) is getattr([].append, "__code__", UNCHECKED)


@pytest.mark.rule("producer.send.refused.callback")
@pytest.mark.parametrize("interceptors", [False, True])
def test_send_refuses_a_callback_with_two_arguments_and_queues_nothing(interceptors: bool) -> None:
    class Passive:
        def on_send(self, _topic: str, *record: Any) -> Any:
            return record

        def on_acknowledgement(self, _metadata: RecordMetadata, _error: Exception | None) -> None:
            """Ignore it."""

    plugins = {"interceptors": {"passive": Passive()}} if interceptors else {}
    called: list[Delivery] = []
    with simulated(1, plugins=plugins) as simulation:
        for sound in (one, called.append, Called(), partial(called.append)):
            simulation.producer.send("t", b"v", on_delivery=sound)
            for ported in (two, Called().two, partial(two), CalledWithTwo()):
                with pytest.raises(TypeError, match="takes more"):
                    simulation.producer.send("t", b"w", on_delivery=ported)  # type: ignore[arg-type]  # the test's point
            with pytest.raises(InvalidRecordError, match="not int"):
                simulation.producer.send("t", b"w", on_delivery=5)  # type: ignore[arg-type]  # the test's point
        simulation.run_until_idle()

        assert simulation.log() == [b"v"] * 4
        assert len(called) == 2


def test_a_producer_keeps_no_callback_alive() -> None:
    with simulated(1) as simulation:
        callback = Called()
        simulation.producer.send("t", b"v", on_delivery=callback.method)
        simulation.producer.send("t", b"v", on_delivery=partial(callback))
        simulation.producer.send("t", b"v", on_delivery=callback)
        simulation.run_until_idle()
        left = weakref.ref(callback)
        del callback
        gc.collect()

        assert left() is None


# The delivery of a callback


@pytest.mark.rule("producer.callback.once")
def test_a_callback_reads_the_outcome_from_its_delivery() -> None:
    called: list[Delivery] = []
    with simulated(1) as simulation:
        sent = simulation.producer.send("t", b"v", b"key", partition=0, timestamp_ms=7, on_delivery=called.append)
        simulation.run_until_idle()
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        simulation.producer.send("t", b"v", partition=0, on_delivery=called.append)
        simulation.run_until_idle()

    good, bad = called
    expected = RecordMetadata("t", 0, 0, 7, 3, 1)
    assert (good.topic, good.partition, good.metadata, good.error) == ("t", 0, expected, None)
    assert (good.done(), good.result(0), good.exception(0)) == (True, expected, None)
    assert (sent.metadata, sent.error, repr(sent)) == (expected, None, repr(good))
    assert (bad.topic, bad.partition, bad.metadata) == ("t", 0, None)
    assert isinstance(bad.error, DeliveryError)
    assert bad.done()
    assert error_copies.same(bad.exception(0), bad.error)
    with pytest.raises(DeliveryError):
        bad.result(0)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        good.__reduce__()


@pytest.mark.parametrize("encoder", ["python", "native"])
@pytest.mark.parametrize("read", [0, 1, 7], ids=["none", "each", "each seventh"])
def test_a_delivery_that_a_callback_keeps_stays_as_it_was(encoder: str, read: int) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    kept: list[Delivery] = []
    seen: list[RecordMetadata | None] = []

    def keep(delivery: Delivery) -> None:
        if len(kept) % 5:
            kept.append(delivery)
        else:
            kept.append(Mock(metadata=delivery.metadata, error=delivery.error, partition=delivery.partition))
        if read and len(kept) % read == 0:
            seen.append(delivery.metadata)

    with simulated(1, 1, config={"record.encoder": encoder}) as simulation:
        for number in range(60):
            callback = keep if number % 3 else None
            simulation.producer.send(
                "t", bytes(number), partition=number % 2, timestamp_ms=number, on_delivery=callback
            )
        simulation.run_until_idle()

    expected = [(number, number % 2) for part in (0, 1) for number in range(part, 60, 2) if number % 3]
    reported = [(each.metadata.serialized_value_size, each.partition) for each in kept if each.metadata is not None]
    assert sorted(reported) == sorted(expected)
    assert all(each.error is None for each in kept)
    assert [each.metadata for each in kept][read - 1 :: read or 60][: len(seen)] == seen
    assert {each.metadata for each in kept} == {
        RecordMetadata("t", number % 2, number // 2, number, -1, number) for number, _partition in expected
    }


def test_a_kept_delivery_does_not_keep_the_metadata_of_other_records() -> None:
    kept: list[Delivery] = []

    def keep(delivery: Delivery) -> None:
        kept.append(delivery)
        assert delivery.metadata is not None

    with simulated(1) as simulation:
        for _ in range(10):
            simulation.producer.send("t", b"v", on_delivery=keep)
        simulation.run_until_idle()

    [shared] = {id(each._shared): each._shared for each in kept}.values()  # type: ignore[attr-defined]
    assert shared == [None]


def test_a_pending_delivery_has_neither_metadata_nor_an_error() -> None:
    with simulated(1, 1, linger_ms=1_000) as simulation:
        delivery, keyed = simulation.producer.send("t", b"v", partition=1), simulation.producer.send("t", b"v", b"key")

        assert (delivery.topic, delivery.partition, delivery.metadata, delivery.error) == ("t", 1, None, None)
        assert (keyed.partition, keyed.done()) == (None, False)
        simulation.run_until_idle()
        assert keyed.partition == keyed.result(0).partition


@pytest.mark.rule("producer.report.retrieved")
def test_reading_the_error_of_a_delivery_counts_as_retrieved() -> None:
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        delivery = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        assert isinstance(delivery.error, DeliveryError)
        assert simulation.producer.flush(0).failed == 1


async def nothing_awaits_it(_delivery: object) -> None:
    """Nothing would await it."""


class CalledAndAwaited:
    """An object whose call is a coroutine function."""

    async def __call__(self, _delivery: object) -> None:
        """Nothing would await it."""


@pytest.mark.parametrize(
    "callback",
    [nothing_awaits_it, partial(partial(nothing_awaits_it)), CalledAndAwaited(), CalledAndAwaited().__call__],
)
def test_a_delivery_refuses_coroutine_functions_as_callbacks(callback: Callable[[object], object]) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    with simulated(1) as simulation:
        deliveries: list[Any] = [
            simulation.producer.send("t", b"v"),
            simulation.producer.send_table("t", pyarrow.table({"value": [b"v"]})),
        ]
        for delivery in deliveries:
            with pytest.raises(TypeError, match=r"the callback must be a plain function, and .* is a coroutine"):
                delivery.add_done_callback(callback)
