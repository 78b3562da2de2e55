"""The hooks that a plugin may implement, as pluggy specifications.

A hook is a factory: called once while a producer is built, never while records are sent. It takes the checked
values of its plugin's keys (`config`), and a logger, the clock and more of the producer (`context`). It returns one
object that lives as long as the producer. A plugin has the hook of its kind, `ottla_config_keys` if it reads keys, and
may leave out arguments it does not need:

    @hookimpl
    def ottla_partitioner() -> Partitioner:
        return RoundRobin()

`ottla.interfaces` describes the objects that hooks return. A hook that raises `ConfigError` refuses the
configuration, one that raises `PluginNotFoundError` says what to install for it; both reach the user unchanged.
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
    PluginContext,
    RecordEncoder,
    Serializer,
    Transport,
)

PROJECT: Final = "ottla"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec(firstresult=True)
def ottla_transport(config: PluginConfig, context: PluginContext, inner: Transport | None) -> Transport | None:
    """Open connections. *inner* is None, except for the plugin that `connection.via` names.

    That plugin gets the transport that `security.protocol` picks, and passes its sockets on to it.
    """


@hookspec(firstresult=True)
def ottla_authenticator(config: PluginConfig, context: PluginContext) -> Mechanism | None:
    """Speak the SASL mechanism that the entry point is named after."""


@hookspec(firstresult=True)
def ottla_partitioner(config: PluginConfig, context: PluginContext) -> Partitioner | None:
    """Choose partitions. Many threads call the returned object at the same time."""


@hookspec(firstresult=True)
def ottla_compressor(config: PluginConfig, context: PluginContext) -> Compressor | None:
    """Compress batches. Import the codec's library here, not at the top of the module.

    A second implementation of a codec needs its own name for `compression.type`, and has the `codec_id` of the
    format that it writes. If the library is absent, raise PluginNotFoundError with what to install.
    """


@hookspec(firstresult=True)
def ottla_encoder(config: PluginConfig, context: PluginContext) -> RecordEncoder | None:
    """Make the columns of batches. Of those released with the core the highest `priority` wins, unless one is named."""


@hookspec(firstresult=True)
def ottla_reporter(config: PluginConfig, context: PluginContext) -> MetricsReporter | None:
    """Export metrics. Start nothing here: `start` and `close` are for that."""


@hookspec(firstresult=True)
def ottla_serializer(config: PluginConfig, context: PluginContext, is_key: bool) -> Serializer | None:
    """Convert keys (*is_key*) or values to bytes. Called once for each when both name the same plugin."""


@hookspec(firstresult=True)
def ottla_interceptor(config: PluginConfig, context: PluginContext) -> Interceptor | None:
    """Intercept every record before it is queued, and every outcome."""


@hookspec(firstresult=True)
def ottla_config_provider(config: PluginConfig, context: PluginContext) -> ConfigProvider | None:
    """Provide values for references in settings.

    The keys of such a plugin are its parameters, which users write as `config.providers.NAME.param.PARAMETER`.
    """


@hookspec(firstresult=True)
def ottla_config_keys() -> Sequence[ConfigKey] | None:
    """Return the keys that this plugin reads, in any of its hooks; none if left out.

    Called before the plugin's own hook and without a configuration. A key that the core knows, too, such as
    `batch.size`, may be declared: the plugin gets the user's value.
    """
