"""Runs a random script as a program does that reacts to errors, and notes what became of its records."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

import attrs
from producer_scripts import Script
from script_runs import BY_KEY, Peer, ScriptRun
from served_requests import collapsed, text

ACKNOWLEDGED: Final = "acknowledged"
REFUSED: Final = "refused"

FORGETFUL: Final = ("forget", "UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER")
"""In scripts in which a broker loses the state of a producer, or says so: such a broker recognizes no copy."""

Logs = Mapping[str, Sequence[str]]
"""The values of records by partition. The partitions of a topic that was made again have a number, too."""


@attrs.frozen(kw_only=True)
class Results:
    """What became of the records and transactions of a script."""

    calls: Sequence[str]
    """The calls that begin and end transactions, each with its outcome. A commit that failed is left out: the program
    aborts the transaction next."""
    records: Mapping[str, str]
    """The outcome of each record that is compared, by its value: all but those of transactions that were aborted."""
    committed: Logs
    """What a reader of committed records gets."""
    offsets: Sequence[str]
    requests: Sequence[str]
    faults: Sequence[str]
    """What no producer may do, whatever another one does."""
    keeps_order: bool
    """Whether the producer is idempotent, or sends one request at a time."""

    def lines(self, expired: Set[str]) -> Sequence[str]:
        """All that is compared, as text. Whether a record that has *expired* was written is a matter of time."""
        return [
            *(f"call: {place} {call}" for place, call in enumerate(self.calls)),
            *(f"record: {value} {outcome}" for value, outcome in sorted(self.records.items())),
            *(f"log: {place} {' '.join(self._read(values, expired))}" for place, values in self.committed.items()),
            *(f"offsets: {line}" for line in self.offsets),
        ]

    def _read(self, values: Sequence[str], expired: Set[str]) -> Sequence[str]:
        """What a reader gets; each value once, if order and copies are a matter of time."""
        kept = [value for value in values if value not in expired]
        return kept if self.keeps_order else sorted(set(kept))


class ProgramRun(ScriptRun):
    """One run of a random script.

    A transaction in which a call failed or a record was refused is aborted. After an abort or a `begin` that fails,
    the program only closes its producer. `* undisturbed` drops all plans for requests; at `* calm`, the brokers that
    were stopped are there again, too.
    """

    def __init__(self, script: Script, peer: Peer) -> None:
        super().__init__(script, peer)
        self._program: list[str] = []
        self._over = False
        self._must_abort = False
        self._first_of_transaction = 0
        self._aborted: set[str] = set()

    def results(self) -> Results:
        """Run all lines, and return what became of the records."""
        self.run()
        records = {value: _outcome(rest) for value, rest in (line.split(" ", 1) for line in self._peer.outcomes())}
        return Results(
            calls=self._program,
            records={value: outcome for value, outcome in records.items() if value not in self._aborted},
            committed={} if self._has("acks=0") else self._committed(),
            offsets=[line for line in self._logs() if line.startswith("g ")],
            requests=collapsed(self._served.requests),
            faults=list(self._faults(records)),
            keeps_order=self._is_idempotent or self._has("connection=1"),
        )

    def _has_moving_keys(self) -> bool:
        """Whether keys choose among partitions that become more."""
        lines = [line.split() for line in self._script.lines]
        return any(line[:2] == ["*", "grow"] for line in lines) and any(
            line[0] == "send" and line[2] == BY_KEY for line in lines
        )

    def _has(self, setting: str) -> bool:
        return any(setting in line.split() or line.endswith(setting) for line in self._settings())

    def _settings(self) -> Iterator[str]:
        for line in self._script.lines:
            if line.startswith("new "):
                yield from line.split()

    @property
    def _is_idempotent(self) -> bool:
        return not self._has("enable.idempotence=false")

    def _do(self, line: str, servers: str) -> None:
        command = line.split()[0]
        if line == "* undisturbed":
            self._served.change(self._served.plans.clear)
        elif line == "* calm":
            self._served.change(self._calm)
        elif command in ("*", "settle", "new"):
            super()._do(line, servers)
        elif not self._over:
            self._step(line, servers)

    def _calm(self) -> None:
        self._served.plans.clear()
        self._served.cluster.transactions.marker_seconds = 0.0  # otherwise the last ones come after the comparison
        for served in self._served.brokers.values():
            served.broker.up = True

    def _step(self, line: str, servers: str) -> None:
        """Make a call, and react to its outcome."""
        command = line.split()[0]
        if command == "commit" and self._must_abort:
            command = line = "abort"
        if command == "begin":
            self._must_abort = False
            self._first_of_transaction = len(self._sent)
        before = len(self._calls)
        super()._do(line, servers)
        failed = len(self._calls) > before and not self._calls[-1].endswith(" ok")
        if command == "send":
            self._must_abort |= f"{line.split()[3]} {REFUSED}" in [
                " ".join(outcome.split()[:2]) for outcome in self._peer.outcomes()
            ]
        if command in ("send", "flush"):
            return
        if command == "commit" and failed:
            self._step("abort", servers)
            return
        self._program.append(f"{command} {'failed' if failed else 'ok'}")
        if command == "abort":
            self._aborted.update(self._sent[self._first_of_transaction :])
        if command == "offsets":
            self._must_abort |= failed
        elif failed:
            self._over = True

    def _committed(self) -> Logs:
        cluster = self._served.cluster
        if self._has_moving_keys():
            # When a producer learns of more partitions is a matter of time, and so is the partition of a key.
            topics = [*cluster.deleted, *cluster.topics.values()]
            read = (text(value) for topic in topics for partition in topic.logs for value in topic.committed(partition))
            return {"all partitions": sorted(read)}
        return {
            f"{topic.name}-{partition}{f' ({number})' * bool(number)}": values
            for number, topic in enumerate([*cluster.deleted, *cluster.topics.values()])
            for partition in sorted(topic.logs)
            if (values := [text(value) for value in topic.committed(partition)])
        }

    def _faults(self, records: Mapping[str, str]) -> Iterator[str]:
        cluster = self._served.cluster
        logs = [log for topic in [*cluster.deleted, *cluster.topics.values()] for log in topic.logs.values()]
        written = [[text(record.value) for record in log.records] for log in logs]
        held = {value for values in written for value in values}
        for value, outcome in records.items():
            if outcome == ACKNOWLEDGED and value not in held and not self._has("acks=0"):
                yield f"{value} was acknowledged and is in no log"
        for value in getattr(self._peer, "denied", ()):
            if value in held:
                yield f"{value} is in a log, and its error denies that"
        if self._is_idempotent and not any(word in line for line in self._script.lines for word in FORGETFUL):
            places = {value: place for place, value in enumerate(self._sent)}
            for values in written:
                if any(places[one] >= places[other] for one, other in itertools.pairwise(values)):
                    yield f"a record is written twice or out of order: {' '.join(values)}"
        for served in self._served.brokers.values():
            yield from (f"a broker cannot read {what}" for what in served.broker.misunderstood)


def _outcome(rest: str) -> str:
    """An outcome without an offset, and without the name of the state in which a record was refused."""
    return ACKNOWLEDGED if rest.lstrip("-").isdigit() else REFUSED if rest.startswith(REFUSED) else rest
