"""The commands and their options. Other modules do the work; these functions present it and set the exit code."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Final

import click

from ottla.cli.config_commands import config
from ottla.cli.document import document
from ottla.cli.foreign_output import printed_to_stderr
from ottla.cli.options import json_option, timeout_option
from ottla.cli.perf.command import perf
from ottla.cli.plugin_commands import plugins
from ottla.cli.producer_settings import settings_options
from ottla.cli.send.command import send
from ottla.cli.table import show
from ottla.cli.transactions import show_transactions, transactions_document
from ottla.doctor import examine
from ottla.errors import OttlaError
from ottla.transactions.admin.blocking_client import blocking_client
from ottla.transactions.admin.listing import list_transactions_with
from ottla.version import __version__

_SOMETHING_IS_WRONG = 1
_OTHER_NAMES: Final = {"produce": "Did you mean 'send'?", "consume": "Ottla only sends; use another client."}
"""Commands of other clients, and what to do instead."""


class _Commands(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _OTHER_NAMES and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. {_OTHER_NAMES[args[0]]}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ottla")
def ottla() -> None:
    """Ottla, a Kafka producer with plugins."""


ottla.add_command(config)
ottla.add_command(perf)
ottla.add_command(plugins)
ottla.add_command(send)


@ottla.command(short_help="Find out what is wrong with a connection to a cluster.")
@settings_options("required")
@click.option("--topic", metavar="NAME", help="A topic to check; it is never created.")
@click.option("--send", is_flag=True, help="Send one test record, a text, to the topic.")
@json_option("JSON instead of a table")
@timeout_option
def doctor(
    settings: dict[str, Any],
    topic: str | None,
    send: bool,
    as_json: bool,
    timeout: float,
) -> None:
    """Find out what is wrong between this machine and a cluster, and what to change.

    It checks step by step everything that a record needs. The exit code is 0 if everything works, 1 if something is
    wrong, 2 for wrong usage.
    """
    if send and not topic:
        raise click.UsageError("--send needs --topic, the topic that the test record goes to")
    with printed_to_stderr():
        examination = examine(settings, topic=topic or None, send=send, timeout=timeout)
    if as_json:
        click.echo(document(examination))
    else:
        show(examination)
    if not examination.healthy:
        raise click.exceptions.Exit(_SOMETHING_IS_WRONG)


@ottla.command(short_help="Show transactional ids and their transactions.")
@click.argument("prefix")
@settings_options("required")
@json_option("JSON instead of a table")
@timeout_option
def transactions(
    prefix: str,
    settings: dict[str, Any],
    as_json: bool,
    timeout: float,
) -> None:
    """Show the transactional ids that begin with PREFIX, their transactions, and what happens to these next.

    Also shows committed offsets of the consumer groups with the same names, such as the markers of Spark's batches.
    Changes nothing. The exit code is 0, 1 if the cluster or one of its brokers could not be asked, 2 for wrong usage.
    What the other brokers know is shown.
    """
    output = sys.stdout
    try:
        with printed_to_stderr(), blocking_client(settings, timeout=timeout) as client:
            found = list_transactions_with(client, prefix)
            # Shown while the configuration exists: until then its secrets are hidden.
            with contextlib.redirect_stdout(output):
                if as_json:
                    click.echo(transactions_document(found))
                else:
                    show_transactions(found, prefix)
        if found.missing:
            raise click.exceptions.Exit(_SOMETHING_IS_WRONG)
    except OttlaError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        raise click.exceptions.Exit(_SOMETHING_IS_WRONG) from None
