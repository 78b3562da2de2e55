"""`ottla transactions`: the standard output has the result alone, because programs parse it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from command_runner import CliRunner
from ottla.cli import commands
from ottla.transactions.admin.found_transactions import FoundTransactions


@contextmanager
def noisy_client(config: dict[str, Any], *, timeout: float) -> Iterator[str]:
    """A client whose plugins print while they are made, at each login, and while they are closed."""
    print("made")
    yield "a client"
    print("closed")


def noisy_listing(client: str, prefix: str) -> FoundTransactions[Any]:
    print("logged in")
    return FoundTransactions([], missing={})


@pytest.mark.parametrize("options", [["--json"], []], ids=["JSON", "table"])
def test_output_of_plugins_is_not_in_the_result(options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "blocking_client", noisy_client)
    monkeypatch.setattr(commands, "list_transactions_with", noisy_listing)
    arguments = ["transactions", "job-", "--bootstrap-servers", "127.0.0.1:1", *options]
    result = CliRunner().invoke(commands.ottla, arguments)

    assert result.exit_code == 0
    assert result.stderr.splitlines() == ["made", "logged in", "closed"]
    if options:
        assert json.loads(result.stdout) == {"transactional_ids": [], "missing": []}
    else:
        assert result.stdout.startswith("No coordinator knows")
