"""`ottla config show`: the settings in force. `ottla config translate`: the configuration of another client as ours."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import attrs
import click

from ottla.cli.foreign_config import read_configuration
from ottla.cli.foreign_output import printed_to_stderr
from ottla.cli.options import json_option
from ottla.cli.producer_settings import settings_options
from ottla.cli.settings_in_force import in_force, show_settings
from ottla.config.importance import Importance
from ottla.config.in_force import DEFAULT
from ottla.config.properties import escaped_value
from ottla.config.translation import Client, Outcome, Translated, Translation, translate
from ottla.config.values import HIDDEN, is_secret
from ottla.errors import ConfigError, PluginError, printable
from ottla.errors.similar_names import most_similar

_LINES_FAILED: Final = 1
_REFUSED: Final = 1


@click.group()
def config() -> None:
    """Show settings, or translate those of other clients."""


@config.command(name="show")
@settings_options("optional")
@click.argument("keys", nargs=-1)
@click.option("--changed", is_flag=True, help="Only settings that do not have their defaults.")
@click.option(
    "--importance",
    type=click.Choice(get_args(Importance)),
    multiple=True,
    help="Only settings of this importance in Java's producer.",
)
@json_option("JSON")
def show_(
    settings: dict[str, Any],
    keys: tuple[str, ...],
    changed: bool,
    importance: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print settings: value, source, default, importance and meaning.

    All settings, or those whose name contains one of KEYS. Later sources take precedence: the file of
    --command-config (Java properties, or TOML), the environment variables that begin with PREFIX, -c, and
    --bootstrap-servers. No broker is asked, and secrets are not printed.

    The exit code is 0, 1 if a producer would refuse the settings, 2 for wrong usage. Missing servers do not count:
    their line says so.
    """
    try:
        with printed_to_stderr():
            found = in_force(settings)
    except (ConfigError, PluginError) as error:
        click.echo(str(error), err=True)
        raise click.exceptions.Exit(_REFUSED) from None
    names = [setting.key for setting in found]
    parts = [key.lower().replace("_", ".") for key in keys]
    for part in parts:
        if not any(part in name for name in names):
            close = most_similar(part, names)
            hint = f"; did you mean {close!r}?" if close else ""
            click.echo(f"no setting has {printable(part)!r} in its name{hint}", err=True)
    chosen = [
        setting
        for setting in found
        if (not parts or any(part in setting.key for part in parts))
        and (not importance or setting.importance in importance)
        and not (changed and setting.source == DEFAULT)
    ]
    if as_json:
        click.echo(json.dumps([attrs.asdict(setting) for setting in chosen], indent=2, default=str))
    else:
        show_settings(chosen)


@config.command(name="translate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--from",
    "client",
    type=click.Choice([each.value for each in Client]),
    help="The client that FILE is for; by default what its settings look like.",
)
@click.option("--show-secrets", is_flag=True, help="Print passwords and keys, too.")
@json_option("JSON instead of a properties file")
def translate_(file: Path, client: str | None, show_secrets: bool, as_json: bool) -> None:
    """Print the configuration in FILE as a properties file for Ottla.

    FILE contains the settings of librdkafka or Java as properties, options of Spark's sink with kafka. before each
    setting, or keyword arguments of kafka-python or aiokafka, one on each line. It may also be a JSON object (.json),
    or a Python program that makes a producer (.py), which is read and never run.

    Comments say what changes without an error, and what became of each line. The exit code is 0, 1 if a line cannot be
    translated, 2 for wrong usage.
    """
    try:
        given, found = read_configuration(file, Client(client) if client else None)
    except (OSError, ValueError) as error:
        raise click.BadParameter(f"{file} cannot be read: {error}", param_hint="FILE") from None
    translation = translate(given, found)
    guessed = client is None and file.suffix.lower() != ".py"
    if as_json:
        click.echo(json.dumps(_document(translation, secrets=show_secrets), indent=2))
    else:
        click.echo("\n".join(_properties(translation, guessed=guessed, secrets=show_secrets)))
    if not translation.complete:
        raise click.exceptions.Exit(_LINES_FAILED)


def _properties(translation: Translation, *, guessed: bool, secrets: bool) -> Iterator[str]:
    client = translation.client
    yield f"# From the configuration of {client}." + (
        " If that is wrong, name the client with --from." if guessed else ""
    )
    if translation.warnings:
        yield "# What changes without an error:"
    yield from (f"# - {warning}." for warning in translation.warnings)
    yield ""
    for key, value in translation.added.items():
        yield f"# added: the default of {client}"
        yield f"{key}={value}"
    for line in translation.lines:
        yield from _lines(line, secrets=secrets)
    yield from (f"# together: {problem}" for problem in translation.problems)


def _lines(line: Translated, *, secrets: bool) -> Iterator[str]:
    subject = f"line {line.given.line}, {_printable(line.given.key)}"
    if line.outcome is not Outcome.KEPT or line.remark:
        yield f"# {subject}: {line.outcome}" + (f"; {line.remark}" if line.remark else "")
    for key, value in line.settings.items():
        if secrets or not is_secret(key):
            yield f"{key}={escaped_value(value)}"
        else:
            yield f"# {subject}: secret; copy its value to {key}, or use --show-secrets"


def _document(translation: Translation, *, secrets: bool) -> dict[str, object]:
    def visible(key: str, value: str) -> str:
        return value if secrets or not is_secret(key) else HIDDEN

    return {
        "client": translation.client,
        "ok": translation.complete,
        "warnings": list(translation.warnings),
        "added": dict(translation.added),
        "lines": [
            {
                "line": line.given.line,
                "key": line.given.key,
                "outcome": line.outcome,
                "settings": {key: visible(key, value) for key, value in line.settings.items()},
                "remark": line.remark,
            }
            for line in translation.lines
        ],
        "problems": list(translation.problems),
    }


def _printable(key: str) -> str:
    return key if key.isprintable() else repr(key)
