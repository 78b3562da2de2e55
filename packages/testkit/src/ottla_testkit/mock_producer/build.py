"""Construction of a mock producer: a real producer's parts down to the batches, without sender, client or selector."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import Any, Final

import attrs

from ottla.accumulator.accumulator import RecordAccumulator
from ottla.accumulator.build import build_queueing
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.sequences import Sequences
from ottla.concurrency.environment import SYSTEM
from ottla.config import ProducerConfig
from ottla.network.backoff import Backoff
from ottla.network.metadata import Metadata
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import Registry
from ottla.plugins.registry.installed import announced
from ottla.plugins.selection import choose_plugins
from ottla.producer.components import Engine, build_metric_values
from ottla.transactions.build import TransactionParts, build_transactions
from ottla_testkit.mock_producer.coordinator import MockCoordinator
from ottla_testkit.mock_producer.io_loop import CompletingLoop, MockIoLoop
from ottla_testkit.mock_producer.sent_batches import SentBatches

_SECURITY: Final = ("ssl.", "sasl.", "security.", "connection.via")
_TRANSPORT: Final = EntryPoint(
    name="plaintext", value="ottla_testkit.mock_producer.no_transport", group="ottla.transports"
)


@attrs.frozen(kw_only=True)
class MockParts:
    """The parts of a mock producer."""

    engine: Engine
    sent_batches: SentBatches
    rounds: MockIoLoop
    coordinator: MockCoordinator | None


def build(settings: Mapping[str, Any], keywords: Mapping[str, Any], *, timestamp_after_max_ms: int | None) -> MockParts:
    """Create the parts for a producer's configuration; all keys are checked as usual, except those of security."""
    objects = PluginObjects(name_client=lambda configured: configured or "mock-producer")
    config, plugins = choose_plugins(*_settings(settings, keywords), registry=_registry(), objects=objects)
    max_lookup, config = config.batching.max_block, _without_waits(config)
    backoff = Backoff(initial=0, maximum=0)  # a call ends before it returns
    metadata = _metadata(backoff)
    # The accumulator gets other sequences: batches have no numbers and do not wait for each other's responses.
    transactions = build_transactions(config, backoff, plugins.client_id, metadata.cluster_ids, SYSTEM)
    coordinator = _coordinator(transactions)
    io_loop = CompletingLoop()
    queueing = build_queueing(
        config,
        plugins,
        metadata=metadata,
        sealer=Sealer(plugins.compressor, level=plugins.compression_level),
        backoff=backoff,
        keys_may_wait=False,
        sequences=Sequences(off=True),
        transactions=transactions.manager,
        io_loop=io_loop,
        environment=SYSTEM,
    )
    accumulator = queueing.accumulator
    if coordinator is not None:
        accumulator.unretrieved.ignore()  # the end of a transaction reports its records
    sent_batches = SentBatches(
        accumulator=accumulator,
        metadata=metadata,
        compressor=plugins.compressor,
        acks=config.delivery.acks,
        counters=queueing.counters,
        clock=SYSTEM.clock,
        timestamp_after_max_ms=timestamp_after_max_ms,
    )
    if coordinator is not None:
        sent_batches.on_failure = coordinator.sequences.fail
    rounds = _rounds(accumulator, sent_batches, coordinator, plugins.client_id)
    io_loop.on_wait = rounds.complete_automatically
    engine = Engine.build(
        config,
        plugins,
        queueing,
        metadata=metadata,
        io_thread=rounds,
        manager=transactions.manager,
        metric_values=build_metric_values(
            plugins,
            queueing,
            metadata,
            in_flight=lambda: sent_batches.pending,
            oldest_sent_at=accumulator.oldest_created_at,
            environment=SYSTEM,
        ),
        wake=rounds.advance,
        max_lookup=max_lookup,
        environment=SYSTEM,
    )
    return MockParts(engine=engine, sent_batches=sent_batches, rounds=rounds, coordinator=coordinator)


def _rounds(
    accumulator: RecordAccumulator, sent_batches: SentBatches, coordinator: MockCoordinator | None, client_id: str
) -> MockIoLoop:
    return MockIoLoop(
        accumulator=accumulator,
        sent_batches=sent_batches,
        coordinator=coordinator,
        client_id=client_id,
        clock=SYSTEM.clock,
    )


def _settings(settings: Mapping[str, Any], keywords: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    given, options = _without_security(settings), _without_security(keywords)
    if "bootstrap.servers" not in given and not {"bootstrap_servers", "bootstrap.servers"} & options.keys():
        given["bootstrap.servers"] = "mock:9092"
    return given, options


def _without_waits(config: ProducerConfig) -> ProducerConfig:
    """Return the same configuration with `max.block.ms` of 0, because nothing would ever end a wait for a broker.

    It has no `undelivered.exit.code` either: that would be the exit code of the tests' process.
    """
    return attrs.evolve(
        config,
        batching=attrs.evolve(config.batching, max_block=0.0),
        delivery=attrs.evolve(config.delivery, undelivered_exit_code=0),
    )


def _metadata(backoff: Backoff) -> Metadata:
    """Metadata that is never refreshed: the producer itself adds topics."""
    return Metadata(
        bootstrap=[("mock", 9092)],
        max_age=float("inf"),
        max_idle=float("inf"),
        refresh_backoff=backoff,
        wake=_do_nothing,
    )


def _coordinator(transactions: TransactionParts) -> MockCoordinator | None:
    if transactions.manager is None:
        return None
    assert transactions.request_source is not None, "transactions have requests"
    return MockCoordinator(transactions.manager, transactions.request_source, transactions.sequences)


def _registry() -> Registry:
    """Return the installed plugins, with `NoTransport` instead of all other transports."""
    return Registry([_TRANSPORT, *(entry for entry in announced() if entry.group != _TRANSPORT.group)])


def _without_security(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if not str(key).replace("_", ".").startswith(_SECURITY)}


def _do_nothing() -> None:
    """There is no thread to wake."""
