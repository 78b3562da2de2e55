"""Sending files in transactions, with a STATE file: a run that was killed is resumed without loss or duplicates.

1. The records of a transaction are sent, and it is prepared: all of them are acknowledged.
2. STATE gets the prepared transaction, and the position after it.
3. The transaction is committed, and STATE gets the position alone. Only then the next one begins, because its
   beginning would make the brokers forget how the one before ended.

A run that finds a prepared transaction in STATE commits it first, which may be repeated. If the commit
finds that the transaction was aborted, its records are sent again; nothing that was sent after it is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs

from ottla import Producer
from ottla.cli.closing import close
from ottla.cli.send.blocks import send_block
from ottla.cli.send.columns import InputError
from ottla.cli.send.counts import Counts
from ottla.cli.send.inputs import Block, Input
from ottla.cli.send.plain import Ending, reason
from ottla.cli.send.state import Position, Prepared, State, differences
from ottla.cli.send.target import Target
from ottla.errors import AbortableTransactionError, OttlaError, counted, quoted
from ottla.transactions import Outcome, complete

TRANSACTION_BYTES: Final = 32 * 1024 * 1024
TRANSACTION_SECONDS: Final = 10.0
"""Far below `transaction.timeout.ms`, 60 s, which the transaction's last records need, too."""


def recover(path: Path, subject: Mapping[str, Any], settings: Mapping[str, Any]) -> State:
    """The state to continue from; a prepared transaction has been ended. Raises InputError if that is impossible."""
    found = State.load(path) if path.exists() else None
    if found is not None and (changed := differences(found.subject, subject)):
        raise InputError(f"{path} is for another run: {', '.join(changed)} differ; use a new file for a new run")
    topic: str = subject["topic"]
    exists = found is not None and found.begun and found.target.topic_id is not None
    target = Target.asked(settings, topic, exists=exists)
    if found is None:
        state = State.new(subject, target)
        state.save(path)  # before its first transaction, which the next run must abort
        return state
    _check_target(path, topic, found, target)
    state = attrs.evolve(found, target=target)
    prepared = state.prepared
    if prepared is None:
        return state
    outcome = complete(settings, prepared.transaction, commit=True)
    if prepared.in_doubt and outcome is Outcome.FENCED:
        outcome = Outcome.UNKNOWN  # as in the run before, which sent the commit
    match outcome:
        case Outcome.COMMITTED | Outcome.ALREADY_COMMITTED:
            state = attrs.evolve(state, position=prepared.position, prepared=None)
        case Outcome.ALREADY_ABORTED | Outcome.ABORTED | Outcome.FENCED:
            # No other producer has this transactional id, and no transaction began after this one: it timed out.
            state = attrs.evolve(state, prepared=None)
        case Outcome.UNKNOWN:
            attrs.evolve(state, prepared=attrs.evolve(prepared, in_doubt=True)).save(path)
            raise InputError(
                f"the brokers have forgotten the transactional id {state.transactional_id!r} "
                "(transactional.id.expiration.ms), or it was taken over while the last transaction was committed: "
                "it is unknown whether it was; "
                f"compare the end of the topic with record {state.position.record} of file {state.position.input}"
            )
    state.save(path)
    return state


def _check_target(path: Path, topic: str, state: State, now: Target) -> None:
    """Raise InputError if the committed records are not where this run would send the rest."""
    before = state.target
    if before.cluster != now.cluster:
        raise InputError(
            f"{path} is for cluster {before.cluster}, and bootstrap.servers is cluster {now.cluster}: name the servers "
            "of the run before, or use a new file to send everything to another cluster"
        )
    if not state.begun or before.topic_id in (None, now.topic_id):
        return
    has = f"has the id {now.topic_id} now" if now.topic_id else "does not exist any more"
    raise InputError(
        f"{path} is for topic {quoted(topic)} with the id {before.topic_id}, which {has}: it was deleted, or the "
        "cluster was set up again with the id of the one before, and the committed records are gone with it; "
        "use a new file to send everything"
    )


