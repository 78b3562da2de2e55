"""Construction of the parts of the network from a configuration: selector, metadata, authentication, client."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.concurrency.environment import Environment
from ottla.config import ConnectionConfig, DnsLookup, ProducerConfig, RecoveryStrategy
from ottla.interfaces import Mechanism, Transport
from ottla.metrics import Counters
from ottla.network.authentication import Authentication, AuthWorker
from ottla.network.authentication.authentication import FIRST_MESSAGE_THREADS
from ottla.network.backoff import Backoff
from ottla.network.client import NetworkClient
from ottla.network.metadata import Metadata
from ottla.network.selector import Selector
from ottla.network.selector_interface import Selectable


def build_backoff(initial: float, maximum: float, environment: Environment) -> Backoff:
    """Build a backoff from *initial* to *maximum* seconds."""
    return Backoff(initial=initial, maximum=maximum, random=environment.random.random)


def build_metadata(
    config: ProducerConfig, wake: Callable[[], object], backoff: Backoff, environment: Environment
) -> Metadata:
    """Build the metadata, which calls *wake* to request an update."""
    return Metadata(
        bootstrap=config.connection.bootstrap_servers,
        max_age=config.metadata.max_age,
        max_idle=config.metadata.max_idle,
        refresh_backoff=backoff,
        wake=wake,
        environment=environment,
    )


def build_selector(
    connection: ConnectionConfig,
    transport: Transport,
    environment: Environment,
    *,
    counters: Counters | None = None,
) -> Selectable:
    """Build the selector with the sockets of one producer and its transport."""
    if environment.selector is not None:
        simulated: Selectable = environment.selector()
        return simulated
    return Selector(
        transport=transport,
        send_buffer_bytes=connection.send_buffer_bytes,
        receive_buffer_bytes=connection.receive_buffer_bytes,
        max_response_size=connection.receive_message_max_bytes,
        environment=environment,
        counters=counters,
    )


def build_authentication(
    mechanism: Mechanism | None, client_id: str, wake: Callable[[], object], environment: Environment
) -> Authentication | None:
    """Build what authenticates every connection, or return None if the producer does not log in."""
    if mechanism is None:
        return None
    make_worker = partial(AuthWorker, name=f"ottla-login-{client_id}", wake=wake, environment=environment)
    return Authentication(
        mechanism,
        worker=make_worker(),
        first_worker=make_worker(threads=FIRST_MESSAGE_THREADS),
        uniform=environment.random.uniform,
    )


def build_client(
    config: ProducerConfig,
    selector: Selectable,
    metadata: Metadata,
    authentication: Authentication | None,
    client_id: str,
    environment: Environment,
    *,
    counters: Counters | None = None,
) -> NetworkClient:
    """Build the client, which uses the selector."""
    connection = config.connection
    return NetworkClient(
        selector=selector,
        metadata=metadata,
        authentication=authentication,
        client_id=client_id,
        max_in_flight=config.delivery.max_in_flight,
        request_timeout=connection.request_timeout,
        max_idle=connection.connections_max_idle,
        reconnect_backoff=build_backoff(connection.reconnect_backoff, connection.reconnect_backoff_max, environment),
        canonical_bootstrap=connection.dns_lookup is DnsLookup.RESOLVE_CANONICAL_BOOTSTRAP_SERVERS_ONLY,
        rebootstraps=config.metadata.recovery is RecoveryStrategy.REBOOTSTRAP,
        rebootstrap_trigger=config.metadata.rebootstrap_trigger,
        setup_backoff=build_backoff(
            connection.connection_setup_timeout, connection.connection_setup_timeout_max, environment
        ),
        counters=counters,
        chance=environment.random,
        clock=environment.clock,
    )
