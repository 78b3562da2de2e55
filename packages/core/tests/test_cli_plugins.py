"""`ottla plugins` and `ottla plugins check`: what they say of packages that are really there."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import textwrap
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result
from long_forms import share

from command_runner import CliRunner
from ottla import __version__ as ottla_version
from ottla.cli.commands import ottla
from ottla.plugins.registry import KINDS, KindName

pytestmark = pytest.mark.slow

FINE, BROKEN, USAGE = 0, 1, 2
SECRET = "hunter2-and-more"

GOOD = """
    from ottla.errors import ConfigError
    from ottla.hookspecs import hookimpl
    from ottla.interfaces import ConfigKey

    class Constant:
        def __init__(self, constant):
            self._constant = constant

        def partition(self, topic, key, view):
            # Its constant is for records without a key.
            spread = 0 if key is None else sum(key) % view.partitions
            return spread or min(self._constant, view.partitions - 1)

    @hookimpl
    def ottla_config_keys():
        return [
            ConfigKey(name="acme.constant", type=int, default=0, meaning="the partition"),
            ConfigKey(name="acme.password", type=str, default="", meaning="a secret", secret=True),
        ]

    @hookimpl
    def ottla_partitioner(config):
        if config["acme.constant"] < 0:
            raise ConfigError(["acme.constant must not be negative"])
        return Constant(config["acme.constant"])
"""
OUT_OF_RANGE = GOOD.replace("min(self._constant, view.partitions - 1)", "view.partitions")
NEVER_OPENS = """
    from ottla.hookspecs import hookimpl

    class Closed:
        def targets(self, host, port):
            return None

        def open(self, sock, host, port):
            sock.close()
            raise OSError("nothing opens here")

    @hookimpl
    def ottla_transport(config):
        return Closed()
"""
TALKS_FIRST = """
    from ottla.hookspecs import hookimpl
    from ottla.plugins.transports import SocketLayer
    from ottla_transport_plaintext import PlaintextTransport

    class Reserved(SocketLayer):
        def handshake(self):
            return False

    class Shy(PlaintextTransport):
        def open(self, sock, host, port):
            return Reserved(sock)

    @hookimpl
    def ottla_transport(config):
        return Shy()
"""
NEWER_SPEC = "from ottla.hookspecs import hookimpl\nottla_spec = 2\n"
ITS_OWN_SUITE = """
    from ottla_testkit.conformance import PartitionerConformance

    class Own(PartitionerConformance):
        settings = {"acme.constant": "1"}

        def test_the_setting_has_arrived(self, partitioner):
            assert partitioner._constant == 1

    class Unsettled(PartitionerConformance):
        @staticmethod
        def settings_for(given):
            return {"acme.constant": given["acme.number"]}

    class NoSuite:
        pass
"""
OWN_LOGIN_SUITE = """
    from ottla_testkit.conformance import AuthenticatorConformance

    class Own(AuthenticatorConformance):
        settings = {"acme.password": "swordfish"}
        secrets = ("swordfish",)
"""
OWN_SETTINGS = """
    from ottla_testkit.conformance import PartitionerConformance

    class Own(PartitionerConformance):
        @staticmethod
        def settings_for(given):
            return {**given, "acme.password": "of the other end"}

        def test_both_ways_are_known(self, partitioner):
            assert self.settings == {"acme.constant": "2", "acme.password": "of the other end"}
            assert partitioner._constant == 2
"""
TALKATIVE = """
    from ottla.errors import AuthenticationError
    from ottla.hookspecs import hookimpl
    from ottla.interfaces import ConfigKey

    class Exchange:
        def start(self):
            return b"hello"

        def challenge(self, data):
            raise AuthenticationError("not you")

    class Talkative:
        name, blocking, remedy = "ACME", False, ""

        def __init__(self, password):
            self.identity = f"alice, by {password}"

        def authenticator(self, host, port):
            return Exchange()

    @hookimpl
    def ottla_config_keys():
        return [ConfigKey(name="acme.password", type=str, default="", meaning="a secret", secret=True)]

    @hookimpl
    def ottla_authenticator(config):
        return Talkative(config["acme.password"])
