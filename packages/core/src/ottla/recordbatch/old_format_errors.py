"""Errors for what formats v0 and v1 cannot hold, with remedies."""

from __future__ import annotations

from typing import Final

from ottla.errors import UnsupportedVersionError

_FIRST_WITH_V2: Final = "brokers of 0.11 or later, and topics that are not kept at an older message.format.version"


def no_headers(magic: int, *, index: int) -> UnsupportedVersionError:
    """The error for a record with headers, which a format before v2 cannot hold; *index* is its place in the batch."""
    return _refusal(magic, f"headers, and record {index} of the batch has some", "send it without", _FIRST_WITH_V2)


def no_transactions(magic: int) -> UnsupportedVersionError:
    """The error for a batch that belongs to a transaction, or ends one."""
    return _refusal(magic, "transactions", "leave transactional.id unset", _FIRST_WITH_V2)


def no_producer_ids(magic: int) -> UnsupportedVersionError:
    """The error for a batch with a producer id and a sequence number, which an idempotent producer sends."""
    return _refusal(magic, "producer ids and sequences", "set enable.idempotence=false", _FIRST_WITH_V2)


def no_zstd(magic: int) -> UnsupportedVersionError:
    """The error for a batch that is, or is to be, compressed with zstd."""
    return _refusal(magic, "zstd", "choose another compression.type", "brokers and topics of 2.1 or later")


def _refusal(magic: int, what: str, remedy: str, newer: str) -> UnsupportedVersionError:
    return UnsupportedVersionError(f"record format v{magic} cannot carry {what}; {remedy}, or use {newer}")


def zstd_is_newer() -> UnsupportedVersionError:
    """The error for a broker that supports record batches v2, but not zstd."""
    return UnsupportedVersionError(
        "the broker does not know zstd, which is for brokers from 2.1 on: choose another compression.type"
    )
