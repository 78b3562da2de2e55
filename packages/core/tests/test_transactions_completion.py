"""The names of a prepared transaction's outcomes, and the search for ids."""

from __future__ import annotations

import re

import pytest

from ottla.errors import BrokerError, ErrorCode, TransactionError
from ottla.transactions import Outcome, PreparedTransaction, complete
from ottla.transactions.admin.blocking_client import LastResponse
from ottla.transactions.admin.completion import outcome_of
from ottla.transactions.admin.descriptions import literal_pattern


@pytest.mark.parametrize(
    ("code", "commit", "open_before", "outcome"),
    [
        (ErrorCode.NONE, True, True, Outcome.COMMITTED),
        (ErrorCode.NONE, False, True, Outcome.ABORTED),
        (ErrorCode.NONE, True, False, Outcome.ALREADY_COMMITTED),
        (ErrorCode.NONE, False, False, Outcome.ALREADY_ABORTED),
        (ErrorCode.INVALID_TXN_STATE, True, False, Outcome.ALREADY_ABORTED),
        (ErrorCode.INVALID_TXN_STATE, False, False, Outcome.ALREADY_COMMITTED),
        (ErrorCode.PRODUCER_FENCED, True, False, Outcome.FENCED),
        (ErrorCode.INVALID_PRODUCER_EPOCH, False, False, Outcome.FENCED),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, True, True, Outcome.UNKNOWN),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, False, True, Outcome.UNKNOWN),
    ],
)
def test_the_error_code_of_a_coordinator_gives_an_outcome(
    code: ErrorCode, commit: bool, open_before: bool, outcome: Outcome
) -> None:
    assert outcome_of(LastResponse(None, code, in_doubt=False), commit=commit, open_before=open_before) is outcome


def test_a_refusal_is_an_error_and_not_an_outcome() -> None:
    refused = LastResponse(None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, in_doubt=False)
    with pytest.raises(TransactionError, match="it has not changed") as caught:
        outcome_of(refused, commit=True, open_before=True)

    assert isinstance(caught.value.__cause__, BrokerError)


def test_only_two_outcomes_are_committed() -> None:
    assert [outcome for outcome in Outcome if outcome.committed] == [Outcome.COMMITTED, Outcome.ALREADY_COMMITTED]


@pytest.mark.parametrize(("commit", "outcome"), [(True, Outcome.COMMITTED), (False, Outcome.ABORTED)])
def test_an_empty_transaction_needs_no_request(commit: bool, outcome: Outcome) -> None:
    nothing = PreparedTransaction(transactional_id="x", producer_id=1, epoch=0, level=2, written=False)

    assert complete({"bootstrap.servers": "127.0.0.1:9"}, nothing, commit=commit) is outcome


@pytest.mark.parametrize("text", ["orders", "a.b*c", "ü(1)[2]{3}", "a\\Eb", "x y\n", "^$|?+"])
def test_a_prefix_is_matched_literally(text: str) -> None:
    pattern = re.sub(r"\\x\{([0-9a-f]+)\}", lambda found: re.escape(chr(int(found[1], 16))), literal_pattern(text))

    assert re.fullmatch(pattern, text)
    assert re.sub(r"\\x\{[0-9a-f]+\}|\w", "", literal_pattern(text)) == ""
