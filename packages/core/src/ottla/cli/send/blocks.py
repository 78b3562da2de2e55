"""Queueing a block of records, so that Ctrl-C at any moment leaves none of its rows out of the counts."""

from __future__ import annotations

from ottla import Producer
from ottla.cli.send.counts import Counts
from ottla.cli.send.inputs import Block
from ottla.tables.table_delivery import TableDelivery


def send_block(producer: Producer, topic: str, name: str, block: Block, counts: Counts) -> None:
    """Queue a block of the input *name* as `Producer.send_table` does.

    The counts have its delivery before the first row is taken. That of `send_table` would be lost when an interrupt
    comes between its return and the assignment.
    """
    columns = dict(block.content.arguments)
    value_format = columns.pop("value_format", None)
    delivery = TableDelivery(topic)
    counts.add(delivery, name, block)
    calls = producer._table_calls
    calls.send(
        topic,
        block.content.table,
        columns,
        value_format=value_format,
        timeout=None,
        transaction=calls.transaction,
        delivery=delivery,
    )
