"""The time of calls about transactions, and what they say if no broker answers in it."""

from __future__ import annotations

import time

import pytest
from broker_on_a_socket import SocketBroker

from ottla import transactions
from ottla.errors import TransactionTimeoutError
from ottla_testkit.simulation import SimulatedCluster


def test_a_call_that_reaches_no_broker_names_the_last_error() -> None:
    with pytest.raises(TransactionTimeoutError, match=r"last error: could not connect to 127\.0\.0\.1:1: ECONNREFUSED"):
        list(transactions.find_open_transactions({"bootstrap.servers": "127.0.0.1:1"}, "orders-", timeout=0.5))


def test_each_call_of_an_owner_has_its_own_time() -> None:
    timeout = 1.0
    with (
        SocketBroker(SimulatedCluster.of(1).brokers[1]).serving() as servers,
        transactions.sharing({"bootstrap.servers": servers}, timeout=timeout) as owner,
    ):
        shared = [owner.open("nightly-load")]
        until = time.monotonic() + timeout
        while time.monotonic() <= until:
            shared.append(owner.open("nightly-load"))

    assert [each.transactional_id for each in shared] == ["nightly-load"] * len(shared)
