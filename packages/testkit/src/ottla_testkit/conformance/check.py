"""The conformance suite of a plugin that is installed, run by pytest in a separate process.

The suite creates the plugin as a producer does: by its entry point, its hook and its keys. A plugin whose suite needs
more, such as the peer of its connections, names its own subclass next to its hooks:

ottla_conformance = "my_package.conformance:MyConformance"

That class has the missing fixtures. The check adds its `settings`, if any, to the given ones; or `settings_for(given)`
returns all of them. Its fixtures find the result in `self.settings`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from ottla.errors import InvalidPluginError, OttlaError
from ottla.interfaces import SupportsOpenOver, supports
from ottla.plugins.registry import KindName, Plugin, Registry, make_alone
from ottla_testkit.conformance.harness.context import plugin_context

_WITHOUT: Final = ("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest")
"""pytest's plugins that a check does not load. Hypothesis's imports Hypothesis at the end of each run; suites can use
Hypothesis without it."""

_OPTIONS: Final = (*_WITHOUT, "--import-mode=importlib", "--no-header", "-ra")
_SOURCE: Final = """\
import json
from pathlib import Path

from ottla_testkit.conformance.check import suite

TestInstalled = suite({kind!r}, {name!r}, json.loads(Path(__file__).with_name("settings.json").read_text()))
"""
_SHORTEST_SECRET: Final = 8
_WITHOUT_A_FAR_END: Final = (
    "{plugin} talks with its peer before bytes may flow, and only its author knows how that peer answers; to be "
    'checked it must state ottla_conformance = "module:class", a suite with a far end of its own'
)


@attrs.frozen
class _Suite:
    """The place of a kind's suite, and the fixture that returns the plugin under test."""

    name: str
    subject: str


_SUITES: Final[Mapping[KindName, _Suite]] = {
    "transport": _Suite("TransportConformance", "transport"),
    "authenticator": _Suite("AuthenticatorConformance", "mechanism"),
    "partitioner": _Suite("PartitionerConformance", "partitioner"),
    "compressor": _Suite("CompressorConformance", "compressor"),
    "encoder": _Suite("RecordEncoderConformance", "encoder"),
    "serializer": _Suite("SerializerConformance", "serializer"),
    "reporter": _Suite("MetricsReporterConformance", "reporter"),
    "interceptor": _Suite("InterceptorConformance", "interceptor"),
    "config_provider": _Suite("ConfigProviderConformance", "provider"),
}


def prepare(plugin: Plugin, settings: Mapping[str, str]) -> None:
    """Create the plugin once, so that an error in its creation is reported in a sentence and not by the suite.

    Raises ConfigError or PluginError when it cannot be created from these settings.
    """
    kind, name = plugin.info.kind.name, plugin.info.qualified_name
    tested = suite(kind, name, settings)
    if _is_made_here(tested, kind):
        made = _made(kind, name, tested.settings)
        if kind == "transport" and plugin.conformance is None and not _ready_at_once(made):
            raise InvalidPluginError(_WITHOUT_A_FAR_END.format(plugin=plugin))


def check(plugins: Sequence[Plugin], settings: Mapping[str, str], *, verbose: bool = False) -> bool:
    """Return whether these prepared plugins meet all requirements; pytest reports on the standard output."""
    with tempfile.TemporaryDirectory(prefix="ottla-check-") as folder:
        return _run(Path(folder), plugins, settings, verbose=verbose) == pytest.ExitCode.OK


def suite(kind: KindName, name: str, settings: Mapping[str, str]) -> type[Any]:
    """Return a class of tests for the installed plugin of this name."""
    plugin = Registry().plugin(kind, name)
    base = _base(kind)
    own = () if plugin.conformance is None else (_stated(plugin, base),)
    bases = (*own, _installed(kind, name, base))
    complete_settings = _complete_settings(bases[0], settings, plugin)
    members: dict[str, Any] = {"settings": complete_settings}
    if kind == "authenticator" and "entry_point" not in vars(bases[0]):
        members["entry_point"] = plugin.name
    if kind in ("authenticator", "transport"):
        _check_secret_keys(plugin, bases[0].secrets, complete_settings)
        members["secrets"] = (*bases[0].secrets, *_secrets(plugin, complete_settings))
    tested: type[Any] = type("TestInstalled", bases, members)
    if kind == "transport" and _is_made_here(tested, kind):
        tested.over_layers = supports(_made(kind, name, complete_settings), SupportsOpenOver)
    return tested


