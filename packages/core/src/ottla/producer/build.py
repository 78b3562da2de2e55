"""From settings to a producer's parts, wired together: the only module that knows all of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from random import Random, SystemRandom
from typing import Any

import attrs

from ottla.accumulator.build import Queueing
from ottla.accumulator.sealing import Sealer
from ottla.accumulator.splitting import Splitter
from ottla.config import ConnectionConfig, DnsLookup, ProducerConfig, RecoveryStrategy
from ottla.errors.secret import hide_settings
from ottla.interfaces import Mechanism, Transport
from ottla.metrics import Tallies
from ottla.network import NetworkClient
from ottla.network.authentication import Authentication, Helper
from ottla.network.backoff import Backoff
from ottla.network.metadata import Metadata
from ottla.network.selector import Selector
from ottla.plugins.config_references import read_draft
from ottla.plugins.registry import Registry
from ottla.plugins.selection import Plugins, choose
from ottla.producer.components import Engine
from ottla.protocol import PRODUCE
from ottla.sender.coordinator_requests import Coordination
from ottla.sender.io_handoff import Helm
from ottla.sender.io_thread import IoThread
from ottla.sender.node_latency import NodeDelays
from ottla.sender.produce_request import taken_by
from ottla.sender.rounds import Rounds
from ottla.sender.sender import Sender
from ottla.transactions.build import Numbering

_numbers = itertools.count(1)

_chance: Random = SystemRandom()
"""Where all random numbers of a producer come from, but a partitioner's: the system, whose generator has no seed that
would be the application's. A simulation puts one of its own here, before it makes a producer."""


def build(settings: Mapping[str, Any], keywords: Mapping[str, Any], *, registry: Registry | None = None) -> Engine:
    """The parts of a producer, not started; no connection is made.

    Raises ConfigError with every problem, or PluginError when a plugin is all that is wrong.
    """
    settings, keywords = hide_settings(settings), hide_settings(keywords)
    registry = registry or Registry()
    config, plugins = choose(read_draft(settings, keywords, registry=registry), registry)
    return _wire(config, plugins, client_id=config.connection.client_id or f"ottla-producer-{next(_numbers)}")


def check_config(config: Mapping[str, Any] | None = None, /, **options: Any) -> None:
    """Raise what `Producer` with the same arguments would raise: ConfigError or PluginError. Starts nothing."""
    config, options = hide_settings(config or {}), hide_settings(options)
    registry = Registry()
    choose(read_draft(config, options, registry=registry), registry)


@attrs.frozen(kw_only=True)
class Connections:
    """What somebody works with who asks brokers on the thread of the caller, and sends no records."""

    client: NetworkClient
    metadata: Metadata
    clock: Callable[[], float]
    backoff: Backoff
    config: ProducerConfig
    """Kept for its secrets, which text of brokers may not show."""


def connect(settings: Mapping[str, Any]) -> Connections:
    """Connections by a producer's configuration; none is made yet. Raises ConfigError or PluginError."""
    settings = hide_settings(settings)
    registry = Registry()
    config, plugins = choose(read_draft(settings, registry=registry), registry)
    clock = time.monotonic
    backoff = _backoff(config.delivery.retry_backoff, config.delivery.retry_backoff_max)
    selector = _selector(config.connection, plugins.transport)
    metadata = _metadata(config, selector.wakeup, backoff, clock)
    client_id = config.connection.client_id or f"ottla-transactions-{next(_numbers)}"
    authentication = _authentication(plugins.mechanism, client_id, selector.wakeup)
    client = _client(config, selector, metadata, authentication, client_id, clock)
    return Connections(client=client, metadata=metadata, clock=clock, backoff=backoff, config=config)


