"""The options of exactly-once, as a driver reads them before anything is connected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once import __main__ as command
from ottla_spark.exactly_once import forget, write_once
from ottla_spark.exactly_once.settings import Settings, read_settings
from ottla_spark.exactly_once.status import ledger_status
from ottla_spark.options.options import read_options


def settings(**options: str) -> Settings:
    given = {"kafka.bootstrap.servers": "localhost:9092", "guarantee": "exactly-once"}
    own = {key.replace("_", "."): value for key, value in options.items()}
    problems: list[str] = []
    read = read_options({**given, "transactional.id.prefix": "orders", **own}, problems=problems)
    if problems:
        raise InvalidWriteError(problems)
    return read_settings(read)


def test_a_task_gets_the_allowed_timeout_or_none_with_two_phase_commit() -> None:
    limited = settings().for_task("orders/1", timeout_ms=900_000)
    unlimited = settings(two_phase_commit="true").for_task("orders/1", timeout_ms=900_000)

    assert limited["transaction.timeout.ms"] == "900000"
    assert "transaction.two.phase.commit.enable" not in limited
    assert unlimited["transaction.two.phase.commit.enable"] == "true"
    assert "transaction.timeout.ms" not in unlimited


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"transactional_id_prefix": ""}, r"needs the option transactional\.id\.prefix"),
        ({"two_phase_commit": "perhaps"}, r"two\.phase\.commit='perhaps' is neither true nor false"),
        ({"two_phase_commit": "true", "kafka_transaction_timeout_ms": "60000"}, "leave one of them out"),
        ({"ledger_replication_factor": "all"}, r"ledger\.replication\.factor='all' is not a positive integer"),
        ({"kafka_enable_idempotence": "false"}, "with guarantee=exactly-once, .*idempotence"),
    ],
)
def test_options_that_contradict_the_guarantee_are_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidWriteError, match=why):
        settings(**options)


def test_a_missing_prefix_is_the_only_problem() -> None:
    with pytest.raises(InvalidWriteError) as caught:
        settings(transactional_id_prefix="")

    [problem] = caught.value.problems
    assert "needs the option transactional.id.prefix" in problem


@pytest.mark.parametrize("guarantee", ["guarantee", "GUARANTEE"])
@pytest.mark.parametrize(
    "call",
    [
        lambda options: write_once(None, options, job_id="monday"),  # type: ignore[arg-type]
        lambda options: forget(options, job_id="monday"),
        lambda options: ledger_status(options, job_id="monday"),
    ],
    ids=["write_once", "forget", "ledger_status"],
)
def test_another_guarantee_is_refused_and_not_replaced(
    call: Callable[[dict[str, str]], object], guarantee: str
) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "transactional.id.prefix": "orders"}
    with pytest.raises(InvalidWriteError, match="is for guarantee=exactly-once; set that too"):
        call({**options, guarantee: "at-least-once"})


def test_the_command_reads_the_ledger_like_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, str]] = []

    def status(options: dict[str, str], **_: object) -> str:
        asked.append(options)
        return ""

    monkeypatch.setattr(command, "ledger_status", status)
    written = ["--ledger-topic", "ours", "--ledger-shared", "false", "--ledger-earlier-topic", ""]

    assert command.main(["orders", *written]) == command.main(["orders"]) == 0

    named = {"ledger.topic": "ours", "ledger.shared": "false", "ledger.earlier.topic": ""}
    assert asked == [{"transactional.id.prefix": "orders", **named}, {"transactional.id.prefix": "orders"}]


def test_the_command_reads_settings_from_properties_and_toml(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(command, "ledger_status", lambda options, **_: asked.append(options))
    (tmp_path / "a.properties").write_text("bootstrap.servers=a:1,b:2\nretries=3\n")
    (tmp_path / "a.toml").write_text('bootstrap.servers = ["a:1", "b:2"]\nretries = 3\n')
    (tmp_path / "wrong.toml").write_text("sasl.password = 'hunter2")

    for name in ("a.properties", "a.toml"):
        assert command.main(["orders", "--command-config", str(tmp_path / name)]) == 0
    with pytest.raises(SystemExit) as ended:
        command.main(["orders", "--command-config", str(tmp_path / "wrong.toml")])

    assert [options["kafka.bootstrap.servers"] for options in asked] == ["a:1,b:2"] * 2
    assert [str(options["kafka.retries"]) for options in asked] == ["3", "3"]
    assert ended.value.code == 2
    assert "wrong.toml cannot be read" in (said := capsys.readouterr().err)
    assert "hunter2" not in said
