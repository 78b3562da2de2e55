"""`max.block.ms`, or the `timeout` of one call, is one budget for all that the call waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from ottla import BufferExhaustedError, Delivery, SerializationError, TopicUnavailableError
from ottla.errors import IllegalStateError, NotPreparedError
from ottla.interfaces import Header
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import Simulated, simulated

BUDGET_MS = 5_000


@contextmanager
def metadata_late(monkeypatch: pytest.MonkeyPatch, *, seconds: float, **config: Any) -> Iterator[Simulated]:
    """A producer without free memory, to which news of the topics "late" and "t" come after so many seconds."""
    config = {"max_block_ms": BUDGET_MS, **config}
    with simulated(1, 1, buffer_memory=20_000, linger_ms=3_600_000, **config) as simulation:
        simulation.producer.send("t", bytes(18_000), partition=0)

        changed = simulation.metadata._changed

        def wait(_left: float) -> None:
            changed.__exit__(None, None, None)  # as who waits lets go of it
            bring_news()
            changed.__enter__()

        def bring_news() -> None:
            simulation.clock.advance(seconds)
            simulation.cluster.create("late", 1, 1)
            simulation.cluster.create("t", 1, 1, 1)
            simulation.know("late")
            simulation.metadata.request_update()
            simulation.pass_time(0.0)

        monkeypatch.setattr(changed, "wait", wait)
        monkeypatch.setattr(simulation, "pass_time", lambda _seconds: None)
        yield simulation


def test_a_record_outside_of_a_transaction_waits_for_no_topic() -> None:
    with simulated(1, config={"transactional.id": "mine"}) as simulation:
        began = simulation.clock()
        with pytest.raises(IllegalStateError, match="init_transactions"):
            simulation.producer.send("missing", b"v")

        assert simulation.clock() == began


def send(simulation: Simulated, **options: Any) -> object:
    return simulation.producer.send("late", bytes(4_000), **options)


def send_with_key(simulation: Simulated, **options: Any) -> object:
    return simulation.producer.send("late", bytes(4_000), b"key", **options)


def send_to_new_partition(simulation: Simulated, **options: Any) -> object:
    return simulation.producer.send("t", bytes(4_000), partition=2, **options)


def send_table(simulation: Simulated, **options: Any) -> object:
    pyarrow = pytest.importorskip("pyarrow")
    return simulation.producer.send_table("late", pyarrow.table({"value": [bytes(4_000)]}), **options)


def send_sealed(simulation: Simulated) -> object:
    pyarrow = pytest.importorskip("pyarrow")
    from ottla.tables.sealed import TableSealer

    sealer = TableSealer({"bootstrap.servers": "seed:9092"}, {"late": 2})
    [batch] = sealer.seal("late", pyarrow.table({"value": [bytes(4_000)]})).batches
    return simulation.producer.send_sealed(batch)


@pytest.mark.rule("pool.timeout")
@pytest.mark.parametrize("call", [send, send_with_key, send_to_new_partition, send_table, send_sealed])
@pytest.mark.parametrize("encoder", ["python", "native"])
def test_time_spent_on_metadata_is_not_available_for_memory(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Simulated], object], encoder: str
) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    with metadata_late(monkeypatch, seconds=BUDGET_MS / 1_000, record_encoder=encoder) as simulation:
        reserve, timeouts = simulation.pool.reserve, []

        def note(size: int, *, timeout: float, **options: Any) -> None:
            timeouts.append(timeout)
            reserve(size, timeout=0.0, **options)

        monkeypatch.setattr(simulation.pool, "reserve", note)
        with pytest.raises(BufferExhaustedError, match=r"waited 0\.000 s after 5\.000 s of other waits of this call"):
            call(simulation)

        assert timeouts == [0.0]


# The timeout of one call

WITH_TIMEOUT = pytest.mark.parametrize("call", [send, send_with_key, send_to_new_partition, send_table])


class Passive:
    """An interceptor that changes nothing, not even tables."""

    ottla_spec = 2

    def on_send(self, record: Any) -> Any:
        return record

    def on_send_table(self, rows: Any) -> Any:
        return rows

    def on_acknowledgement(self, metadata: object, error: object, context: object) -> None:
        """Ignore it."""


@pytest.fixture(params=["python", "native"])
def encoder(request: pytest.FixtureRequest) -> str:
    """The name of an encoder that is installed."""
    if request.param == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    return str(request.param)


def plugins(*, intercepted: bool) -> dict[str, Any]:
    return {"interceptors": {"passive": Passive()}} if intercepted else {}


@pytest.mark.rule("producer.send.timeout")
@WITH_TIMEOUT
def test_a_timeout_replaces_max_block_for_all_waits_of_a_call(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., object], encoder: str
) -> None:
    with metadata_late(monkeypatch, seconds=3.0, max_block_ms=0, record_encoder=encoder) as simulation:
        timeouts = noted_timeouts(monkeypatch, simulation)

        with pytest.raises(
            BufferExhaustedError, match=r"within timeout: waited 0\.000 s after 3\.000 s of other waits"
        ):
            call(simulation, timeout=5.0)

        assert timeouts == [2.0]


def noted_timeouts(monkeypatch: pytest.MonkeyPatch, simulation: Simulated, *, seconds: float = 0.0) -> list[float]:
    """The time-outs of waits for memory, none of which waits; each call takes so many *seconds*."""
    reserve, timeouts = simulation.pool.reserve, []

    def note(size: int, *, timeout: float, **options: Any) -> None:
        timeouts.append(timeout)
        simulation.clock.advance(seconds)
        reserve(size, timeout=0.0, **options)

    monkeypatch.setattr(simulation.pool, "reserve", note)
    return timeouts


def forbid_waits(monkeypatch: pytest.MonkeyPatch, simulation: Simulated) -> None:
    """Let each wait for metadata fail, and each one for memory that has a time-out."""
    reserve = simulation.pool.reserve

    def wait(_seconds: float) -> None:
        raise AssertionError("it waits")

    def check(size: int, *, timeout: float, **options: Any) -> None:
        assert timeout == 0.0
        reserve(size, timeout=timeout, **options)

    monkeypatch.setattr(simulation.metadata._changed, "wait", wait)
    monkeypatch.setattr(simulation.pool, "reserve", check)


@pytest.mark.rule("producer.send.timeout")
@pytest.mark.parametrize("intercepted", [False, True])
@WITH_TIMEOUT
def test_with_a_timeout_of_zero_the_error_names_the_missing_metadata(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., object], encoder: str, intercepted: bool
) -> None:
    config = {"record.encoder": encoder}
    with simulated(1, 1, config=config, plugins=plugins(intercepted=intercepted)) as simulation:
        forbid_waits(monkeypatch, simulation)

        with pytest.raises(TopicUnavailableError) as refused:
            call(simulation, timeout=0)

        topic, why = (
            ("t", "partition 2 does not exist; the topic has 2, counted from 0")
            if call is send_to_new_partition
            else ("late", "its metadata has not arrived yet, and the call does not wait for it")
        )
        assert str(refused.value) == f"topic {topic!r} is not available: {why}"


@pytest.mark.rule("producer.send.timeout")
@pytest.mark.parametrize("intercepted", [False, True])
@pytest.mark.parametrize("key", [None, b"key"])
def test_with_a_timeout_of_zero_the_error_names_the_missing_memory(
    monkeypatch: pytest.MonkeyPatch, encoder: str, intercepted: bool, key: bytes | None
) -> None:
    config = {"record.encoder": encoder, "buffer.memory": 20_000, "linger.ms": 3_600_000}
    with simulated(1, 1, config=config, plugins=plugins(intercepted=intercepted)) as simulation:
        forbid_waits(monkeypatch, simulation)
        simulation.producer.send("t", bytes(18_000), partition=0)

        with pytest.raises(BufferExhaustedError, match=r"no memory for \d{4} bytes within timeout: waited 0\.000 s, "):
            simulation.producer.send("t", bytes(4_000), key, timeout=0)

        assert simulation.pool.waiting == 0


@pytest.mark.rule("producer.send.timeout")
@pytest.mark.parametrize("timeout", [0, -1.0, 5.0])
def test_a_call_that_need_not_wait_ignores_its_timeout(encoder: str, timeout: float) -> None:
    with simulated(1, 1, config={"record.encoder": encoder}) as simulation:
        deliveries = [simulation.producer.send("t", b"v", timeout=timeout) for _ in range(2)]
        simulation.run_until_idle()

        assert all(isinstance(each, Delivery) and each.result(0).topic == "t" for each in deliveries)


class Slow:
    """A serializer whose lookup takes a second of the test's clock; *finds* says whether it succeeds."""

    def __init__(self, *, finds: bool = True) -> None:
        self.simulation: Simulated | None = None
        self.timeouts: list[float] = []
        self._finds = finds
        self._found = False

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes:
        if not self._found:
            raise NotPreparedError
        return bytes(data)

    def serialize_column(self, topic: str, column: Any) -> Any:
        if not self._found:
            raise NotPreparedError
        return column

    def prepare(self, topic: str, data: Any, headers: Sequence[Header], *, timeout: float) -> None:
        self.timeouts.append(timeout)
        assert self.simulation is not None
        self.simulation.clock.advance(1.0)
        self._found = self._finds


