"""The right that an error about transactions names: of the resource that the broker refused, and of no other."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode
from ottla.transactions.admin.acl_hints import needed


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            " This user needs Write for transactional id 'orders-1'.",
        ),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, " This user needs Read for group 'readers'."),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, " To commit offsets, this user needs Read for topic 'b', 'a'."),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ""),
        (ErrorCode.NOT_COORDINATOR, ""),
    ],
)
def test_a_refusal_names_the_right_for_its_resource(code: ErrorCode, end: str) -> None:
    assert needed(code, transactional_id="orders-1", group="readers", read=["b", "a"]) == end


@pytest.mark.parametrize("code", ErrorCode)
def test_no_right_is_named_without_its_resource(code: ErrorCode) -> None:
    assert needed(code) == ""