def send_resumable(
    settings: Mapping[str, Any],
    topic: str,
    inputs: Sequence[Input],
    counts: Counts,
    *,
    path: Path,
    state: State,
    flush_timeout: float,
) -> Ending:
    """Send what is left, in transactions; the counts are those of the committed ones.

    An error aborts the open transaction, so that the same command goes on from STATE.
    """
    already = state.position
    try:
        with Producer({**settings, "transactional.id": state.transactional_id}) as producer:
            mark = counts.mark()
            try:
                producer.init_transactions()
                for blocks in _transactions(inputs, state.position):
                    state = _send(producer, settings, topic, blocks, counts, path=path, state=state)
                    mark = counts.mark()
            except BaseException as error:
                _stop(producer, path, flush_timeout if isinstance(error, KeyboardInterrupt) else None)
                counts.roll_back(mark)
                raise
    except KeyboardInterrupt:
        return _ending("interrupted", inputs, path, interrupted=True)
    except (OttlaError, InputError, OSError) as error:
        return _ending(reason(error), inputs, path)
    nothing_left = state.position == already and already != Position()
    return Ending(remark="nothing to do: runs before this one have committed all records" if nothing_left else None)


def continuation(inputs: Sequence[Input], state: State) -> str | None:
    """A line that says where this run begins, unless it is the first."""
    if state.position == Position():
        return None
    return (
        f"{inputs[state.position.input].name} is committed before record {state.position.record}; this run begins there"
    )


def _ending(error: str, inputs: Sequence[Input], path: Path, *, interrupted: bool = False) -> Ending:
    state = State.load(path)
    name = inputs[min(state.position.input, len(inputs) - 1)].name
    prepared = "; a transaction after it is prepared, and committed at the next run" if state.prepared else ""
    remark = f"{name} is committed before record {state.position.record}{prepared}; the same command goes on from there"
    return Ending(error=error, interrupted=interrupted, remark=remark)


class _Blocks:
    """The blocks of all inputs from a position on, cut into transactions by their size and by time."""

    def __init__(self, inputs: Sequence[Input], position: Position) -> None:
        self._blocks = _positioned(inputs, position)
        self._next = next(self._blocks, None)

    @property
    def more(self) -> bool:
        return self._next is not None

    def transaction(self) -> Iterator[tuple[Input, Block, Position]]:
        """Yield the blocks of one transaction, with the position after each."""
        size, started_at = 0, time.monotonic()
        while self._next is not None:
            found = self._next
            yield found
            self._next = next(self._blocks, None)
            size += found[1].size
            if size >= TRANSACTION_BYTES or time.monotonic() - started_at > TRANSACTION_SECONDS:
                return


def _transactions(inputs: Sequence[Input], position: Position) -> Iterator[Iterator[tuple[Input, Block, Position]]]:
    blocks = _Blocks(inputs, position)
    while blocks.more:
        yield blocks.transaction()


def _positioned(inputs: Sequence[Input], position: Position) -> Iterator[tuple[Input, Block, Position]]:
    for number, given in enumerate(inputs[position.input :], position.input):
        for block in given.blocks(skip=position.record if number == position.input else 0):
            yield given, block, Position(number, block.first + block.count)


def _send(
    producer: Producer,
    settings: Mapping[str, Any],
    topic: str,
    blocks: Iterator[tuple[Input, Block, Position]],
    counts: Counts,
    *,
    path: Path,
    state: State,
) -> State:
    """Send one transaction, and return the state after it."""
    position = state.position
    producer.begin_transaction()
    try:
        for given, block, after in blocks:
            send_block(producer, topic, given.name, block, counts)
            position = after
        prepared = producer.prepare_transaction()
    except AbortableTransactionError as error:  # it counts the rows of a block, not the records of the file
        if (failure := counts.failure(error.__cause__)) is None:
            raise
        raise InputError(failure) from error
    counts.wait()
    if counts.failed:  # records that were refused before they were queued do not fail the transaction
        more = f"; and {counted(counts.failed - 1, 'more record')} failed" if counts.failed > 1 else ""
        raise InputError(f"{counts.failures[0]}{more}")
    if not state.begun and state.target.topic_id is None:  # the first record may have created the topic
        state = attrs.evolve(state, target=Target.asked(settings, topic, exists=False))
    state = attrs.evolve(state, prepared=Prepared(transaction=prepared, position=position))
    state.save(path)
    producer.commit_transaction()
    state = attrs.evolve(state, position=position, prepared=None)
    state.save(path)
    return state


def _stop(producer: Producer, path: Path, timeout: float | None) -> None:
    """Abort the open transaction and close, as far as brokers can be reached; the next run aborts otherwise.

    A transaction that STATE has as prepared stays, because the next run commits it.
    """
    try:
        if State.load(path).prepared is None:
            with suppress(OttlaError):  # also: none is open
                producer.abort_transaction(timeout)
    finally:
        close(producer, 0)
