"""Runs random scripts with Java's producer and with Ottla, and compares what both promise.

Compared are the outcome of each record and each transaction, and the records of each partition that a reader of
committed records gets. Not compared are requests: their number and order is a matter of time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import Final

import attrs
from producer_scripts import Script
from script_runs import Peer, ScriptRun
from served_requests import collapsed, text

from ottla.errors import ErrorCode

EXPIRED: Final = "error REQUEST_TIMED_OUT"


@attrs.frozen(kw_only=True)
class Results:
    """What became of the records and transactions of a script."""

    records: dict[str, str]
    """The offset or the error of each record, by its value, in the order of the outcomes."""
    calls: Sequence[str]
    committed: dict[str, Sequence[str]]
    """What a reader of committed records gets, by partition; a topic that was made again has one more."""
    written: dict[str, Sequence[str]]
    aborted: Set[str]
    """The records of transactions that were aborted. What a program reads of them is not compared."""
    offsets: Sequence[str]
    requests: Sequence[str]
    faults: Sequence[str]
    """What no producer may do, whatever another one does."""
    keeps_order: bool
    """Whether the producer is idempotent, or sends one request at a time."""

    def read(self, values: Sequence[str], expired: Set[str]) -> Sequence[str]:
        """What a reader gets; if order and copies are a matter of time, each value once."""
        kept = [value for value in values if value not in expired]
        return kept if self.keeps_order else sorted(set(kept))

    @property
    def overtaken(self) -> bool:
        """Whether a broker without state of the producer has written a batch before an earlier one was written.

        It then never accepts the earlier one. Ottla sends the first batch of a partition alone, Java does not.
        """
        written: dict[str, set[int]] = {}
        early: set[tuple[str, int]] = set()
        for line in self.requests:
            for place, producer, number in re.findall(r" (\S+-\d+) (p\d+/\d+) #(\d+)", line):
                known = written.setdefault(f"{place} {producer}", set())
                if line.rsplit(" -> ", 1)[-1].startswith(ErrorCode.NONE.name):
                    known.add(int(number))
                elif "OUT_OF_ORDER" in line and known and max(known) > int(number) and int(number) not in known:
                    early.add((f"{place} {producer}", int(number)))
        return bool(early)

    def lines(self, expired: Set[str]) -> Sequence[str]:
        """All that is compared, as text. Whether a record that has *expired* was written is a matter of time."""
        return [
            *(f"call: {place} {' '.join(call.split()[:2])}" for place, call in enumerate(self.calls)),
            *(
                f"record: {value} {acknowledged(outcome)}"
                for value, outcome in sorted(self.records.items())
                if value not in self.aborted
            ),
            *(f"log: {place} {' '.join(self.read(values, expired))}" for place, values in sorted(self.committed.items())),
            *(f"offsets: {line}" for line in self.offsets),
        ]


def acknowledged(outcome: str) -> str:
    """An outcome without its offset, and without the name of the state in which a record was refused."""
    return "acknowledged" if outcome.lstrip("-").isdigit() else "refused" if outcome.startswith("refused") else outcome


class ProgramRun(ScriptRun):
    """One run of a random script, by a program that does what it should after an error.

    A transaction in which a call or a record was refused is aborted. After an abort that fails, or a call that a new
    transaction needs, the program only closes its producer.
    """

    def __init__(self, script: Script, peer: Peer) -> None:
        super().__init__(script, peer)
        self._over = False
        self._refused = False
        self._program: list[str] = []
        self._aborted: set[str] = set()
        self._begun = 0

    def results(self) -> Results:
        """Run all lines, and return what became of the records."""
        self.run()
        records = dict(line.split(" ", 1) for line in self._peer.outcomes())
        committed, written = self._contents()
        return Results(
            records=records,
            calls=self._program,
            committed={} if self._unconfirmed else committed,
            written=written,
            aborted=self._aborted,
            keeps_order=not self._plain or "connection=1 " in " ".join(self._script.lines),
            offsets=[line for line in self._logs() if line.startswith("g ")],
            requests=collapsed(self._served.requests),
            faults=[*self._faults(records, committed, written)],
        )

    def _do(self, line: str, servers: str) -> None:
        command = line.split()[0]
        if line == "* calm":
            self._served.change(self._served.plans.clear)
            for broker in self._served.brokers.values():
                broker.broker.up = True
        elif command in ("*", "settle", "new"):
            super()._do(line, servers)
        elif not self._over:
            self._step(command, line, servers)

    def _step(self, command: str, line: str, servers: str) -> None:
        if command == "commit" and self._refused:
            line = command = "abort"
        before = len(self._calls)
        super()._do(line, servers)
        outcome = self._calls[-1] if len(self._calls) > before else f"{command} ok"
        failed = not outcome.endswith(" ok")
        if command == "send":
            self._refused |= self._is_refused(line.split()[3])
            return
        if command != "flush" and not (command == "commit" and failed):  # an abort is next
            self._program.append(outcome)
        if command == "begin":
            self._refused = False
            self._begun = len(self._sent)
        if command == "abort" or (failed and command in ("commit", "begin")):
            self._aborted.update(self._sent[self._begun :])
        if command == "offsets":
            self._refused |= failed
        elif command == "commit" and failed:
            self._step("abort", "abort", servers)
        elif failed:
            self._over = True
            self._program.append("over")

    @property
    def _unconfirmed(self) -> bool:
        return "acks=0" in " ".join(self._script.lines)

    @property
    def _plain(self) -> bool:
        return "idempotence=false" in " ".join(self._script.lines)

    def _is_refused(self, value: str) -> bool:
        return any(line.split()[:2] == [value, "refused"] for line in self._peer.outcomes())

    def _contents(self) -> tuple[dict[str, Sequence[str]], dict[str, Sequence[str]]]:
        cluster = self._served.cluster
        committed: dict[str, Sequence[str]] = {}
        written: dict[str, Sequence[str]] = {}
        for number, topic in enumerate([*cluster.deleted, *cluster.topics.values()]):
            for partition, log in topic.logs.items():
                name = f"{topic.name}-{partition}" + (f" ({number})" if number else "")
                if log.records:
                    written[name] = [text(record.value) for record in log.records]
                values = [text(value) for value in topic.committed(partition)]
                if values:
                    committed[name] = values
        return committed, written

    def _faults(
        self, records: dict[str, str], committed: dict[str, Sequence[str]], written: dict[str, Sequence[str]]
    ) -> Sequence[str]:
        faults = []
        held = [value for values in written.values() for value in values]
        for value, outcome in records.items():
            if acknowledged(outcome) == "acknowledged" and value not in held and not self._unconfirmed:
                faults.append(f"{value} was acknowledged and is in no log")
        for value in getattr(self._peer, "denied", ()):
            if value in held:
                faults.append(f"{value} is in the log, and its error denies that")
        if not self._plain and "forget" not in " ".join(self._script.lines):
            for place, values in written.items():
                faults += [f"{value} is twice in {place}" for value in set(values) if values.count(value) > 1]
                sent = [value for value in self._sent if value in values]
                if sent != list(values) and len(set(values)) == len(values):
                    faults.append(f"{place} is out of order: {' '.join(values)}")
        for served in self._served.brokers.values():
            faults += [f"misunderstood: {what}" for what in served.broker.misunderstood]
        return faults


def differences(java: Results, ottla: Results) -> Sequence[str]:
    """The lines that only one of both has."""
    expired = {value for value, outcome in java.records.items() if outcome == ottla.records.get(value) == EXPIRED}
    theirs = java.lines(expired)
    ours = [nameless if (nameless := without_name(line)) in theirs else line for line in ottla.lines(expired)]
    return [
        *(f"- {line}" for line in theirs if line not in ours),
        *(f"+ {line}" for line in ours if line not in theirs),
        *(f"! Ottla: {fault}" for fault in ottla.faults),
    ]


def explained(script: Script, java: Results, ottla: Results, lines: Sequence[str]) -> str | None:
    """Why these differences are justified, None if no rule says so."""
    if ottla.faults:
        return None
    whole = " ".join(script.lines)
    if java.faults:
        return "Java writes a record twice, or out of order"
    worse = [line for line in lines if line.startswith("- record")]
    if "retries=" in whole and worse and all("OUT_OF_ORDER" in line or "refused" in line for line in worse):
        return "Java gives the numbers of a batch that was refused until its retries were used up to no other one"
    forgotten = "transactions 1" in whole and "forget" in whole
    if forgotten and any("OUT_OF_ORDER" in outcome for outcome in ottla.records.values()):
        return "Before KIP-890, a transaction fails whose leader has lost the state: Java's next ones, too"
    timed_out = any(java.records.get(value) == outcome == EXPIRED for value, outcome in ottla.records.items())
    if timed_out and all(EXPIRED in line for line in lines if " record: " in line and "acknowledged" not in line):
        return "what is sent behind a record that times out is a matter of time"
    if java.overtaken and not ottla.overtaken:
        return "Java sends several first batches of a partition at once"
    records = [line for line in lines if " record: " in line and not line.endswith("acknowledged")]
    epochs = "INVALID_PRODUCER_EPOCH" in whole or "outdate" in whole
    if epochs and records and all(line.endswith("error INVALID_PRODUCER_EPOCH") for line in records):
        return "a refused epoch"
    if (
        records
        and all(line.startswith("+") and line.endswith("OUT_OF_ORDER_SEQUENCE_NUMBER") for line in records)
        and any(line.endswith(("lost", "torn", "unanswered")) for line in script.lines)
    ):
        return "Ottla gives no second number to a batch that may be written, behind one that failed and may be written"
    return None


def without_name(line: str) -> str:
    """A failure without the name of its error: for some, Java has only a KafkaException with a text."""
    return re.sub(r" error [A-Z_]+$", " error Kafka", line)
