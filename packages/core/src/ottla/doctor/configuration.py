"""The settings, checked as a producer checks them, and their plugins."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config import ConnectionConfig
from ottla.config.plugin_choice import GivenPlugin, PluginChoice
from ottla.doctor.findings import Finding, Problem, Status, Step
from ottla.doctor.session import CLIENT_ID
from ottla.errors import ConfigError, PluginError
from ottla.interfaces import Mechanism, Transport
from ottla.plugins.plugin_objects import PluginObjects
from ottla.plugins.registry import KindName, Registry
from ottla.plugins.selection import choose_plugins

_REMEDY: Final = "correct the configuration"


@attrs.frozen(kw_only=True)
class Checked:
    """The parts of a valid configuration that the other steps need."""

    connection: ConnectionConfig
    transport: Transport
    mechanism: Mechanism | None
    plugin_values: Mapping[str, Any]
    """Keeps the secrets, so that quoted text from brokers has stars instead of them."""
    value_serializer: PluginChoice
    """If it is named, its shortest name."""
    close: Callable[[], None]
    """Close the plugins."""


def checked(settings: Mapping[str, Any], *, clock: Callable[[], float]) -> Generator[Finding, None, Checked | None]:
    """A finding for each problem, or one that names the transport."""
    started = clock()
    try:
        registry = Registry()
        objects = PluginObjects(name_client=lambda _configured: CLIENT_ID, clock=clock)
        config, plugins = choose_plugins(settings, registry=registry, objects=objects)
    except (ConfigError, PluginError) as error:
        for text in error.problems if isinstance(error, ConfigError) else [str(error)]:
            problem = Problem.of(text, remedy=_REMEDY)
            yield Finding.failed(Step.CONFIGURATION, "", problem, seconds=clock() - started)
        return None
    with contextlib.ExitStack() as made:  # closed if the examination ends here
        made.callback(plugins.close)
        yield Finding(
            step=Step.CONFIGURATION,
            subject=f"security.protocol={config.connection.security_protocol}",
            status=Status.OK,
            seconds=clock() - started,
            message=", ".join(_plugins(config.connection, registry)),
        )
        made.pop_all()
    return Checked(
        connection=config.connection,
        transport=plugins.transport,
        mechanism=plugins.mechanism,
        plugin_values=config.plugin_values,
        value_serializer=_shortest_name("serializer", config.serialization.value_serializer, registry),
        close=plugins.close,
    )


def _plugins(connection: ConnectionConfig, registry: Registry) -> Sequence[str]:
    protocol = connection.security_protocol
    wanted: list[tuple[KindName, PluginChoice | None]] = [
        ("transport", protocol.transport),
        *(("transport", via) for via in connection.connection_via),
        ("authenticator", connection.sasl_mechanism if protocol.sasl else None),
    ]
    return [_described(kind, choice, registry) for kind, choice in wanted if choice is not None]


def _described(kind: KindName, choice: PluginChoice, registry: Registry) -> str:
    if isinstance(choice, GivenPlugin):
        return f"{kind} {choice} of the program"
    info = registry.find(kind, choice)
    return f"{kind} {info.name} of {info.distribution} {info.version}".rstrip()


def _shortest_name(kind: KindName, choice: PluginChoice, registry: Registry) -> PluginChoice:
    if isinstance(choice, GivenPlugin):
        return choice
    return registry.chosen_by(registry.find(kind, choice)) or choice
