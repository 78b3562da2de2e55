"""`ottla config show`: each setting with its value, source, default and meaning; no broker is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from command_runner import CliRunner
from ottla import check_config
from ottla.cli.commands import ottla
from ottla.config.config_def import OPTIONS

FINE, REFUSED, USAGE = 0, 1, 2
SECRET = "hunter2-and-more"
SERVERS = ("--bootstrap-servers", "127.0.0.1:1")


def shown(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(ottla, ["config", "show", *arguments], env=environment)


def listed(*arguments: str, environment: dict[str, str] | None = None) -> dict[str, dict[str, Any]]:
    result = shown(*arguments, "--json", environment=environment)
    assert result.exit_code == FINE, result.output
    return {each["key"]: each for each in json.loads(result.stdout)}


def test_every_setting_is_shown_as_check_config_returns_it() -> None:
    found = listed(*SERVERS, "-c", "linger.ms=20")

    expected = check_config({"bootstrap.servers": "127.0.0.1:1", "linger.ms": "20"})
    assert found.keys() == set(expected)
    assert found.keys() >= OPTIONS.keys()
    assert {key: each["value"] for key, each in found.items()} == json.loads(json.dumps(dict(expected), default=str))
    assert all(each["meaning"] for each in found.values())


def test_each_value_has_its_source_and_later_sources_take_precedence(tmp_path: Path) -> None:
    file = tmp_path / "producer.toml"
    file.write_text('linger.ms = 1\nacks = "all"\nretries = 3\n')
    environment = {"OURS_LINGER_MS": "2", "OURS_ACKS": "1", "OTHERS_ACKS": "0"}

    found = listed(
        *(*SERVERS, "--command-config", str(file), "--environment", "OURS_", "-c", "linger.ms=3"),
        environment=environment,
    )

    assert (found["linger.ms"]["value"], found["linger.ms"]["source"]) == (3, "option -c")
    assert (str(found["acks"]["value"]), found["acks"]["source"]) == ("1", "environment variable OURS_ACKS")
    assert (found["retries"]["value"], found["retries"]["source"]) == (3, f"file {file}")
    assert found["bootstrap.servers"]["source"] == "option --bootstrap-servers"
    assert (found["batch.size"]["source"], found["batch.size"]["value"]) == ("default", found["batch.size"]["default"])


def test_each_setting_has_the_importance_of_the_java_producer() -> None:
    found = listed(*SERVERS)

    assert {key: found[key]["importance"] for key in ("retries", "linger.ms", "acks", "io.handoff.enable")} == {
        "retries": "high",
        "linger.ms": "medium",
        "acks": "low",
        "io.handoff.enable": None,
    }
    assert "linger.ms=5  default, importance medium\n" in shown(*SERVERS, "linger").stdout
    assert "importance" not in shown(*SERVERS, "io.handoff").stdout


def test_importance_chooses_settings() -> None:
    assert listed(*SERVERS, "--importance", "high", "serial").keys() == {"key.serializer", "value.serializer"}
    found = listed(*SERVERS, "--importance", "high", "--importance", "medium")
    assert {each["importance"] for each in found.values()} == {"high", "medium"}


def test_keys_and_changed_choose_settings() -> None:
    every = listed(*SERVERS).keys()
    assert len(every) > 10
    assert listed(*SERVERS, "LINGER", "acks").keys() == {key for key in every if "linger" in key or "acks" in key}
    assert listed(*SERVERS, "--changed", "-c", "linger.ms=7").keys() == {"bootstrap.servers", "linger.ms"}
    assert listed(*SERVERS, "linger_ms").keys() == {key for key in every if "linger.ms" in key}


def test_a_key_that_no_setting_has_is_named_with_the_most_similar_one() -> None:
    misspelt = shown(*SERVERS, "liger")
    assert (misspelt.stdout, misspelt.exit_code) == ("", FINE)
    assert misspelt.stderr == "no setting has 'liger' in its name; did you mean 'linger.ms'?\n"
    assert shown(*SERVERS, "no.such.key").stderr == "no setting has 'no.such.key' in its name\n"


def test_a_person_reads_setting_source_default_importance_and_meaning() -> None:
    lines = shown("linger.ms", "-c", "linger.ms=20").stdout.splitlines()

    assert lines[0] == "linger.ms=20  option -c, default 5, importance medium"
    assert lines[1].startswith("    How long a batch waits")
    assert lines[1] == lines[1].rstrip()


def test_without_servers_the_other_settings_are_shown() -> None:
    assert listed()["bootstrap.servers"]["source"] == "missing: a producer needs it"
    assert listed()["bootstrap.servers"]["value"] is None


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_secret_is_never_printed(form: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "producer.properties"
    file.write_text(
        f"sasl.password={SECRET}\nsasl.username=u\nsasl.mechanism=PLAIN\nsecurity.protocol=SASL_PLAINTEXT\n"
    )

    result = shown(*SERVERS, "--command-config", str(file), "-c", f"ssl.key.password={SECRET}", *form)

    assert SECRET not in result.output
    assert "[hidden]" in result.stdout


def test_settings_that_a_producer_would_refuse_are_all_named() -> None:
    result = shown(*SERVERS, "-c", "acks=7", "-c", "lnger.ms=3", "--json")

    assert result.exit_code == REFUSED
    assert result.stdout == ""
    assert "acks: '7'" in result.stderr
    assert "did you mean 'linger.ms'?" in result.stderr


def test_wrong_usage_has_its_own_exit_code(tmp_path: Path) -> None:
    assert shown("-c", "linger.ms").exit_code == USAGE
    assert shown("--command-config", str(tmp_path / "missing")).exit_code == USAGE
