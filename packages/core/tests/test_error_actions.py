"""Every code that a broker can answer with has an action, and the ones that matter have the right one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from ottla.errors import ErrorCode, error_code
from ottla.sender.produce_error_actions import PRODUCE_ERROR_ACTIONS, ProduceErrorAction

JAVAS: Final[list[dict[str, Any]]] = json.loads((Path(__file__).parent / "vectors" / "error_codes.json").read_text())
"""The class of each code in Kafka's `Errors` of 4.4.0."""


def test_every_code_has_an_action() -> None:
    assert set(PRODUCE_ERROR_ACTIONS) == set(ErrorCode)


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (ErrorCode.NONE, ProduceErrorAction.ACKNOWLEDGED),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, ProduceErrorAction.ACKNOWLEDGED),
        (ErrorCode.CORRUPT_MESSAGE, ProduceErrorAction.RETRY),
        (ErrorCode.REQUEST_TIMED_OUT, ProduceErrorAction.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ProduceErrorAction.RETRY),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ProduceErrorAction.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ProduceErrorAction.REFRESH),
        (ErrorCode.LEADER_NOT_AVAILABLE, ProduceErrorAction.REFRESH),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ProduceErrorAction.REFRESH),
        (ErrorCode.UNKNOWN_TOPIC_ID, ProduceErrorAction.REFRESH),
        (ErrorCode.KAFKA_STORAGE_ERROR, ProduceErrorAction.REFRESH),
        (ErrorCode.MESSAGE_TOO_LARGE, ProduceErrorAction.TOO_LARGE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ProduceErrorAction.FAIL),
        (ErrorCode.INVALID_RECORD, ProduceErrorAction.FAIL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ProduceErrorAction.FAIL),
    ],
)
def test_a_code_has_its_action(code: ErrorCode, action: ProduceErrorAction) -> None:
    assert PRODUCE_ERROR_ACTIONS[code] is action


@pytest.mark.parametrize("java", JAVAS, ids=lambda java: java["name"])
def test_except_for_three_codes_actions_follow_the_java_classification(java: dict[str, Any]) -> None:
    action = PRODUCE_ERROR_ACTIONS[error_code(java["code"])]

    if java["name"] in ("NONE", "DUPLICATE_SEQUENCE_NUMBER", "MESSAGE_TOO_LARGE"):
        assert action in (ProduceErrorAction.ACKNOWLEDGED, ProduceErrorAction.TOO_LARGE)
    elif java["invalid_metadata"]:
        assert action is ProduceErrorAction.REFRESH
    else:
        assert action is (ProduceErrorAction.RETRY if java["retriable"] else ProduceErrorAction.FAIL)


def test_an_unknown_code_counts_as_an_unknown_server_error() -> None:
    assert error_code(31_999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_numbers_and_meanings_are_unique() -> None:
    codes = list(ErrorCode)

    assert len({code.value for code in codes}) == len(codes)
    assert len({code.meaning for code in codes}) == len(codes)
