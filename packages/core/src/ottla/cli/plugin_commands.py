"""`ottla plugins`: list installed plugins, check their contracts, and write a new one.

Checking and writing plugins needs the testkit. It is imported only then, because the core does not depend on it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from ottla.cli.foreign_output import printed_to_stderr
from ottla.cli.options import json_option
from ottla.cli.plugin_table import document, show
from ottla.cli.producer_settings import settings_options
from ottla.errors import InvalidPluginError, OttlaError, PluginNotFoundError
from ottla.errors.secret import revealed
from ottla.errors.similar_names import most_similar
from ottla.plugins.registry import KINDS, EntryInfo, KindName, Plugin, Registry, plugin_condition
from ottla.plugins.registry.installed import misplaced

_PROMISE_BROKEN: Final = 1
_TESTKIT: Final = "ottla_testkit"
_NEAR: Final = 0.7
"""How similar a name must be to one that exists to be a misspelling of it (`difflib`)."""
_LONGEST: Final = 30.0
"""Seconds that the list waits for one plugin."""


@click.group(invoke_without_command=True, short_help="List, check and write plugins.")
@json_option("JSON instead of a table")
@click.pass_context
def plugins(context: click.Context, as_json: bool) -> None:
    """List the installed plugins, with the reason for each one that cannot be used.

    Each plugin is loaded, and created if it needs no settings. If two packages have one plugin name, the list shows
    it as `package:name`, which is what a configuration writes. The exit code is always 0.
    """
    if context.invoked_subcommand is None:
        _list(as_json=as_json)
    elif as_json:
        raise click.UsageError(f"--json is for the list, not for {context.invoked_subcommand!r}")


@plugins.command(name="list")
@json_option("JSON instead of a table")
def list_(as_json: bool) -> None:
    """List the installed plugins, like `ottla plugins` alone."""
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    registry = Registry()
    conditions = []
    for info in _installed(registry):
        with printed_to_stderr():
            conditions.append(plugin_condition(info, registry=registry, timeout=_LONGEST))
    if as_json:
        click.echo(document(conditions, misplaced()))
    else:
        show(conditions, misplaced())


@plugins.command()
@click.argument("names", metavar="[KIND:][PACKAGE:]NAME...", nargs=-1, required=True)
@settings_options("none")
@click.option("--verbose", "-v", is_flag=True, help="Name every promise, not only the broken ones.")
def check(names: tuple[str, ...], settings: dict[str, Any], verbose: bool) -> None:
    """Run the conformance suites of installed plugins, such as `transport:plaintext`.

    A plugin is made as a producer makes it, from --config. The exit code is 0 if all promises are kept, 1 if one is
    broken or a plugin cannot be made, 2 for wrong usage.
    """
    settings = {key: revealed(value) for key, value in settings.items()}
    registry = Registry()
    infos = dict.fromkeys(_named(name, registry) for name in names)
    testkit = _testkit("conformance.check", wanted="the conformance suites")
    prepared: list[Plugin] = []
    for info in infos:
        try:
            plugin = registry.load(info)
            testkit.prepare(plugin, settings)
            prepared.append(plugin)
        except OttlaError as error:
            click.echo(str(error), err=True)
    kept = not prepared or testkit.check(prepared, settings, verbose=verbose)
    if len(prepared) < len(infos) or not kept:
        raise click.exceptions.Exit(_PROMISE_BROKEN)


# The list of kinds would be broken in the middle of a word if it stood in the usage.
@plugins.command(epilog=f"KIND is one of {', '.join(KINDS)}.")
@click.argument("kind", metavar="KIND", type=click.Choice(list(KINDS)))
@click.argument("name")
@click.option(
    "--directory",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write it; by default a folder here, named like the package.",
)
def new(kind: KindName, name: str, directory: Path | None) -> None:
    """Write a package with a working plugin that passes its suite, to be changed into your own."""
    template = _testkit("template", wanted="the template")
    for info in Registry().installed(kind):
        if info.name.lower() == name.strip().lower():
            raise click.UsageError(f"the installed {info} has this name already; choose another one")
    try:
        package = template.Package.named(kind, name)
        folder = package.write(directory or Path(package.distribution))
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"{folder} is a plugin that works. To install it, test it, and check it as it is installed:\n")
    click.echo(f"    pip install -e '{folder}[test]'\n    pytest {folder}\n    ottla plugins check {kind}:{name}\n")


def _installed(registry: Registry) -> list[EntryInfo]:
    return [info for kind in KINDS for info in registry.installed(kind)]


def _named(name: str, registry: Registry) -> EntryInfo:
    """The plugin for *name*, with its kind before a colon; the kind may be missing if only one kind has the name."""
    kind, colon, rest = name.partition(":")
    if kind not in KINDS:
        kind, rest = "", name
    try:
        found = [info for one in KINDS if kind in ("", one) for info in _found(one, rest, registry)]
    except InvalidPluginError as error:
        raise click.UsageError(str(error)) from None
    if not (found or kind) and colon:
        before = name.partition(":")[0]
        raise click.UsageError(
            f"{before!r} is neither a kind of plugin nor a package with a plugin of this name; "
            f"{_meant(before, KINDS)}the kinds are {', '.join(KINDS)}"
        )
    kinds = sorted({info.kind.name for info in found})
    if not found:
        names = [info.name for info in _installed(registry) if kind in ("", info.kind.name)]
        raise click.UsageError(
            f"no {kind or 'plugin'} named {rest!r} is installed; {_meant(rest, names)}`ottla plugins` lists those that "
            "are"
        )
    if len(kinds) > 1:
        raise click.UsageError(
            f"more than one plugin is named {rest!r}; write {' or '.join(f'{one}:{rest}' for one in kinds)}"
        )
    return found[0]


def _meant(written: str, known: Iterable[str]) -> str:
    """The known name that differs least, as a question; empty if none is near."""
    names = {name.lower(): name for name in known}
    close = most_similar(written.strip().lower(), names, cutoff=_NEAR)
    return f"did you mean {names[close]!r}? " if close else ""


def _found(kind: KindName, name: str, registry: Registry) -> Sequence[EntryInfo]:
    try:
        return [registry.find(kind, name)]
    except PluginNotFoundError:
        return ()


def _testkit(module: str, *, wanted: str) -> Any:
    try:
        return importlib.import_module(f"{_TESTKIT}.{module}")
    except ModuleNotFoundError as missing:
        if missing.name != "pytest" and not f"{_TESTKIT}.{module}.".startswith(f"{missing.name}."):
            raise
        raise click.UsageError(f"{wanted} come with the testkit; try: pip install ottla-testkit") from None
