"""Options that give a command its producer's settings: servers, a properties file, single keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.properties import read_properties

_SERVERS: Final = "bootstrap.servers"


def settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options `bootstrap_servers`, `command_config` and `pairs` to a command."""
    for option in (
        click.option("--config", "-c", "pairs", metavar="KEY=VALUE", multiple=True, help="A setting of the producer."),
        click.option(
            "--command-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="The producer's settings, as Java properties.",
        ),
        click.option(
            "--bootstrap-servers", metavar="HOST:PORT[,...]", help="The servers to ask first for the brokers."
        ),
    ):
        command = option(command)
    return command


def producer_settings(bootstrap_servers: str | None, file: Path | None, pairs: tuple[str, ...] = ()) -> dict[str, str]:
    """The file's settings; single keys take precedence over them, and the servers' option over both."""
    settings = read_file(file, hint="--command-config") | dict(map(pair, pairs))
    if bootstrap_servers is not None:
        settings[_SERVERS] = bootstrap_servers
    if not settings.get(_SERVERS, "").strip():
        raise click.UsageError(f"name the servers: --bootstrap-servers, or {_SERVERS} in the --command-config file")
    return settings


def read_file(file: Path | None, *, hint: str) -> dict[str, str]:
    """The settings in a properties file; none without a file."""
    if file is None:
        return {}
    try:
        return read_properties(file.read_bytes())
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{file} cannot be read: {error}", param_hint=hint) from None


def pair(written: str) -> tuple[str, str]:
    """The key and the value of KEY=VALUE."""
    key, equals, value = written.partition("=")
    if not equals or not key.strip():
        # Not quoted: it may be a secret without its key.
        raise click.UsageError("--config takes KEY=VALUE")
    return key.strip(), value
