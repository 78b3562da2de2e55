"""The settings, checked as a producer checks them, and the plugins that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config import ConfigDraft, ConnectionConfig
from ottla.doctor.findings import Finding, Step, Trouble, Verdict
from ottla.errors import ConfigError, PluginError
from ottla.interfaces import Transport
from ottla.plugin_choice import choose
from ottla.registry import Registry

_REMEDY: Final = "correct the configuration"


@attrs.frozen(kw_only=True)
class Checked:
    """What the other steps need of a configuration that can be used."""

    connection: ConnectionConfig
    transport: Transport


def checked(settings: Mapping[str, Any], *, clock: Callable[[], float]) -> Generator[Finding, None, Checked | None]:
    """A finding for each problem, or one that names the transport."""
    started = clock()
    try:
        registry = Registry()
        config, plugins = choose(ConfigDraft.read(settings), registry)
    except (ConfigError, PluginError) as error:
        for problem in error.problems if isinstance(error, ConfigError) else [str(error)]:
            trouble = Trouble.of(problem, remedy=_REMEDY)
            yield Finding.failed(Step.CONFIGURATION, "", trouble, seconds=clock() - started)
        return None
    yield Finding(
        step=Step.CONFIGURATION,
        subject=f"security.protocol={config.connection.security_protocol}",
        verdict=Verdict.OK,
        seconds=clock() - started,
        said=", ".join(_transports(config.connection, registry)),
    )
    return Checked(connection=config.connection, transport=plugins.transport)


def _transports(connection: ConnectionConfig, registry: Registry) -> Sequence[str]:
    wanted = {connection.security_protocol.transport, connection.connection_via}
    return [
        f"transport {info.name} of {info.distribution} {info.version}".rstrip()
        for info in registry.installed("transport")
        if info.name.lower() in wanted
    ]
