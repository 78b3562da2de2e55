"""Transactional ids as a table, for people, and as JSON, for programs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Final

import attrs
from rich.table import Table
from rich.text import Text

from ottla.cli.standard_output import console
from ottla.errors import printable
from ottla.transactions import FoundTransactions, TransactionListing
from ottla.transactions.admin.found_transactions import not_asked

_NONE: Final = "No coordinator knows a transactional id that begins with {!r}, or this user may describe none."

_OFFSETS: Final = "offsets of the group of the same name"
_DENIED: Final = "this user may not describe the group"

_SHOWN: Final = 100
"""Partitions in one cell of the table; the JSON contains all."""


def show_transactions(found: FoundTransactions[TransactionListing], prefix: str) -> None:
    """Print the transactional ids to the standard output, and to the standard error which brokers were not asked."""
    for node, error in found.missing.items():
        print(not_asked(node, error), file=sys.stderr)
    out = console(width_of_a_file=500)
    if not found:
        out.print(Text(_NONE.format(prefix)))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("transactional id", "state", "producer id/epoch", "wrote to", "what happens to it", _OFFSETS):
        table.add_column(title, overflow="fold")
    now_ms = time.time_ns() // 1_000_000
    for each in found:
        # Text, not str: names in brackets must not be parsed as markup.
        table.add_row(*map(Text, _cells(_escaped(each), now_ms)), style="bold" if each.open else "")
    out.print(table)
    out.print(Text(f"{sum(each.open for each in found)} of {len(found)} open."))


def transactions_document(found: FoundTransactions[TransactionListing]) -> str:
    """The ids as JSON text: an object whose `transactional_ids` lists an object for each.

    `missing` lists the brokers that could not be asked.
    """
    now_ms = time.time_ns() // 1_000_000
    entries = [
        {**attrs.asdict(_escaped(each)), "open": each.open, "next_event": each.next_event(now_ms=now_ms)}
        for each in found
    ]
    missing = [{"broker": node, "error": str(error)} for node, error in found.missing.items()]
    return json.dumps({"transactional_ids": entries, "missing": missing}, indent=2)


def _escaped(each: TransactionListing) -> TransactionListing:
    """Copies whose texts from the coordinator are printable; characters that Kafka allows in ids and topics stay."""
    return attrs.evolve(
        each,
        transactional_id=printable(each.transactional_id),
        state=printable(each.state),
        partitions=tuple((printable(topic), partition) for topic, partition in each.partitions),
        offsets=tuple(
            attrs.evolve(one, topic=printable(one.topic), metadata=printable(one.metadata)) for one in each.offsets
        ),
    )


def _cells(each: TransactionListing, now_ms: int) -> Sequence[str]:
    return (
        each.transactional_id,
        each.state,
        f"{each.producer_id}/{each.epoch}",
        _some([f"{topic}-{partition}" for topic, partition in each.partitions]),
        each.next_event(now_ms=now_ms),
        _DENIED
        if each.offsets_denied
        else _some([f"{one.topic}-{one.partition}: {one.offset} {one.metadata}".rstrip() for one in each.offsets]),
    )


def _some(entries: Sequence[str]) -> str:
    shown = ", ".join(entries[:_SHOWN])
    return shown if len(entries) <= _SHOWN else f"{shown} and {len(entries) - _SHOWN} more"
