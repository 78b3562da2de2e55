"""The parts of a mock producer: a real one's, down to the batches, and no sender, client or selector below them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Final, cast

import attrs

from ottla.accumulator import RecordAccumulator
from ottla.assembly import Engine
from ottla.backoff import Backoff
from ottla.batch_sizes import BatchSizes
from ottla.buffer_pool import BufferPool
from ottla.config import ConfigDraft, ProducerConfig
from ottla.interception import Interception
from ottla.interfaces import Columns, ColumnsKind
from ottla.io_thread import IoThread
from ottla.metadata import Metadata
from ottla.metrics import Figures, Tallies
from ottla.plugin_choice import Plugins, choose
from ottla.registry import Registry
from ottla.registry.installed import announced
from ottla.reporting import Reporting
from ottla.routes import Routes
from ottla.sealing import Sealer
from ottla.transacting import Transactions
from ottla.transaction_manager import Sequences
from ottla.transaction_manager.manager import TransactionManager
from ottla_testkit.mock_producer.coordinator import MockCoordinator
from ottla_testkit.mock_producer.outbox import Outbox
from ottla_testkit.mock_producer.rounds import Rounds

_SECURITY: Final = ("ssl.", "sasl.", "security.", "connection.via")
_TRANSPORT: Final = EntryPoint(
    name="plaintext", value="ottla_testkit.mock_producer.no_transport", group="ottla.transports"
)
_AT_ONCE: Final = 0.0
"""In place of `max.block.ms`: nothing comes by waiting, for whoever waits is who would bring it."""


@attrs.frozen(kw_only=True)
class Workings:
    """What a mock producer is made of."""

    engine: Engine
    outbox: Outbox
    rounds: Rounds
    coordinator: MockCoordinator | None


def wire(settings: Mapping[str, Any], keywords: Mapping[str, Any]) -> Workings:
    """The parts for a producer's configuration, whose keys are checked as ever, but for those of its security."""
    config, plugins = choose(_draft(settings, keywords), _registry())
    clock = time.monotonic
    batching = config.batching
    backoff = Backoff(initial=config.delivery.retry_backoff, maximum=config.delivery.retry_backoff_max)
    metadata = Metadata(
        bootstrap=[("mock", 9092)],
        max_age=float("inf"),
        max_idle=float("inf"),
        refresh_backoff=backoff,
        wake=_nobody,
        clock=clock,
    )
    coordinator = _coordinator(config, backoff)
    sealer = Sealer(plugins.compressor)
    sizes = BatchSizes(
        target=min(batching.batch_size, batching.max_request_size),
        most=batching.max_request_size,
        growing=batching.growth,
        ratio=sealer.ratio,
        record_cost=plugins.encoder.record_cost,
    )
    tallies = Tallies(samples=config.observation.samples, window=config.observation.window)
    pool = BufferPool(batching.buffer_memory, clock=clock, tallies=tallies)
    accumulator = RecordAccumulator(
        sizes=sizes,
        linger=batching.linger,
        delivery_timeout=config.delivery.delivery_timeout,
        max_block=_AT_ONCE,
        retry_backoff=backoff,
        pool=pool,
        columns=_columns(plugins),
        seal=sealer.seal,
        dealer=None,
        admit=None if coordinator is None else coordinator.manager.check_open,
        tallies=tallies,
        wake=_nobody,
        clock=clock,
    )
    routes = Routes(
        metadata=metadata,
        intake=accumulator.intake,
        partitioner=plugins.partitioner,
        slow=frozenset,
        max_block=_AT_ONCE,
    )
    metadata.on_change = routes.forget
    outbox = Outbox(
        accumulator=accumulator,
        metadata=metadata,
        compressor=plugins.compressor,
        acks=config.delivery.acks,
        tallies=tallies,
        clock=clock,
    )
    rounds = Rounds(accumulator=accumulator, outbox=outbox, coordinator=coordinator, clock=clock)
    figures = Figures(
        tallies=tallies,
        client_id=config.connection.client_id or "mock-producer",
        gauges={
            "buffer-total-bytes": lambda: pool.capacity,
            "buffer-available-bytes": lambda: pool.free,
            "waiting-threads": lambda: pool.waiting,
            "requests-in-flight": lambda: outbox.pending,
            "connection-count": lambda: 0,
            "metadata-age": lambda: metadata.age(clock()),
        },
        clock=clock,
    )
    engine = Engine(
        accumulator=accumulator,
        metadata=metadata,
        io_thread=cast(IoThread, rounds),
        routes=routes,
        partitioner=plugins.partitioner,
        deals=False,
        encoder=plugins.encoder,
        sizes=sizes,
        seal_columns=None if plugins.compressor is None else sealer.seal_columns,
        codec_id=sealer.codec_id,
        key_serializer=plugins.key_serializer,
        value_serializer=plugins.value_serializer,
        value_formats=plugins.value_formats,
        max_request_size=batching.max_request_size,
        buffer_memory=batching.buffer_memory,
        max_block=_AT_ONCE,
        delivery_timeout=config.delivery.delivery_timeout,
        transactions=None
        if coordinator is None
        else Transactions(
            manager=coordinator.manager, accumulator=accumulator, max_block=_AT_ONCE, wake=rounds.advance
        ),
        tallies=tallies,
        figures=figures,
        reporting=Reporting(plugins.reporters, figures),
        interception=Interception(plugins.interceptors, clock=clock) if plugins.interceptors else None,
        clock=clock,
    )
    return Workings(engine=engine, outbox=outbox, rounds=rounds, coordinator=coordinator)


def _draft(settings: Mapping[str, Any], keywords: Mapping[str, Any]) -> ConfigDraft:
    given, options = _without_security(settings), _without_security(keywords)
    if "bootstrap.servers" not in given and not {"bootstrap_servers", "bootstrap.servers"} & options.keys():
        given["bootstrap.servers"] = "mock:9092"
    return ConfigDraft.read(given, options)


def _coordinator(config: ProducerConfig, backoff: Backoff) -> MockCoordinator | None:
    transactional_id = config.transactions.transactional_id
    if transactional_id is None:
        return None
    # Not the accumulator's: nothing is numbered, and no batch waits for another one's answer.
    sequences = Sequences(transactional=True, required=True)
    manager = TransactionManager(
        transactional_id=transactional_id,
        timeout_ms=config.transactions.timeout,
        two_phase=config.transactions.two_phase,
        sequences=sequences,
        backoff=backoff,
        client_id=config.connection.client_id or "mock-producer",
    )
    return MockCoordinator(manager, sequences)


def _registry() -> Registry:
    """What is installed, with a transport of our own in place of all others."""
    return Registry([_TRANSPORT, *(entry for entry in announced() if entry.group != _TRANSPORT.group)])


def _without_security(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if not str(key).replace("_", ".").startswith(_SECURITY)}


def _columns(plugins: Plugins) -> Callable[[int], Columns]:
    def columns(limit: int) -> Columns:
        made = plugins.encoder.columns(ColumnsKind.OBJECTS, limit)
        assert made is not None, "the encoder was chosen because it takes this kind"
        return made

    return columns


def _nobody() -> None:
    """There is no thread to be woken."""
