"""The settings that a command gets for its producer: a file, environment variables, single keys, the servers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import click

from ottla.config.settings import from_environment, from_file
from ottla.errors import ConfigError, quoted
from ottla.errors.setting_sources import SourcedSettings
from ottla.errors.similar_names import most_similar

Servers: TypeAlias = Literal["required", "optional", "none"]
"""Whether a command needs servers to connect to; "none": it has no option for them."""

_SERVERS: Final = "bootstrap.servers"
_FILE: Final = click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Settings, also secret ones: Java properties, or TOML (.toml).",
)
_ENVIRONMENT: Final = click.option(
    "--environment", metavar="PREFIX", help="Read environment variables: SHOP_KAFKA_ for SHOP_KAFKA_ACKS."
)
_PAIRS: Final = click.option(
    "--config", "-c", "pairs", metavar="KEY=VALUE", multiple=True, help="A setting of the producer."
)
_BOOTSTRAP: Final = click.option(
    "--bootstrap-servers", metavar="HOST:PORT[,...]", help="The servers to ask first for the brokers."
)


def settings_options(servers: Servers) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options for settings to a command, which gets the result as its argument *settings*.

    Later options of these take precedence: the file, the environment, -c, and the servers. What cannot be read is wrong
    usage.
    """

    def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(
            *arguments: Any,
            command_config: Path | None,
            environment: str | None,
            pairs: tuple[str, ...],
            bootstrap_servers: str | None = None,
            **others: Any,
        ) -> Any:
            settings = _read(command_config, environment, pairs, bootstrap_servers)
            if servers == "required" and not _names_servers(settings):
                raise click.UsageError(_no_servers(settings))
            return command(*arguments, settings=settings, **others)

        for option in (_PAIRS, _ENVIRONMENT, _FILE, *(() if servers == "none" else (_BOOTSTRAP,))):
            call = option(call)
        return call

    return with_options


def _read(file: Path | None, prefix: str | None, pairs: Iterable[str], servers: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {} if file is None else _readable(lambda: from_file(file), "--command-config")
    if prefix is not None:
        settings = settings | _readable(lambda: from_environment(prefix), "--environment")
    options = dict(map(_pair, pairs))
    settings = settings | SourcedSettings(options, dict.fromkeys(options, "option -c"))
    if servers is not None:
        settings = settings | SourcedSettings({_SERVERS: servers}, {_SERVERS: "option --bootstrap-servers"})
    return settings


def _readable(read: Callable[[], dict[str, Any]], option: str) -> dict[str, Any]:
    try:
        return read()
    except ConfigError as error:
        raise click.BadParameter("; ".join(error.problems), param_hint=option) from None


def _pair(written: str) -> tuple[str, str]:
    """The key and the value of KEY=VALUE."""
    key, equals, value = written.partition("=")
    if not equals or not key.strip():
        # Not quoted: it may be a secret without its key.
        raise click.UsageError("--config takes KEY=VALUE")
    return key.strip(), value


def _names_servers(settings: dict[str, Any]) -> bool:
    servers = settings.get(_SERVERS)
    return bool(servers.strip() if isinstance(servers, str) else servers)


def _no_servers(settings: dict[str, Any]) -> str:
    """The error for settings without servers; it names a key that may be meant."""
    close = most_similar(_SERVERS, settings.keys() - {_SERVERS})
    meant = f"; {quoted(close)} is not a known key: did you mean {_SERVERS!r}?" if close else ""
    return f"name the servers: --bootstrap-servers, or {_SERVERS} in the --command-config file{meant}"
