"""From settings to a producer's parts, wired together: the only module that knows all of them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from ottla.accumulator import RecordAccumulator
from ottla.backoff import Backoff
from ottla.buffer_pool import BufferPool
from ottla.config import ConfigDraft, ProducerConfig, SerializerChoice
from ottla.errors import ConfigError, PluginBroken, PluginError
from ottla.interfaces import (
    Columns,
    ColumnsKind,
    Compressor,
    Header,
    Partitioner,
    PluginConfig,
    RecordEncoder,
    Serializer,
    Transport,
)
from ottla.io_thread import IoThread
from ottla.metadata import Metadata
from ottla.network_client import NetworkClient
from ottla.registry import KindName, Plugin, Registry
from ottla.sealing import sealer
from ottla.selector import Selector
from ottla.sender import Sender

MAX_ANSWER_SIZE = 128 * 1024 * 1024
"""No answer to what a producer asks comes near this; a larger one is not Kafka's."""

T = TypeVar("T")
_numbers = itertools.count(1)


@attrs.frozen(kw_only=True)
class Engine:
    """What the face of a producer works with. A serializer of None takes bytes as they are."""

    accumulator: RecordAccumulator
    metadata: Metadata
    io_thread: IoThread
    partitioner: Partitioner
    appended: Callable[[str, int, int], object] | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    max_request_size: int
    buffer_memory: int
    max_block: float
    delivery_timeout: float


@attrs.frozen(kw_only=True)
class _Plugins:
    """The plugins that a configuration asks for, made."""

    transport: Transport
    partitioner: Partitioner
    compressor: Compressor | None
    encoder: RecordEncoder
    key_serializer: Serializer | None
    value_serializer: Serializer | None


def build(settings: Mapping[str, Any], keywords: Mapping[str, Any], *, registry: Registry | None = None) -> Engine:
    """The parts of a producer, not started; no connection is made.

    Raises ConfigError with every problem, or PluginError when a plugin is all that is wrong.
    """
    draft = ConfigDraft.read(settings, keywords)
    config, plugins = _choose(draft, registry or Registry())
    return _wire(config, plugins, client_id=config.connection.client_id or f"ottla-producer-{next(_numbers)}")


class _Claims:
    """Looks plugins up and claims their keys, collecting what goes wrong until everything was looked at."""

    def __init__(self, draft: ConfigDraft, registry: Registry) -> None:
        self._draft = draft
        self._registry = registry
        self.errors: list[PluginError] = []

    def plugin(self, kind: KindName, name: str) -> Callable[..., Any]:
        """A function that makes the plugin's object once the whole configuration has been found good."""
        try:
            plugin = self._registry.plugin(kind, name)
            return self.of(plugin)
        except PluginError as error:
            self.errors.append(error)
            return _never

    def of(self, plugin: Plugin) -> Callable[..., Any]:
        """The same for a plugin that was looked up already."""
        values = self._draft.claim(plugin.config_keys(), plugin=str(plugin))
        return lambda **extra: plugin.create(values, **extra)


def _choose(draft: ConfigDraft, registry: Registry) -> tuple[ProducerConfig, _Plugins]:
    wanted = draft.config
    claims = _Claims(draft, registry)
    if wanted.connection.security_protocol.sasl:
        draft.object_to(
            f"security.protocol={wanted.connection.security_protocol}: this version cannot authenticate yet; "
            "use PLAINTEXT or SSL"
        )
    transport = claims.plugin("transport", wanted.connection.security_protocol.transport)
    via = wanted.connection.connection_via
    outer = claims.plugin("transport", via) if via else None
    partitioner = claims.plugin("partitioner", wanted.partitioning.partitioner)
    codec = wanted.batching.compression_type
    compressor = claims.plugin("compressor", codec) if codec != "none" else None
    key = _serializer(claims, wanted.serialization.key_serializer, is_key=True)
    value = _serializer(claims, wanted.serialization.value_serializer, is_key=False)
    encoders: list[tuple[Plugin, PluginConfig]] = [
        (plugin, draft.claim(plugin.config_keys(), plugin=str(plugin))) for plugin in registry.encoders()
    ]
    config = _finish(draft, registry, claims.errors)
    inner = transport(inner=None)
    return config, _Plugins(
        transport=outer(inner=inner) if outer else inner,
        partitioner=partitioner(),
        compressor=compressor() if compressor else None,
        encoder=_encoder(registry.create_encoders(encoders)),
        key_serializer=key(),
        value_serializer=value(),
    )