def _base(kind: KindName) -> type[Any]:
    found: type[Any] = getattr(importlib.import_module("ottla_testkit.conformance"), _SUITES[kind].name)
    return found


def _stated(plugin: Plugin, base: type[Any]) -> type[Any]:
    """Return the class that the plugin names, which must be a subclass of its kind's suite."""
    module, _, attribute = str(plugin.conformance).partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except OttlaError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidPluginError(
            f"{plugin} states ottla_conformance = {plugin.conformance!r}, which cannot be imported: "
            f"{type(error).__name__}: {error}; it must be 'module:class'"
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InvalidPluginError(
            f"{plugin} states ottla_conformance = {plugin.conformance!r}, which is not a subclass of {base.__name__}"
        )
    return found


def _complete_settings(tested: type[Any], given: Mapping[str, str], plugin: Plugin) -> Mapping[str, Any]:
    """Return the plugin's settings: the given ones, and those that the plugin's own class adds."""
    settings_for = getattr(tested, "settings_for", None)
    try:
        return {**getattr(tested, "settings", {}), **given} if settings_for is None else dict(settings_for(given))
    except OttlaError:
        raise
    except Exception as error:
        raise InvalidPluginError(
            f"{plugin}: its suite has no settings for the check: {type(error).__name__}"
        ) from error


def _secrets(plugin: Plugin, settings: Mapping[str, Any]) -> Sequence[str]:
    """Return the secret settings; short ones are left out, because they occur by chance."""
    declared = [settings.get(key.name) for key in plugin.config_keys() if key.secret]
    return [value for value in declared if isinstance(value, str) and len(value) >= _SHORTEST_SECRET]


def _check_secret_keys(plugin: Plugin, secrets: Sequence[str], settings: Mapping[str, Any]) -> None:
    """Raise InvalidPluginError for a setting with a secret of the suite, if its key is not declared as secret."""
    for key in plugin.config_keys():
        if not key.secret and settings.get(key.name) in secrets:
            raise InvalidPluginError(
                f"{plugin}: its suite has the value of {key.name} in `secrets`, and its ConfigKey is not secret; give "
                "the key secret=True, so that no log and no error shows the value"
            )


def _installed(kind: KindName, name: str, base: type[Any]) -> type[Any]:
    """Return a suite that creates the installed plugin, for a class that does not create it itself."""

    def subject(self: Any) -> object:
        return _made(kind, name, self.settings)

    members: dict[str, Any] = {_SUITES[kind].subject: pytest.fixture(subject), "made_here": True}
    if kind == "transport":
        members["peer"] = pytest.fixture(_plain_far_end)
    if kind == "reporter":
        members["another"] = pytest.fixture(lambda self: subject(self))
    return type("Installed", (base,), members)


def _plain_far_end(self: Any) -> type[Any]:
    from ottla_testkit.conformance import PlainPeer

    return PlainPeer


def _ready_at_once(transport: Any) -> bool:
    """Return whether bytes may flow before the peer has sent any. True after an error, which the suite reports."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        try:
            with contextlib.closing(transport.open(ours, "localhost", 9092)) as layer:
                return bool(layer.handshake())
        except Exception:
            return True


def _is_made_here(tested: type[Any], kind: KindName) -> bool:
    """Return whether no class of the plugin's own creates the plugin under test."""
    subject = _SUITES[kind].subject
    giver = next(one for one in tested.__mro__ if subject in vars(one))
    return "made_here" in vars(giver)


def _made(kind: KindName, name: str, settings: Mapping[str, Any]) -> object:
    registry = Registry()
    return make_alone(registry.plugin(kind, name), settings, registry=registry, context=plugin_context())


def _run(folder: Path, plugins: Sequence[Plugin], settings: Mapping[str, str], *, verbose: bool) -> int:
    # Settings travel in a file that only this user can read: an argument would show secrets to every user.
    (folder / "settings.json").write_text(json.dumps(dict(settings)))
    (folder / "pytest.ini").write_text("[pytest]\n")
    tests = []
    for number, plugin in enumerate(plugins):
        kind, name = plugin.info.kind.name, plugin.info.qualified_name
        tests.append(folder / f"test_{number}_{kind}_{re.sub(r'[^a-z0-9]', '_', plugin.name.lower())}.py")
        tests[-1].write_text(_SOURCE.format(kind=kind, name=name), encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    asked = [*_OPTIONS, "-v" if verbose else "-q", f"--rootdir={folder}", *map(str, tests)]
    return subprocess.run([sys.executable, "-m", "pytest", *asked], env=environment, check=False).returncode
