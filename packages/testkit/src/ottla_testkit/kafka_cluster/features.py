"""Requests that read and set a cluster's finalized features (KIP-584), such as transaction.version.

Brokers return them in ApiVersions v3 (2.7 and later) and change them by UpdateFeatures v1 (3.3 and later).
"""

from __future__ import annotations

import struct
import time

from ottla_testkit.errors import ClusterError
from ottla_testkit.kafka_cluster.admin_requests import ANSWER_WITHIN, Address, Fields, call

API_VERSIONS = 18
UPDATE_FEATURES = 57
TRANSACTION_VERSION = "transaction.version"

_FINALIZED = 2  # the tag of finalized features
_RAISE, _LOWER = 1, 2
_LOOK_AGAIN = 0.02


def feature_level(address: Address, feature: str) -> int:
    """Return a node's level of a feature; 0 for one that is off."""
    body = _HEADER_TAGS + _string("ottla-testkit") + _string("0") + _NO_TAGS
    answer = Fields(call(address, API_VERSIONS, 3, body, ANSWER_WITHIN))
    answer.number("h")  # error code
    for _ in range(answer.unsigned() - 1):
        for _field in range(3):
            answer.number("h")
        _skip_tags(answer)
    answer.number("i")  # throttle time
    levels: dict[str, int] = {}
    for _ in range(answer.unsigned()):
        tag, size = answer.unsigned(), answer.unsigned()
        if tag == _FINALIZED:
            levels = dict(_level(answer) for _ in range(answer.unsigned() - 1))
        else:
            answer.raw(size)
    return levels.get(feature, 0)


def set_feature(address: Address, feature: str, level: int) -> None:
    """Set a feature's level for the whole cluster; return when this node uses it."""
    before = feature_level(address, feature)
    if before == level:
        return
    way = _LOWER if level < before else _RAISE
    update = _string(feature) + struct.pack(">hb", level, way) + _NO_TAGS
    body = _HEADER_TAGS + struct.pack(">ib", int(ANSWER_WITHIN * 1000), 2) + update + b"\x00" + _NO_TAGS
    answer = Fields(call(address, UPDATE_FEATURES, 1, body, ANSWER_WITHIN))
    _skip_tags(answer)  # the header's
    answer.number("i")  # throttle time
    code = answer.number("h")
    if code:
        raise ClusterError(f"cannot set {feature} to {level}: error {code} {answer.raw(answer.unsigned() - 1)!r}")
    deadline = time.monotonic() + ANSWER_WITHIN
    while feature_level(address, feature) != level:
        if time.monotonic() > deadline:
            raise ClusterError(f"the node at {address} does not use {feature}={level} after {ANSWER_WITHIN:.0f} s")
        time.sleep(_LOOK_AGAIN)


_NO_TAGS = _HEADER_TAGS = b"\x00"


def _string(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded) + 1]) + encoded  # short ones only


def _level(answer: Fields) -> tuple[str, int]:
    name = answer.raw(answer.unsigned() - 1).decode()
    highest = answer.number("h")
    answer.number("h")  # lowest
    _skip_tags(answer)
    return name, highest


def _skip_tags(answer: Fields) -> None:
    for _ in range(answer.unsigned()):
        answer.unsigned()
        answer.raw(answer.unsigned())