@pytest.mark.rule("producer.send.timeout")
def test_lookups_of_a_serializer_take_at_most_the_timeout() -> None:
    serializer = Slow(finds=False)
    with simulated(1, 1, plugins={"value_serializer": serializer}) as simulation:
        serializer.simulation = simulation
        for timeout, given in ((0, []), (1.5, [1.5, 0.5])):
            serializer.timeouts.clear()
            with pytest.raises(SerializationError, match=rf"did not finish within timeout: {float(timeout)} s"):
                simulation.producer.send("t", b"v", timeout=timeout)

            assert serializer.timeouts == given


@pytest.mark.rule("producer.send.timeout")
def test_the_timeout_of_a_table_limits_the_waits_of_all_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"value": [bytes(400)] * 400, "partition": [0, 1] * 200})
    with simulated(
        1, 1, config={"batch.size": 16_384, "batch.growth.enable": False, "linger.ms": 60_000}
    ) as simulation:
        timeouts = noted_timeouts(monkeypatch, simulation, seconds=2.0)

        delivery = simulation.producer.send_table("t", table, partition="partition", timeout=5.0)
        assert timeouts[:4] == [5.0, 3.0, 1.0, 0.0]
        assert set(timeouts[3:]) == {0.0}

        timeouts.clear()
        simulation.producer.send_table("t", table, partition="partition")
        assert set(timeouts) == {60.0}
        simulation.run_until_idle()
        assert delivery.result(0).acknowledged == 400


@pytest.mark.rule("producer.send.timeout")
def test_a_table_with_a_timeout_of_zero_takes_the_rows_that_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"value": [bytes(400)] * 400})
    config = {"batch.size": 16_384, "batch.growth.enable": False, "buffer.memory": 65_536, "linger.ms": 60_000}
    with simulated(1, 1, config=config) as simulation:
        forbid_waits(monkeypatch, simulation)

        with pytest.raises(BufferExhaustedError, match="within timeout") as refused:
            simulation.producer.send_table("t", table, timeout=0)

        simulation.run_until_idle()
        delivery = refused.value.delivery
        assert delivery is not None
        failed = len(delivery.failed_rows())
        assert 0 < failed < delivery.rows
        assert len(simulation.log(0)) + len(simulation.log(1)) == delivery.rows - failed


@pytest.mark.rule("producer.send.timeout")
def test_a_mock_producer_never_waits_whatever_the_timeout() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    producer = MockProducer(topics={})

    with pytest.raises(TopicUnavailableError):
        producer.send("missing", b"v", timeout=3_600)
    with pytest.raises(TopicUnavailableError):
        producer.send_table("missing", pyarrow.table({"value": [b"v"]}), timeout=3_600)
