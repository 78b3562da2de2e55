"""Every code says whether it can be answered for a batch that is written, and where Kafka's source says so."""

from __future__ import annotations

from ottla.errors import ErrorCode
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, SEQUENCE_ERRORS, ProduceErrorAction
from ottla.sender.produce_error_origins import ERROR_ORIGINS, REFUSED_BEFORE_APPEND, AppendTime


def test_every_code_says_when_it_is_returned() -> None:
    assert list(ERROR_ORIGINS) == list(ErrorCode)


def test_only_these_codes_certainly_come_before_the_append() -> None:
    assert {code.name for code in REFUSED_BEFORE_APPEND} == {
        "MESSAGE_TOO_LARGE",
        "INVALID_TOPIC_EXCEPTION",
        "RECORD_LIST_TOO_LARGE",
        "NOT_ENOUGH_REPLICAS",
        "INVALID_REQUIRED_ACKS",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_TIMESTAMP",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_ID_MAPPING",
        "CONCURRENT_TRANSACTIONS",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "UNKNOWN_PRODUCER_ID",
        "UNSUPPORTED_COMPRESSION_TYPE",
        "INVALID_RECORD",
        "PRODUCER_FENCED",
        "UNKNOWN_TOPIC_ID",
        "TRANSACTION_ABORTABLE",
    }


def test_a_code_with_an_unknown_position_is_not_certain() -> None:
    unplaced = {code for code, answered in ERROR_ORIGINS.items() if "`" not in answered.places}

    assert not unplaced & REFUSED_BEFORE_APPEND
    assert {ERROR_ORIGINS[code].append for code in unplaced} == {AppendTime.UNKNOWN, AppendTime.EITHER}


def test_acknowledging_codes_are_returned_after_the_append() -> None:
    acknowledged = {code for code, action in PRODUCE_ERROR_ACTIONS.items() if action is ProduceErrorAction.ACKNOWLEDGED}

    assert {ERROR_ORIGINS[code].append for code in acknowledged} == {AppendTime.AFTER}


def test_wrong_sequences_and_sizes_are_refused_before_the_append() -> None:
    too_large = {code for code, action in PRODUCE_ERROR_ACTIONS.items() if action is ProduceErrorAction.TOO_LARGE}

    assert SEQUENCE_ERRORS | too_large <= REFUSED_BEFORE_APPEND