def _finish(draft: ConfigDraft, registry: Registry, errors: Sequence[PluginError]) -> ProducerConfig:
    """The checked configuration. One missing plugin, and nothing else, is raised as what it is."""
    try:
        config = draft.finish(installed_keys=registry.declared_keys)
    except ConfigError as error:
        raise ConfigError([*error.problems, *map(str, errors)]) from None
    if len(errors) > 1:
        raise ConfigError([str(error) for error in errors])
    if errors:
        raise errors[0]
    return config


def _serializer(claims: _Claims, choice: SerializerChoice, *, is_key: bool) -> Callable[[], Serializer | None]:
    if not isinstance(choice, str):
        return lambda: _CallableSerializer(choice)
    if choice == "bytes":
        return lambda: None
    make = claims.plugin("serializer", choice)
    return lambda: make(is_key=is_key)


def _encoder(encoders: Sequence[RecordEncoder]) -> RecordEncoder:
    for encoder in encoders:
        if encoder.columns(ColumnsKind.OBJECTS, 1) is not None:
            return encoder
    raise PluginBroken("no installed record encoder takes records of `send`; is ottla itself installed completely?")


def _wire(config: ProducerConfig, plugins: _Plugins, *, client_id: str) -> Engine:
    clock = time.monotonic
    connection, batching, delivery = config.connection, config.batching, config.delivery
    retry_backoff = Backoff(initial=delivery.retry_backoff, maximum=delivery.retry_backoff_max)
    selector = Selector(
        transport=plugins.transport,
        send_buffer_bytes=connection.send_buffer_bytes,
        receive_buffer_bytes=connection.receive_buffer_bytes,
        max_idle=connection.connections_max_idle,
        max_answer_size=MAX_ANSWER_SIZE,
        clock=clock,
    )
    metadata = Metadata(
        bootstrap=connection.bootstrap_servers,
        max_age=config.metadata.max_age,
        max_idle=config.metadata.max_idle,
        refresh_backoff=retry_backoff,
        wake=selector.wakeup,
        clock=clock,
    )
    client = NetworkClient(
        selector=selector,
        metadata=metadata,
        client_id=client_id,
        max_in_flight=delivery.max_in_flight,
        request_timeout=connection.request_timeout,
        reconnect_backoff=Backoff(initial=connection.reconnect_backoff, maximum=connection.reconnect_backoff_max),
        setup_backoff=Backoff(
            initial=connection.connection_setup_timeout, maximum=connection.connection_setup_timeout_max
        ),
        clock=clock,
    )
    accumulator = RecordAccumulator(
        batch_size=batching.batch_size,
        linger=batching.linger,
        delivery_timeout=delivery.delivery_timeout,
        max_block=batching.max_block,
        retry_backoff=retry_backoff,
        pool=BufferPool(batching.buffer_memory, clock=clock),
        columns=_columns(plugins.encoder),
        seal=sealer(plugins.compressor),
        wake=selector.wakeup,
        clock=clock,
    )
    sender = Sender(
        accumulator=accumulator,
        client=client,
        metadata=metadata,
        acks=delivery.acks,
        retries=delivery.retries,
        max_request_size=batching.max_request_size,
        request_timeout=connection.request_timeout,
        delivery_timeout=delivery.delivery_timeout,
        keep_order=delivery.max_in_flight == 1,
        client_id=client_id,
    )
    return Engine(
        accumulator=accumulator,
        metadata=metadata,
        io_thread=IoThread(
            sender=sender,
            accumulator=accumulator,
            client=client,
            metadata=metadata,
            name=f"ottla-io-{client_id}",
            clock=clock,
        ),
        partitioner=plugins.partitioner,
        appended=getattr(plugins.partitioner, "appended", None),
        key_serializer=plugins.key_serializer,
        value_serializer=plugins.value_serializer,
        max_request_size=batching.max_request_size,
        buffer_memory=batching.buffer_memory,
        max_block=batching.max_block,
        delivery_timeout=delivery.delivery_timeout,
    )


def _columns(encoder: RecordEncoder) -> Callable[[int], Columns]:
    def columns(limit: int) -> Columns:
        made = encoder.columns(ColumnsKind.OBJECTS, limit)
        assert made is not None, "the encoder was chosen because it takes this kind"
        return made

    return columns


@attrs.frozen
class _CallableSerializer:
    """A plain function of one argument, given as `key.serializer` or `value.serializer`."""

    function: Callable[[Any], bytes | None]

    def serialize(self, topic: str, data: Any, headers: Sequence[Header]) -> bytes | None:
        """The function's result, which must be bytes or None."""
        result = self.function(data)
        if result is not None and not isinstance(result, bytes):
            raise TypeError(f"the serializer function returned {type(result).__name__}, not bytes")
        return result


def _never(**_extra: object) -> Any:
    raise AssertionError("a plugin that was not found is never made")
