"""`ottla doctor`: what it prints, what it never prints, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from command_runner import CliRunner
from ottla.cli.commands import ottla
from ottla.doctor import Step
from ottla.protocol import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from plugin_site import Site, plugin_site
from wrong_peers import ScriptedBroker, closes_connection, serving

site = plugin_site

FINE, WRONG, USAGE = 0, 1, 2
SECRET = "hunter2-and-more"
PRINTS = """
    from ottla.hookspecs import hookimpl

    print("HELLO")

    class Good:
        def partition(self, topic, key, view):
            return 0

    @hookimpl
    def ottla_partitioner():
        return Good()
"""


def cluster(host: str, port: int) -> MetadataResponse:
    return MetadataResponse(
        cluster_id="c",
        controller_id=1,
        brokers=[MetadataResponseBroker(node_id=1, host=host, port=port)],
        topics=[
            MetadataResponseTopic(
                name="t", partitions=[MetadataResponsePartition(leader_id=1)], topic_authorized_operations=1 << 4
            )
        ],
    )


@pytest.fixture
def broker() -> Iterator[str]:
    with serving(ScriptedBroker(metadata=cluster)) as (host, port):
        yield f"{host}:{port}"


@pytest.fixture
def server() -> Iterator[str]:
    with serving(closes_connection) as (host, port):
        yield f"{host}:{port}"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(ottla, ["doctor", *arguments])


def test_a_healthy_cluster_gives_exit_code_0_and_a_sentence(broker: str) -> None:
    result = run("--bootstrap-servers", broker, "--topic", "t")

    assert result.exit_code == FINE
    assert "Nothing is wrong." in result.stdout
    assert all(step.value in result.stdout for step in Step)


def test_a_failure_is_the_last_line_and_the_exit_code(server: str) -> None:
    result = run("--bootstrap-servers", server)

    assert result.exit_code == WRONG
    last = result.stdout.splitlines()[-1]
    assert last.startswith(f"{server}: the server closed the connection without a response; set security.protocol=")


def test_every_further_failure_is_reported_after_the_first(server: str) -> None:
    result = run("--bootstrap-servers", f"{server},nowhere.invalid:9092")

    *_table, first, second = result.stdout.splitlines()
    assert first.startswith(f"{server}: the server closed")
    assert second.startswith("Also: nowhere.invalid:9092: the name")


def test_text_in_brackets_is_printed_unchanged(broker: str) -> None:
    result = run("--bootstrap-servers", broker, "--topic", "[red]t[/t]")

    *table, last = result.stdout.splitlines()
    assert any("[red]t[/t]" in line for line in table)
    assert last.startswith("[red]t[/t]: the topic does not exist")


def test_json_has_the_same_content(server: str) -> None:
    shown = run("--bootstrap-servers", server).stdout
    result = run("--bootstrap-servers", server, "--json")

    document = json.loads(result.stdout)
    assert result.exit_code == WRONG
    assert document["ok"] is False
    assert document["conclusion"] in shown
    assert [finding["step"] for finding in document["findings"]] == [step.value for step in Step]
    [failed] = [finding for finding in document["findings"] if finding["status"] == "failed"]
    assert failed.keys() == {"step", "subject", "status", "seconds", "message", "remedy"}
    assert failed["subject"] == server
    assert failed["message"] in shown


def test_json_of_a_healthy_cluster_has_no_conclusion(broker: str) -> None:
    result = run("--bootstrap-servers", broker, "--json")

    document = json.loads(result.stdout)
    assert (result.exit_code, document["ok"], document["conclusion"]) == (FINE, True, None)


def test_the_output_of_a_plugin_is_not_part_of_the_json(broker: str, site: Site, tmp_path: Path) -> None:
    site.install(PRINTS, name="prints")
    file = tmp_path / "producer.properties"
    file.write_text("partitioner.class=prints\n")
    result = run("--bootstrap-servers", broker, "--command-config", str(file), "--json")

    assert json.loads(result.stdout)
    assert "HELLO" in result.stderr


def test_settings_are_read_from_a_file_and_overridden_by_options(broker: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# ours\nbootstrap.servers={broker}\nacks=1\n")

    assert run("--command-config", str(file)).exit_code == FINE
    assert run("--command-config", str(file), "--bootstrap-servers", "127.0.0.1:9").exit_code == WRONG


def test_an_invalid_setting_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:9\nlingr.ms=3\n")
    result = run("--command-config", str(file))

    assert result.exit_code == WRONG
    assert result.stdout.splitlines()[-1] == "'lingr.ms' is not a known key; did you mean 'linger.ms'?"


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("wrong", ["", "acks=two\nlingr.ms=3\nsecurity.protocol=SASL_SSL\n"])
def test_no_secret_is_printed(tmp_path: Path, wrong: str, form: list[str]) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers=user:{SECRET}@127.0.0.1:9\n{wrong}"
        f"sasl.jaas.config=Login required username=u password={SECRET};\nssl.key.password={SECRET}\n"
    )
    other = ["--bootstrap-servers", "127.0.0.1:9"]
    for arguments in ([], other):
        result = run("--command-config", str(file), *arguments, *form)

        assert result.exit_code == WRONG
        assert SECRET not in result.output


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ([], "name the servers: --bootstrap-servers"),
        (["--bootstrap-servers", " "], "name the servers"),
        (["--bootstrap-servers", "127.0.0.1:9", "--send"], "--send needs --topic"),
        (["--bootstrap-servers", "127.0.0.1:9", "--timeout", "0"], "--timeout"),
        (["--bootstrap-servers", "127.0.0.1:9", "--command-config", "/nowhere/at/all"], "does not exist"),
        (["--sned"], "--sned"),
    ],
)
def test_wrong_usage_has_its_own_exit_code(arguments: list[str], reported: str) -> None:
    result = run(*arguments)

    assert result.exit_code == USAGE
    assert reported in result.output


def test_a_file_that_is_not_a_properties_file_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"ssl.key.password={SECRET}\\u00zz\n")
    result = run("--command-config", str(file))

    assert result.exit_code == USAGE
    assert "line 1" in result.output
    assert SECRET not in result.output


def test_colours_are_used_only_in_terminals(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run("--bootstrap-servers", broker).stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    coloured = run("--bootstrap-servers", broker).stdout

    assert "\x1b[" not in plain
    assert "\x1b[32m" in coloured


@pytest.mark.parametrize("library", ["click", "rich"])
def test_without_its_libraries_the_command_says_what_to_install(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; from ottla.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "doctor"], capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode == USAGE
    assert ended.stderr == f'the command line needs {library}; try: pip install "ottla[cli]"\n'


def test_the_module_runs_the_command() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", "doctor", "--bootstrap-servers", "127.0.0.1:9", "--json", "--timeout", "5"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == WRONG
    assert json.loads(ended.stdout)["ok"] is False
