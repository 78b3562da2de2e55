"""`max.block.ms` is one budget: a call waits no longer for metadata and memory together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla import BufferExhaustedError
from simulated_producer import Simulated, simulated

BUDGET_MS = 5_000


@contextmanager
def metadata_late(monkeypatch: pytest.MonkeyPatch, *, seconds: float, **config: Any) -> Iterator[Simulated]:
    """A producer without free memory, to which news of the topics "late" and "t" come after so many seconds."""
    with simulated(1, 1, max_block_ms=BUDGET_MS, buffer_memory=20_000, linger_ms=3_600_000, **config) as world:
        world.producer.send("t", bytes(18_000), partition=0)

        changed = world.metadata._changed

        def wait(_left: float) -> None:
            changed.__exit__(None, None, None)  # as who waits lets go of it
            bring_news()
            changed.__enter__()

        def bring_news() -> None:
            world.clock.advance(seconds)
            world.cluster.create("late", 1, 1)
            world.cluster.create("t", 1, 1, 1)
            world.know("late")
            world.metadata.request_update()
            world.pass_time(0.0)

        monkeypatch.setattr(changed, "wait", wait)
        monkeypatch.setattr(world, "pass_time", lambda _seconds: None)
        yield world


def send(world: Simulated) -> object:
    return world.producer.send("late", bytes(4_000))


def send_with_key(world: Simulated) -> object:
    return world.producer.send("late", bytes(4_000), b"key")


def send_to_new_partition(world: Simulated) -> object:
    return world.producer.send("t", bytes(4_000), partition=2)


def send_table(world: Simulated) -> object:
    pyarrow = pytest.importorskip("pyarrow")
    return world.producer.send_table("late", pyarrow.table({"value": [bytes(4_000)]}))


def send_sealed(world: Simulated) -> object:
    pyarrow = pytest.importorskip("pyarrow")
    from ottla.tables.sealed import TableSealer

    sealer = TableSealer({"bootstrap.servers": "seed:9092"}, {"late": 2})
    [batch] = sealer.seal("late", pyarrow.table({"value": [bytes(4_000)]})).batches
    return world.producer.send_sealed(batch)


@pytest.mark.rule("pool.timeout")
@pytest.mark.parametrize("call", [send, send_with_key, send_to_new_partition, send_table, send_sealed])
@pytest.mark.parametrize("encoder", ["python", "native"])
def test_time_spent_on_metadata_is_not_available_for_memory(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[Simulated], object], encoder: str
) -> None:
    if encoder == "native":
        pytest.importorskip("ottla_accel", exc_type=ImportError)
    with metadata_late(monkeypatch, seconds=BUDGET_MS / 1_000, record_encoder=encoder) as world:
        reserve, timeouts = world.pool.reserve, []

        def note(size: int, *, timeout: float, **options: Any) -> None:
            timeouts.append(timeout)
            reserve(size, timeout=0.0, **options)

        monkeypatch.setattr(world.pool, "reserve", note)
        with pytest.raises(BufferExhaustedError, match=r"waited 0\.000 s after 5\.000 s of other waits of this call"):
            call(world)

        assert timeouts == [0.0]
