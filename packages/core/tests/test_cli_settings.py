"""The settings of all commands: from files, variables and options, in one order, and with one exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from command_runner import CliRunner
from ottla.cli.commands import ottla

pytest.importorskip("pyarrow")

USAGE = 2
SECRET = "hunter2-and-more"
SERVERS = ("--bootstrap-servers", "127.0.0.1:9")
COMMANDS = [
    ("config", "show", *SERVERS),
    ("doctor", *SERVERS),
    ("transactions", "orders", *SERVERS),
    ("send", "orders", "-", *SERVERS),
    ("plugins", "check", "transport:plaintext"),
]


def run(command: tuple[str, ...], *arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(ottla, [*command, *arguments], env=environment, input="")


@pytest.fixture(params=COMMANDS, ids=lambda command: " ".join(command[:2]))
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Each command that takes settings; a wrong one ends it before it connects."""
    found: tuple[str, ...] = request.param
    return found


@pytest.mark.parametrize(("name", "text"), [("a.properties", "acks=two\n"), ("a.toml", 'acks = "two"\n')])
def test_every_command_reads_properties_and_toml(
    command: tuple[str, ...], name: str, text: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    result = run(command, "--command-config", str(tmp_path / name))

    assert result.exit_code == 1
    assert "acks: 'two' is not one of all, -1, 0, 1" in result.output


def test_every_command_lets_later_options_take_precedence(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('acks = "two"\n')
    arguments = ("--command-config", str(tmp_path / "a.toml"), "--environment", "OURS_")

    assert "acks: 'three'" in run(command, *arguments, OURS_ACKS="three").output
    assert "acks: 'four'" in run(command, *arguments, "-c", "acks=four", OURS_ACKS="three").output


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.properties", f"ssl.key.password={SECRET}\\u00zz\n".encode(), "line 1 has a \\u without four"),
        ("a.toml", f"ssl.key.password = '{SECRET}".encode(), "cannot be read"),
        ("a.toml", b"acks = '\xff'\n", "cannot be read"),
        ("a.toml", b"acks = 1979-05-27\n", "'acks' must be a text, a number, true, false, or a list of texts"),
    ],
)
def test_a_file_that_cannot_be_read_is_wrong_usage(
    command: tuple[str, ...], name: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    result = run(command, "--command-config", str(tmp_path / name))

    assert result.exit_code == USAGE
    assert "Invalid value for --command-config: " in result.stderr
    assert reason in result.stderr
    assert SECRET not in result.output


def test_variables_that_contradict_each_other_are_wrong_usage(command: tuple[str, ...]) -> None:
    result = run(command, "--environment", "OURS_", OURS_ACKS="1", OURS_acks="2")

    assert result.exit_code == USAGE
    assert "Invalid value for --environment: acks is given twice" in result.stderr


def test_a_value_without_a_key_is_wrong_usage_and_not_quoted(command: tuple[str, ...]) -> None:
    result = run(command, "-c", SECRET)

    assert result.exit_code == USAGE
    assert "--config takes KEY=VALUE" in result.stderr
    assert SECRET not in result.output


def test_every_command_says_in_its_help_what_the_file_may_be(command: tuple[str, ...]) -> None:
    text = " ".join(run(command, "--help").stdout.split())

    assert "Settings, also secret ones: Java properties, or TOML (.toml)." in text
    assert "--environment PREFIX" in text


@pytest.mark.parametrize("command", COMMANDS[1:4], ids=lambda command: command[0])
def test_servers_may_be_a_list_in_toml_but_not_be_missing(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('bootstrap.servers = ["127.0.0.1:9"]\nacks = "two"\n')
    without = command[:-2]

    assert "acks: 'two'" in run(without, "--command-config", str(tmp_path / "a.toml")).output
    assert run(without).exit_code == USAGE
    assert "name the servers: --bootstrap-servers" in run(without, "-c", "bootstrap.servers= ").stderr


@pytest.mark.parametrize(("name", "hint"), [("produce", "Did you mean 'send'?"), ("consume", "Ottla only sends")])
def test_a_command_of_another_client_is_refused_with_what_helps(name: str, hint: str) -> None:
    result = run((name, "orders"))

    assert result.exit_code == USAGE
    assert f"No such command '{name}'. {hint}" in result.output


def test_without_servers_a_similar_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("bootstrap.server=kafka:9092\nlinger.ms=5\n")
    result = run(("doctor",), "--command-config", str(tmp_path / "a.properties"))

    assert result.exit_code == USAGE
    assert "'bootstrap.server' is not a known key: did you mean 'bootstrap.servers'?" in " ".join(result.output.split())
    assert "did you mean" not in run(("doctor",), "-c", "linger.ms=5").output


def test_variables_of_other_programs_are_named_with_the_remedy() -> None:
    """Kubernetes sets these in each pod for a Service that is called kafka."""
    variables = {"KAFKA_PORT": "tcp://10.0.0.7:9092", "KAFKA_SERVICE_PORT": "9092", "KAFKA_ACKS": "all"}
    result = run(("config", "show"), "--environment", "KAFKA_", **variables)

    assert result.exit_code == 1
    for key, name in (("port", "KAFKA_PORT"), ("service.port", "KAFKA_SERVICE_PORT")):
        [line] = [line for line in result.output.splitlines() if f"'{key}'" in line]
        assert line.startswith(f"- '{key}' (environment variable {name}) is not a known key; ")
        assert line.endswith(" it is another program's variable, or a Kubernetes Service's, choose another prefix")
