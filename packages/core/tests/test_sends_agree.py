"""The `send` that waits and the one that never blocks: the same errors, partitions and bytes for the same records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from long_forms import LONG

from ottla import Delivery, OttlaError, RecordMetadata
from ottla.accumulator.running_loop import RUNNING_LOOP
from ottla.interfaces import ProducerRecord
from ottla.producer.build import build_nonblocking_send
from ottla.producer.nonblocking_send import PendingSend
from simulated_producer import Simulated, simulated

Arguments: TypeAlias = Mapping[str, Any]
Send: TypeAlias = Callable[..., Delivery]
Outcome: TypeAlias = tuple[str, str] | Delivery

SOUND: Final[Arguments] = {
    "topic": ["t"],
    "value": [b"v", b"", None, bytearray(b"array"), bytes(2_000)],
    "key": [None, b"a", b"b", memoryview(b"c")],
    "headers": [(), [("h", b"1")], {"h": None}],
    "partition": [None, None, 0, 1],
    "timestamp_ms": [7, 1_700_000_000_000, datetime(2026, 1, 31, 12, tzinfo=UTC)],
    "on_delivery": [None, repr],
    "timeout": [None, None, 0],
}
TOO_LARGE: Final = bytes(2_000_000)
NOT_UNICODE: Final = [("\ud800", b"")]
FAULTY: Final[Arguments] = {
    "topic": ["no name", "", 5, ["t"], "unknown"],
    "value": [1, "text", TOO_LARGE],
    "key": [1, "text", TOO_LARGE],
    "headers": [[1], [("h", "text")], NOT_UNICODE, {"h": TOO_LARGE}],
    "partition": [-1, "0", True, 2, 7],
    "timestamp_ms": [-1, "now", True, 2**63, datetime(2026, 1, 31, 12), datetime(1969, 12, 31, tzinfo=UTC)],
    "on_delivery": [5, lambda: None, lambda _error, _message: None, partial(lambda _delivery: None, None)],
    "timeout": ["3", timedelta(seconds=3)],
}


class Noting:
    """An interceptor that notes the outcomes of records."""

    ottla_spec = 2

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, int, str]] = []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None, context: object) -> None:
        self.outcomes.append((metadata.partition, metadata.offset, repr(error)))


@st.composite
def records(draw: st.DrawFn) -> Arguments:
    """The arguments of a send with up to three faults, most often with two."""
    faulty = draw(st.sets(st.sampled_from(sorted(FAULTY)), max_size=3))
    made = {name: draw(st.sampled_from((FAULTY if name in faulty else SOUND)[name])) for name in SOUND}
    # If a batch is open, the name of the header is refused first, otherwise the size.
    assume(made["headers"] != NOT_UNICODE or TOO_LARGE not in (made["value"], made["key"]))
    return made


def _up_to_the_first_fault(sends: Sequence[Arguments]) -> Sequence[Arguments]:
    faults = [any(send[name] not in SOUND[name] for name in SOUND) for send in sends]
    return sends[: faults.index(True) + 1] if True in faults else sends


def waiting(simulation: Simulated) -> Send:
    return simulation.producer.send


def nonblocking(simulation: Simulated) -> Send:
    """The send of an event loop, with waits that end at once, as those of `max.block.ms=0` do."""
    slow, quick = build_nonblocking_send(
        simulation.producer._engine, simulation.producer._check_sendable, event_loop=RUNNING_LOOP
    )

    def send(**arguments: Any) -> Delivery:
        made = quick(**arguments)
        if isinstance(made, PendingSend):
            made.time_out(waited=0.0)
            made = made.advance()  # type: ignore[assignment]
        assert isinstance(made, Delivery), slow
        return made

    return send


def outcome(send: Send, arguments: Arguments) -> Outcome:
    try:
        return send(**arguments)
    except (OttlaError, TypeError) as error:
        return type(error).__name__, str(error)


def after(
    sends: Sequence[Arguments], choose: Callable[[Simulated], Send], config: Mapping[str, Any], *, intercepted: bool
) -> tuple[object, ...]:
    """Everything that may differ after these sends."""
    noting = Noting()
    plugins = {"interceptors": {"noting": noting}} if intercepted else {}
    closed = config.get("closed", False)
    config = {name: value for name, value in config.items() if name != "closed"}
    with simulated(1, 1, config={"max.block.ms": 0, **config}, plugins=plugins) as simulation:
        if closed:
            simulation.producer.close()
        if "transactional.id" in config:
            simulation.producer.init_transactions(60)
        send = choose(simulation)
        outcomes = [outcome(send, arguments) for arguments in sends]
        simulation.run_until_idle()
        return (
            [(each.partition, each.error, each.metadata) if isinstance(each, Delivery) else each for each in outcomes],
            [
                [(record.key, record.value, tuple(record.headers), record.timestamp_ms) for record in log]
                for _partition, log in sorted(simulation.cluster.topics["t"].log.items())
            ],
            noting.outcomes,
        )


@pytest.mark.parametrize("intercepted", [False, True], ids=["plain", "intercepted"])
@pytest.mark.parametrize(
    "config",
    [
        {"record.encoder": "python"},
        {"record.encoder": "native"},
        {"value.serializer": "string", "key.serializer": "string"},
        {"partitioner.class": "round_robin"},
        {"transactional.id": "outside of transactions"},
        {"closed": True},
    ],
    ids=lambda config: ",".join(map(str, config.values())),
)
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # else it hides what differs
@settings(max_examples=500 if LONG else 15)
@given(sends=st.lists(records(), min_size=1, max_size=4))
def test_both_sends_refuse_and_send_the_same_records(
    config: Mapping[str, Any], intercepted: bool, sends: Sequence[Arguments]
) -> None:
    if config.get("record.encoder") == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    if "partitioner.class" in config:  # one of them asks it before it finds a record too large, which moves it on
        sends = _up_to_the_first_fault(sends)

    assert after(sends, nonblocking, config, intercepted=intercepted) == after(
        sends, waiting, config, intercepted=intercepted
    )


@pytest.mark.parametrize("topic", ["t", "unknown"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("timeout", "on_delivery"),
        ("on_delivery", "headers"),
        ("headers", "value"),
        ("value", "key"),
        ("key", "timestamp_ms"),
        ("timestamp_ms", "partition"),
    ],
)
@pytest.mark.parametrize("choose", [waiting, nonblocking])
def test_the_first_fault_of_a_record_is_reported(
    choose: Callable[[Simulated], Send], first: str, second: str, topic: str
) -> None:
    with simulated(1, config={"max.block.ms": 0}) as simulation:
        lone = {"topic": topic, "value": b"v", first: FAULTY[first][0]}

        assert outcome(choose(simulation), {**lone, second: FAULTY[second][0]}) == outcome(choose(simulation), lone)


@pytest.mark.parametrize("choose", [waiting, nonblocking])
@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_partition_is_checked_before_the_size_and_both_before_any_wait(
    choose: Callable[[Simulated], Send], topic: str
) -> None:
    with simulated(1, config={"max.block.ms": 0}) as simulation:
        send = choose(simulation)

        def refusal(**arguments: Any) -> str:
            made = outcome(send, {"value": bytes(2_000_000), **arguments})
            assert not isinstance(made, Delivery)
            return made[1]

        assert "is not a topic name" in refusal(topic="no name", partition=-1)
        assert "partition must be" in refusal(topic=topic, partition=-1)
        assert "max.request.size" in refusal(topic=topic, partition=7)
