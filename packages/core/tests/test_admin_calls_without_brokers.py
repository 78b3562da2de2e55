"""Calls about transactions that reach no broker say which one they tried, and why it failed."""

from __future__ import annotations

import pytest

from ottla import transactions
from ottla.errors import TransactionTimeoutError


def test_a_call_that_reaches_no_broker_names_the_last_error() -> None:
    with pytest.raises(TransactionTimeoutError, match=r"last error: could not connect to 127\.0\.0\.1:1: ECONNREFUSED"):
        list(transactions.find_open_transactions({"bootstrap.servers": "127.0.0.1:1"}, "orders-", timeout=0.5))
