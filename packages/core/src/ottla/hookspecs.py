"""The hooks that a plugin may implement, as pluggy specifications.

A hook is a factory: called once while a producer is assembled, never on the way of a record. It takes what
its plugin's keys came to (`config`) and returns one object that lives as long as the producer. A plugin has
the hook of its kind, `ottla_config_keys` if it reads keys, and may leave out arguments it does not need:

    @hookimpl
    def ottla_partitioner() -> Partitioner:
        return RoundRobin()

What is returned is described in `ottla.interfaces`. A hook that raises `ConfigError` refuses the
configuration, one that raises `PluginNotFoundError` says what to install for it; both reach the user as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pluggy

from ottla.interfaces import (
    Compressor,
    ConfigKey,
    ConfigProvider,
    Interceptor,
    Mechanism,
    MetricsReporter,
    Partitioner,
    PluginConfig,
    RecordEncoder,
    Serializer,
    Transport,
)

PROJECT: Final = "ottla"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def ottla_transport(config: PluginConfig, inner: Transport | None) -> Transport | None:
    """Open connections. *inner* is None, except for the plugin that `connection.via` names.

    That one gets the transport that `security.protocol` picks, and hands its sockets on to it.
    """


@hookspec(firstresult=True)
def ottla_authenticator(config: PluginConfig) -> Mechanism | None:
    """Speak the SASL mechanism that the entry point is named after."""


@hookspec(firstresult=True)
def ottla_partitioner(config: PluginConfig) -> Partitioner | None:
    """Choose partitions. Many threads call the returned object at once."""


@hookspec(firstresult=True)
def ottla_compressor(config: PluginConfig) -> Compressor | None:
    """Compress batches. Import the codec's library here, not at the top of the module.

    Another implementation of a codec has a name of its own, which `compression.type` asks for; what it writes is told
    by its `codec_id`. PluginNotFoundError, when the library is absent, must say what to install.
    """


@hookspec(firstresult=True)
def ottla_encoder(config: PluginConfig) -> RecordEncoder | None:
    """Make the columns of batches. Every installed encoder is asked; the highest `priority` wins."""


@hookspec(firstresult=True)
def ottla_reporter(config: PluginConfig) -> MetricsReporter | None:
    """Carry metrics away. Start nothing here: `start` and `close` are for that."""


@hookspec(firstresult=True)
def ottla_serializer(config: PluginConfig, is_key: bool) -> Serializer | None:
    """Turn keys (*is_key*) or values into bytes. Called once for each when both name the same plugin."""


@hookspec(firstresult=True)
def ottla_interceptor(config: PluginConfig) -> Interceptor | None:
    """See every record on its way in, and every outcome."""


@hookspec(firstresult=True)
def ottla_config_provider(config: PluginConfig) -> ConfigProvider | None:
    """Give values for references in settings.

    The keys of such a plugin are its parameters: what users write as `config.providers.NAME.param.PARAMETER`.
    """


@hookspec(firstresult=True)
def ottla_config_keys() -> Sequence[ConfigKey] | None:
    """The keys that this plugin reads, in any of its hooks; none if left out.

    Called before the plugin's own hook and without a configuration. A key that the core knows too, such as
    `batch.size`, may be declared: the plugin gets what the user set for it.
    """
