"""Sending without a STATE file: each block is queued as soon as it is read; Ctrl-C flushes with a time limit."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import attrs

from ottla import Producer
from ottla.cli.closing import close
from ottla.cli.send.blocks import send_block
from ottla.cli.send.columns import InputError
from ottla.cli.send.counts import Counts
from ottla.cli.send.inputs import Input
from ottla.errors import OttlaError, UndeliveredError


@attrs.frozen(kw_only=True)
class Ending:
    """How a run ended: *error* is why it stopped early, *remark* what there is to know besides the counts."""

    error: str | None = None
    interrupted: bool = False
    remark: str | None = None


def send_all(
    producer: Producer, topic: str, inputs: Sequence[Input], counts: Counts, *, flush_timeout: float
) -> Ending:
    """Send all records of the inputs and close the producer; counts what became of each record."""
    try:
        for given in inputs:
            for block in given.blocks():
                send_block(producer, topic, given.name, block, counts)
        _finish(producer)
        counts.wait()
    except KeyboardInterrupt:
        close(producer, flush_timeout)
        counts.wait()
        return Ending(interrupted=True, error="interrupted", remark=counts.position)
    except (OttlaError, InputError, OSError) as error:
        close(producer, flush_timeout if isinstance(error, OttlaError) else None)
        counts.wait()
        return Ending(error=reason(error), remark=counts.position)
    return Ending()


def reason(error: Exception) -> str:
    """Why a run stopped: an error of the library is shown with its name, one of the input is a sentence."""
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"


def _finish(producer: Producer) -> None:
    """Wait for all records, as long as it takes."""
    with suppress(UndeliveredError):
        producer.flush()
        producer.close()