def _wire(config: ProducerConfig, plugins: Plugins, *, client_id: str) -> Engine:
    clock = time.monotonic
    backoff = _backoff(config.delivery.retry_backoff, config.delivery.retry_backoff_max)
    selector = _selector(config.connection, plugins.transport)
    authentication = _authentication(plugins.mechanism, client_id, selector.wakeup)
    helm = Helm(
        run=lambda now, until: sender.run_once(now, until=until),
        idle=lambda: sender.idle and not client.in_flight(),
        pending=lambda: accumulator.incomplete > 0,
        wake=selector.wakeup,
        clock=clock,
    )
    metadata = _metadata(config, helm.wake, backoff, clock)
    numbering = Numbering.of(config.transactions, backoff, client_id)
    delays = NodeDelays(config.partitioning.availability_timeout)
    queueing = Queueing.of(
        config,
        plugins,
        metadata=metadata,
        sealer=Sealer(plugins.compressor, takes=lambda node: taken_by(client.offered(node, PRODUCE))),
        backoff=backoff,
        slow=lambda: delays.slow,
        sequences=numbering.sequences,
        admit=numbering.admit,
        io_loop=helm,
        clock=clock,
    )
    delays.on_change = queueing.routes.forget
    accumulator = queueing.accumulator
    client = _client(config, selector, metadata, authentication, client_id, clock, tallies=queueing.tallies)
    sender = _sender(config, plugins, queueing, numbering, metadata, client, delays, client_id)
    rounds = Rounds(sender=sender, name=client_id, clock=clock)
    io_thread = IoThread(
        sender=sender,
        rounds=rounds,
        accumulator=accumulator,
        client=client,
        metadata=metadata,
        helm=helm,
        name=f"ottla-io-{client_id}",
        clock=clock,
    )
    return Engine.of(
        config,
        plugins,
        queueing,
        metadata=metadata,
        io_thread=io_thread,
        manager=numbering.manager,
        client_id=client_id,
        in_flight=client.in_flight,
        wake=helm.wake,
        clock=clock,
    )


def _backoff(initial: float, maximum: float) -> Backoff:
    return Backoff(initial=initial, maximum=maximum, random=_chance.random)


def _metadata(
    config: ProducerConfig, wake: Callable[[], object], backoff: Backoff, clock: Callable[[], float]
) -> Metadata:
    return Metadata(
        bootstrap=config.connection.bootstrap_servers,
        max_age=config.metadata.max_age,
        max_idle=config.metadata.max_idle,
        refresh_backoff=backoff,
        wake=wake,
        clock=clock,
    )


def _selector(connection: ConnectionConfig, transport: Transport) -> Selector:
    return Selector(
        transport=transport,
        send_buffer_bytes=connection.send_buffer_bytes,
        receive_buffer_bytes=connection.receive_buffer_bytes,
        max_answer_size=connection.receive_message_max_bytes,
    )


def _authentication(mechanism: Mechanism | None, client_id: str, wake: Callable[[], object]) -> Authentication | None:
    """The login of every connection; None: without one."""
    if mechanism is None:
        return None
    helper = Helper(name=f"ottla-login-{client_id}", wake=wake)
    return Authentication(mechanism, helper=helper, uniform=_chance.uniform)


def _client(
    config: ProducerConfig,
    selector: Selector,
    metadata: Metadata,
    authentication: Authentication | None,
    client_id: str,
    clock: Callable[[], float],
    *,
    tallies: Tallies | None = None,
) -> NetworkClient:
    connection = config.connection
    return NetworkClient(
        selector=selector,
        metadata=metadata,
        authentication=authentication,
        client_id=client_id,
        max_in_flight=config.delivery.max_in_flight,
        request_timeout=connection.request_timeout,
        max_idle=connection.connections_max_idle,
        reconnect_backoff=_backoff(connection.reconnect_backoff, connection.reconnect_backoff_max),
        canonical_bootstrap=connection.dns_lookup is DnsLookup.RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
        rebootstraps=config.metadata.recovery is RecoveryStrategy.REBOOTSTRAP,
        rebootstrap_trigger=config.metadata.rebootstrap_trigger,
        setup_backoff=_backoff(connection.connection_setup_timeout, connection.connection_setup_timeout_max),
        tallies=tallies,
        chance=_chance,
        clock=clock,
    )


def _sender(
    config: ProducerConfig,
    plugins: Plugins,
    queueing: Queueing,
    numbering: Numbering,
    metadata: Metadata,
    client: NetworkClient,
    delays: NodeDelays,
    client_id: str,
) -> Sender:
    batching, delivery, accumulator = config.batching, config.delivery, queueing.accumulator
    coordination = (
        None
        if numbering.agenda is None
        else Coordination(
            agenda=numbering.agenda, client=client, metadata=metadata, accumulator=accumulator, client_id=client_id
        )
    )
    return Sender(
        accumulator=accumulator,
        client=client,
        metadata=metadata,
        delays=delays,
        splitter=Splitter(target=batching.batch_size, columns=plugins.columns, records=queueing.sealer.records),
        acks=delivery.acks,
        retries=delivery.retries,
        max_request_size=batching.max_request_size,
        request_timeout=config.connection.request_timeout,
        delivery_timeout=delivery.delivery_timeout,
        keep_order=delivery.max_in_flight == 1,
        client_id=client_id,
        sequences=numbering.sequences,
        coordination=coordination,
        transactions=numbering.manager,
        tallies=queueing.tallies,
    )