"""

OTHER_NAMES = "the gate has one of the ways to write such a name"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Makes a module, and a distribution that announces it, which other processes find as well."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")])))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # their imports are half of the time of a check

    def install(
        source: str, *, module: str = "", dist: str = "acme", name: str = "acme", group: str = "ottla.partitioners"
    ) -> None:
        module = module or f"acme_{uuid.uuid4().hex}"  # what was imported once stays
        (site / f"{module}.py").write_text(textwrap.dedent(source))
        if name:
            info = site / f"{dist}-1.5.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {dist}\nVersion: 1.5\n")
            (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {module}\n")
        importlib.invalidate_caches()

    return install


def run(*arguments: str) -> Result:
    return CliRunner().invoke(ottla, ["plugins", *arguments])


def listed() -> dict[tuple[str, str], dict[str, Any]]:
    result = run("--json")
    assert result.exit_code == FINE
    return {(entry["kind"], entry["name"]): entry for entry in json.loads(result.stdout)["plugins"]}


def test_every_installed_plugin_is_listed_with_its_package(install: Install) -> None:
    install(GOOD, module="acme_listed")

    entries = listed()
    assert entries["partitioner", "acme"] == {
        "kind": "partitioner",
        "name": "acme",
        "distribution": "acme",
        "version": "1.5",
        "value": "acme_listed",
        "chosen_by": "acme",
        "problem": None,
        "default": None,
    }
    assert entries["compressor", "gzip"]["distribution"] == "ottla"
    assert entries["transport", "plaintext"]["problem"] is None


def encoder_row(name: str) -> str:
    [row] = [line for line in run().stdout.splitlines() if line.startswith("encoder") and f" {name} " in line]
    return row.rstrip()


def test_the_list_names_the_encoder_that_producers_use() -> None:
    pytest.importorskip("ottla_accel", exc_type=ImportError)

    assert encoder_row("native").endswith("loaded, used by default")
    assert encoder_row("python").endswith("loaded, used if record.encoder names it")
    assert {name: entry["default"] for (kind, name), entry in listed().items() if kind == "encoder"} == {
        "native": True,
        "python": False,
    }


def test_the_list_says_why_a_compiled_encoder_is_not_used(install: Install) -> None:
    install("", dist="ottla-accel", name="native", group="ottla.encoders")

    entries = listed()
    assert f"does not belong to this version of ottla; try: pip install ottla-accel=={ottla_version}" in str(
        entries["encoder", "native"]["problem"]
    )
    assert (entries["encoder", "native"]["default"], entries["encoder", "python"]["default"]) == (False, True)
    assert encoder_row("python").endswith("loaded, used by default")


def test_the_table_has_the_same_content_as_the_json(install: Install) -> None:
    install("1 / 0")

    [row] = [line for line in run().stdout.splitlines() if line.startswith("partitioner") and " acme " in line]
    assert row.split()[:4] == ["partitioner", "acme", "acme", "1.5"]
    assert "cannot be imported: ZeroDivisionError" in row


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("1 / 0", "cannot be imported: ZeroDivisionError"),
        ("import sys; sys.exit()", "cannot be imported: SystemExit"),
        (
            NEWER_SPEC,
            "is made for hook specs 2, but this version of ottla supports 1; upgrade ottla, or install an older acme",
        ),
        (GOOD.replace("return Constant(config", "return (config"), "is not a Partitioner: it lacks partition"),
        (
            GOOD.replace('return Constant(config["acme.constant"])', "1 / 0"),
            "ottla_partitioner raised ZeroDivisionError",
        ),
    ],
)
def test_an_unusable_plugin_is_listed_with_the_reason_next_to_others(
    install: Install, source: str, reported: str
) -> None:
    install(source)

    entries = listed()
    assert reported in entries["partitioner", "acme"]["problem"]
    assert entries["partitioner", "murmur2"]["problem"] is None


def test_list_is_a_command(install: Install) -> None:
    install(GOOD)

    assert run("list").stdout == run().stdout
    assert run("list", "--json").stdout == run("--json").stdout


def test_output_printed_during_an_import_is_not_part_of_the_list(install: Install) -> None:
    install(f"print('good morning')\n{textwrap.dedent(GOOD)}".replace("return Constant(", "print('hm') or Constant("))
    command = [sys.executable, "-m", "ottla", "plugins", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert json.loads(ended.stdout)
    assert "good morning" in ended.stderr


def test_control_characters_in_a_name_are_shown_escaped(install: Install) -> None:
    install('raise RuntimeError("\\x1b[2J[bold]gone[/bold]")')

    assert "\\x1b[2J[bold]gone[/bold]" in run().stdout


def test_a_slow_import_is_named_on_the_standard_error(install: Install) -> None:
    install(f"import time; time.sleep(1.5)\n{textwrap.dedent(GOOD)}")
    command = [sys.executable, "-m", "ottla", "plugins", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert "still waiting for the import of the partitioner 'acme' of acme 1.5" in ended.stderr
    assert json.loads(ended.stdout)


def test_two_plugins_of_one_name_are_listed_with_their_packages(install: Install) -> None:
    install(GOOD)
    install(GOOD, dist="rival", name="ACME")

    entries = listed()
    assert (entries["partitioner", "acme"]["chosen_by"], entries["partitioner", "acme"]["problem"]) == (
        "acme:acme",
        None,
    )
    assert entries["partitioner", "ACME"]["chosen_by"] == "rival:ACME"
    rows = [line.split()[:3] for line in run().stdout.splitlines()]
    assert ["partitioner", "rival:ACME", "rival"] in rows


def test_a_plugin_whose_name_cannot_choose_it_is_listed_so(install: Install) -> None:
    install(GOOD + "\n", name="acme = twice\nACME", module="twice")

    problem = "cannot be chosen: another plugin of acme has this name"
    assert problem in listed()["partitioner", "acme"]["problem"]
    assert listed()["partitioner", "ACME"]["chosen_by"] is None


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ("raise KeyboardInterrupt", "cannot be used: KeyboardInterrupt"),
        (GOOD.replace("return Constant(config", "raise GeneratorExit; return (config"), "GeneratorExit"),
    ],
)
def test_the_list_ends_for_no_exception_of_a_plugin(install: Install, source: str, reported: str) -> None:
    install(source)

    assert reported in listed()["partitioner", "acme"]["problem"]
    assert listed()["partitioner", "murmur2"]["problem"] is None


def test_the_list_does_not_wait_for_ever(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setitem(sys.modules, "acme_released", SimpleNamespace(event=released))
    monkeypatch.setattr("ottla.cli.plugin_commands._LONGEST", 1.0)
    install("from acme_released import event\nevent.wait(60)")
    try:
        problem = listed()["partitioner", "acme"]["problem"]
    finally:
        released.set()
        for thread in threading.enumerate():
            if thread.name == "ottla-plugin-condition":
                thread.join()

    assert problem.endswith("cannot be used: its import or its hook has not ended after 1 s")


def test_one_of_two_plugins_with_a_name_is_checked_by_its_package(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install(GOOD)
    install(OUT_OF_RANGE, dist="rival")

    assert run("check", "partitioner:acme").exit_code == USAGE
    assert run("check", "partitioner:acme:acme").exit_code == FINE
    assert run("check", "rival:acme").exit_code == BROKEN


def test_a_plugin_that_requires_settings_is_listed_as_usable(install: Install) -> None:
    install(GOOD.replace("default=0", "default=-1"))

    assert listed()["partitioner", "acme"]["problem"] is None


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_error_of_any_kind_of_plugin_is_reported(install: Install, kind: KindName) -> None:
    install("1 / 0", group=KINDS[kind].group)

    assert "cannot be imported: ZeroDivisionError" in str(listed()[kind, "acme"]["problem"])


def test_a_misspelt_entry_point_group_is_noted(install: Install) -> None:
    install(GOOD, group="ottla.partitioner")

    note = (
        "acme: nothing reads the entry point 'acme' of the group 'ottla.partitioner'; "
        "did you mean 'ottla.partitioners'?"
    )
    assert note in run().stdout
    assert json.loads(run("--json").stdout)["notes"] == [note]


@pytest.mark.thorough("a check of one of two plugins passes in the gate, and one with a suite of its own")
def test_a_correct_installed_plugin_passes_the_check(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(GOOD)

    assert run("check", "partitioner:acme", "--config", "acme.constant=2").exit_code == FINE
    assert "passed" in capfd.readouterr().out


def test_a_broken_promise_is_named_and_sets_the_exit_code(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(OUT_OF_RANGE)

    assert run("check", "ACME").exit_code == BROKEN
    assert "partition" in capfd.readouterr().out


def test_a_plugin_that_cannot_be_created_is_not_checked(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(GOOD)
    result = run("check", "acme", "-c", "acme.constant=-1", "-c", f"acme.password={SECRET}")

    assert result.exit_code == BROKEN
    assert "acme.constant must not be negative" in result.output
    assert SECRET not in result.output
    assert capfd.readouterr().out == ""


def test_an_ottla_error_of_a_plugin_is_reported_as_a_sentence(install: Install) -> None:
    unreachable = "from ottla.errors import ConnectionFailedError; raise ConnectionFailedError('no broker is there')"
    install(GOOD.replace("if config[", f"{unreachable}\n        if config["))
    result = run("check", "acme")

    assert (result.exit_code, result.output) == (BROKEN, "no broker is there\n")


def test_a_misspelt_setting_is_refused(install: Install) -> None:
    install(GOOD)
    result = run("check", "acme", "--config", "acme.constnt=1")

    assert (result.exit_code, "did you mean 'acme.constant'?" in result.output) == (BROKEN, True)


def test_settings_also_come_from_a_file_and_options_override_it(
    install: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    install(GOOD)
    file = tmp_path / "acme.properties"
    file.write_text(f"acme.constant=-1\nacme.password={SECRET}\n")

    assert run("check", "acme", "--command-config", str(file)).exit_code == BROKEN
    result = run("check", "acme", "--command-config", str(file), "-c", "acme.constant=1")
    assert result.exit_code == FINE
    assert SECRET not in result.output + "".join(capfd.readouterr())


def test_a_plugin_supplies_the_fixtures_of_its_suite(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(ITS_OWN_SUITE, module="acme_own_suite", name="")
    install(f'{textwrap.dedent(GOOD)}\nottla_conformance = "acme_own_suite:Own"\n')

    assert run("check", "acme", "--verbose").exit_code == FINE
    assert "test_the_setting_has_arrived PASSED" in capfd.readouterr().out


def test_the_suite_gets_the_settings_that_were_given(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(OWN_SETTINGS, module="acme_own_settings", name="")
    install(f'{textwrap.dedent(GOOD)}\nottla_conformance = "acme_own_settings:Own"\n')

    assert run("check", "acme", "-c", "acme.constant=2", "--verbose").exit_code == FINE
    assert "test_both_ways_are_known PASSED" in capfd.readouterr().out


def test_secrets_that_were_given_are_searched_for(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(TALKATIVE, group="ottla.authenticators", name="ACME")

    assert run("check", "ACME").exit_code == FINE
    assert run("check", "ACME", "-c", f"acme.password={SECRET}").exit_code == BROKEN
    reported = capfd.readouterr().out
    assert "secrets[0] is seen in `identity`" in reported
    assert SECRET not in reported


def test_a_secret_whose_key_is_not_secret_is_reported(install: Install) -> None:
    install(OWN_LOGIN_SUITE, module="acme_own_login", name="")
    source = textwrap.dedent(TALKATIVE).replace(", secret=True", "")
    stated = f'{source}\nottla_conformance = "acme_own_login:Own"\n'
    install(stated, group="ottla.authenticators", name="ACME")
    result = run("check", "ACME")

    assert result.exit_code == BROKEN
    assert "has the value of acme.password in `secrets`, and its ConfigKey is not secret" in result.output
    assert "swordfish" not in result.output


def test_several_plugins_are_checked_at_once_and_reported_by_name(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install(GOOD)
    install(OUT_OF_RANGE, dist="rival", name="rival")
    result = run("check", "acme", "ACME", "rival", "string", "-c", "acme.constant=1")

    assert result.exit_code == BROKEN
    reported = capfd.readouterr().out
    assert "test_1_partitioner_rival.py" in reported
    assert "test_0_partitioner_acme.py::" not in reported
    assert "test_2_serializer_string.py::" not in reported


@pytest.mark.thorough("the gate checks several plugins at once, and one that cannot be created alone")
def test_a_plugin_that_cannot_be_created_stops_no_other(install: Install, capfd: pytest.CaptureFixture[str]) -> None:
    install(GOOD)
    result = run("check", "acme", "string", "-c", "acme.constant=-1")

    assert result.exit_code == BROKEN
    assert "acme.constant must not be negative" in result.output
    assert "passed" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("stated", "reported"),
    [
        ("acme_no_suite:NoSuite", "which is not a subclass of PartitionerConformance"),
        ("acme_no_suite:Nothing", "which cannot be imported: AttributeError"),
        ("acme_nowhere:Own", "which cannot be imported: ModuleNotFoundError"),
        ("acme_no_suite", "it must be 'module:class'"),
        ("acme_no_suite:Unsettled", "its suite has no settings for the check: KeyError"),
    ],
)
def test_an_invalid_suite_is_reported(
    install: Install, stated: str, reported: str, request: pytest.FixtureRequest
) -> None:
    install(ITS_OWN_SUITE, module="acme_no_suite", name="")
    install(f"{textwrap.dedent(GOOD)}\nottla_conformance = {stated!r}\n")
    result = run("check", "acme")

    assert result.exit_code == BROKEN
    assert reported in result.output


def test_a_transport_that_sends_first_must_describe_its_peer(install: Install) -> None:
    install(TALKS_FIRST, group="ottla.transports")
    result = run("check", "acme")

    assert result.exit_code == BROKEN
    assert "to be checked it must state ottla_conformance" in result.output


def test_a_transport_that_cannot_open_is_reported_by_its_suite(
    install: Install, capfd: pytest.CaptureFixture[str]
) -> None:
    install(NEVER_OPENS, group="ottla.transports")

    assert run("check", "acme").exit_code == BROKEN
    assert "nothing opens here" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["check"], "Missing argument"),
        (["check", "missing"], "no plugin named 'missing' is installed; `ottla plugins` lists those that are"),
        (["check", "round_robbin"], "no plugin named 'round_robbin' is installed; did you mean 'round_robin'?"),
        (["check", "compressor:gzipp"], "no compressor named 'gzipp' is installed; did you mean 'gzip'?"),
        (["check", "partitoner:murmur2"], "a plugin of this name; did you mean 'partitioner'? the kinds are"),
        (["check", "transport:gzip"], "no transport named 'gzip' is installed"),
        (["check", "codec:gzip"], "'codec' is neither a kind of plugin nor a package with a plugin"),
        (["check", "gzip", "--config", SECRET], "--config takes KEY=VALUE"),
        (["--json", "check", "gzip"], "--json is for the list"),
    ],
)
def test_wrong_usage_has_its_own_exit_code(arguments: list[str], reported: str) -> None:
    result = run(*arguments)

    assert result.exit_code == USAGE
    assert reported in result.output
    assert SECRET not in result.output


def test_a_name_of_two_kinds_requires_its_kind(install: Install) -> None:
    install(GOOD, name="gzip")
    result = run("check", "gzip")

    assert result.exit_code == USAGE
    assert "write compressor:gzip or partitioner:gzip" in result.output


@pytest.mark.parametrize("name", share(["of:acme", "OF:Acme", "partitioner:of:acme"], gate=1, why=OTHER_NAMES))
def test_a_name_may_contain_a_colon(install: Install, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    install(GOOD, name="of:acme")

    assert run("check", name).exit_code == FINE


@pytest.mark.parametrize("command", [["check", "gzip"], ["new", "transport", "acme"]])
def test_without_the_testkit_the_command_says_what_to_install(command: list[str]) -> None:
    program = "import sys; sys.modules['ottla_testkit'] = None; from ottla.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "plugins", *command], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == USAGE
    assert "try: pip install ottla-testkit" in ended.stderr
