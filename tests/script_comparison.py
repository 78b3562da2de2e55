"""Compares what Java's producer and Ottla do with a random script: all that both promise.

That is the outcome of each record and each transaction, what a reader of committed records gets, and whether the
producer can go on. Requests are not compared, because how records share batches and requests, and how often a request
is repeated, is a matter of time. Nor is what became of a record whose transaction was aborted. Some differences are
justified by a rule.
"""

from __future__ import annotations

import itertools
import queue
import re
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

import attrs
from producer_scripts import Script
from random_scripts import PASSING
from script_programs import ACKNOWLEDGED, REFUSED, ProgramRun, Results
from script_runs import JavaProcess, OttlaPeer, Peer
from shrinking import fewest

from ottla.errors import ErrorCode

EXPIRED: Final = f"error {ErrorCode.REQUEST_TIMED_OUT.name}"
EPOCH: Final = f"error {ErrorCode.INVALID_PRODUCER_EPOCH.name}"
LEADER: Final = f"error {ErrorCode.NOT_LEADER_OR_FOLLOWER.name}"
ORDER: Final = f"error {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name}"
NO_TOPIC: Final = f"error {ErrorCode.UNKNOWN_TOPIC_ID.name}"
NO_STATE: Final = f"error {ErrorCode.UNKNOWN_PRODUCER_ID.name}"

_REFUSED: Final = re.compile(
    r"(InitProducerId|AddPartitionsToTxn|AddOffsetsToTxn|EndTxn) .*"
    r"-> (PRODUCER_FENCED|INVALID_PRODUCER_ID_MAPPING|INVALID_TXN_STATE)"
)

PASSED: Final = tuple(f"error {name}" for name in PASSING)
"""Refusals after which both send a batch again, as long as they have retries."""

RUNS: Final = 3
"""How often a script has to differ: real sockets and threads have their own time."""

SHRUNK: Final = 80
"""Scripts that one shrinking compares at most."""

_numbers: Final = itertools.count()


@attrs.frozen(kw_only=True)
class Difference:
    """The lines that only one of both has: - Java's, + Ottla's."""

    script: Script
    java: Results
    ottla: Results
    lines: Sequence[str]

    @property
    def records(self) -> Mapping[str, tuple[str, str]]:
        """The outcomes of records that differ, Java's and Ottla's."""
        both = self.java.records.keys() & self.ottla.records.keys()
        pairs = {value: (self.java.records[value], self.ottla.records[value]) for value in both}
        return {value: pair for value, pair in pairs.items() if pair[0] != pair[1]}

    def each(self, allowed: Callable[[str, str], bool]) -> bool:
        """Whether outcomes of records differ, and each pair of them is *allowed*."""
        return bool(self.records) and all(allowed(*pair) for pair in self.records.values())

    def has(self, *words: str) -> bool:
        """Whether a line of the script has one of these words."""
        return any(word in line for line in self.script.lines for word in words)


@attrs.frozen
class Rule:
    """Why a difference is justified, and when."""

    reason: str
    applies: Callable[[Difference], bool]


def _refused_epoch(found: Difference) -> bool:
    return found.has("outdate", "INVALID_PRODUCER_EPOCH") and found.each(lambda java, ottla: EPOCH in (java, ottla))


def _java_breaks_its_promise(found: Difference) -> bool:
    return bool(found.java.faults)


def _overtaken(found: Difference) -> bool:
    return bool(_overtaken_batches(found.java.requests) - _overtaken_batches(found.ottla.requests))


def _retries(found: Difference) -> bool:
    # A transaction with a failed record is aborted, and so are all its records.
    aborted = found.has("transactional.id") and _at_former_leaders(found.java) != _at_former_leaders(found.ottla)
    return found.has("retries=") and (
        aborted
        or found.each(
            lambda java, ottla: (
                not {LEADER, NO_TOPIC}.isdisjoint((java, ottla))
                or (java in (ORDER, REFUSED, *PASSED) and ottla == ACKNOWLEDGED)
            )
        )
    )


def _at_former_leaders(results: Results) -> int:
    """The number of batches that came to the former leader of their partition."""
    return sum("NOT_LEADER_OR_FOLLOWER" in line for line in results.requests)


def _without_state(found: Difference) -> bool:
    return found.has("transactional.id") and found.has("UNKNOWN_PRODUCER_ID")


def _forgotten(found: Difference) -> bool:
    return found.has("* transactions 1") and found.has("forget", "recreate")


def _given_up(found: Difference) -> bool:
    return found.has("forget") and found.each(lambda java, ottla: (java, ottla) == (EXPIRED, ORDER))


def _in_doubt(found: Difference) -> bool:
    in_doubt = found.has(" lost", " torn", " unanswered", " delayed 1.5", "limit", "refuse-after-append")
    return in_doubt and found.each(lambda java, ottla: java == ACKNOWLEDGED and ottla in (ORDER, NO_STATE))


def _aborted_by_coordinator(found: Difference) -> bool:
    return any("EndTxn" in line and "commit -> INVALID_TXN_STATE" in line for line in found.ottla.requests)


def _refused_offsets(found: Difference) -> bool:
    return any("TxnOffsetCommit" in line and "INVALID_PRODUCER_EPOCH" in line for line in found.ottla.requests)


def _refused_by_coordinator(found: Difference) -> bool:
    return any(_REFUSED.search(line) for line in found.ottla.requests)


def _forgotten_id(found: Difference) -> bool:
    return any("EndTxn" in line and "abort -> INVALID_PRODUCER_ID_MAPPING" in line for line in found.ottla.requests)


def _expired(found: Difference) -> bool:
    behind = any(found.java.records.get(value) == outcome == EXPIRED for value, outcome in found.ottla.records.items())
    return behind and found.each(lambda java, ottla: EXPIRED in (java, ottla))


def _written_again(found: Difference) -> bool:
    lost = found.has("enable.idempotence=false") and found.has(" lost", " torn", " unanswered")
    logs = [set(line[2:].split()) for line in found.lines if line[2:].startswith("log: all partitions ")]
    return lost and len(logs) == len(found.lines) == 2 and logs[0] == logs[1]


RULES: Final = (
    Rule("Java writes a record twice or out of order, Ottla does not.", _java_breaks_its_promise),
    Rule(
        "Java has several first batches of a partition in flight. A broker without state takes any of them, and then "
        "never the ones before. Ottla sends the first one alone.",
        _overtaken,
    ),
    Rule(
        "After INVALID_PRODUCER_EPOCH, Java goes on in the next epoch, and with batches that were sent in the refused "
        "one. Ottla goes on with a new producer id, and gives no batch a second number that may be written.",
        _refused_epoch,
    ),
    Rule(
        "Ottla fails a batch that may be written, if one before it failed that may be written, too, or if its leader "
        "says that it has no state: under another number it could be written twice. Java takes that risk.",
        _in_doubt,
    ),
    Rule(
        "With few retries, it is a matter of time whether a record meets the former leader of its partition, or the "
        "id of its topic before it was created again, or is refused once more behind another one. After a batch whose "
        "retries are used up, Java's next ones are out of order; Ottla goes on.",
        _retries,
    ),
    Rule(
        "Before KIP-890, a leader that has lost its state refuses the next transaction. Ottla goes on in another epoch "
        "after that, Java only after other errors.",
        _forgotten,
    ),
    Rule(
        "A leader that has no state of a producer fails a transaction in Ottla. Java may begin again at number 0.",
        _without_state,
    ),
    Rule(
        "A leader loses its state while batches are in flight, and takes a later one first. Java sends the earlier one "
        "until delivery.timeout.ms, Ottla fails it at once.",
        _given_up,
    ),
    Rule(
        "With KIP-890, offsets of a transaction that its coordinator has aborted are refused with "
        "INVALID_PRODUCER_EPOCH. Java's producer fails for good; Ottla's can abort, and go on unless it is fenced.",
        _refused_offsets,
    ),
    Rule(
        "With KIP-890, a coordinator that has aborted a transaction refuses its commit with INVALID_TXN_STATE. Java's "
        "producer fails for good, Ottla's aborts and goes on.",
        _aborted_by_coordinator,
    ),
    Rule(
        "A coordinator that has no producer id of the transactional id has nothing to abort. Java's producer fails for "
        "good, Ottla's takes a new id.",
        _forgotten_id,
    ),
    Rule(
        "A broker that may not be the coordinator any more calls a producer fenced, or does not know its id or its "
        "transaction. Java's producer fails for good, Ottla's asks the coordinator once more.",
        _refused_by_coordinator,
    ),
    Rule("What is sent behind a record that times out is a matter of time.", _expired),
    Rule(
        "Without idempotence, all records of a request whose response is lost are written again. Which records share "
        "one is a matter of time.",
        _written_again,
    ),
)


@attrs.frozen(kw_only=True)
class Comparison:
    """The runs of one script, and its differences as lines. A *reason*, if there is one, justifies them."""

    script: Script
    lines: Sequence[str] = ()
    reason: str | None = None
    java: Results | None = None
    ottla: Results | None = None

    @property
    def unexplained(self) -> bool:
        return bool(self.lines) and self.reason is None


def compare(java: JavaProcess, script: Script) -> Comparison:
    """Run a script with both producers, until both agree; at most `RUNS` times."""
    for _run in range(RUNS):
        compared = _compare(java, script)
        if not compared.unexplained:
            break
    return compared


def shrunk(java: JavaProcess, compared: Comparison) -> Comparison:
    """Return the comparison of a shorter script with a difference of the same kind."""
    wanted, best, left = _kind(compared), compared, SHRUNK
    fixed = [line.startswith(("* create", "* source", "* transactions", "new", "init")) for line in best.script.lines]

    def enough(places: Sequence[int]) -> bool:
        nonlocal best, left
        left -= 1
        if left < 0:
            return False
        lines = [line for place, line in enumerate(compared.script.lines) if fixed[place] or place in places]
        shorter = compare(java, attrs.evolve(compared.script, lines=lines))
        if shorter.unexplained and _kind(shorter) == wanted:
            best = shorter
            return True
        return False

    fewest([place for place, stays in enumerate(fixed) if not stays], enough)
    return best


def differences(java: Results, ottla: Results) -> Sequence[str]:
    """The lines that only one of both has."""
    expired = {value for value, outcome in java.records.items() if outcome == ottla.records.get(value) == EXPIRED}
    theirs = java.lines(expired)
    ours = [nameless if (nameless := _without_name(line)) in theirs else line for line in ottla.lines(expired)]
    return [
        *(f"- {line}" for line in theirs if line not in ours),
        *(f"+ {line}" for line in ours if line not in theirs),
        *(f"! Ottla: {fault}" for fault in ottla.faults),
    ]


def _compare(java: JavaProcess, script: Script) -> Comparison:
    theirs = _results("Java", script, java.peer(f"p{next(_numbers)}"))
    ours = _results("Ottla", script, OttlaPeer())
    if isinstance(theirs, str) or isinstance(ours, str):
        return Comparison(script=script, lines=[each for each in (theirs, ours) if isinstance(each, str)])
    found = Difference(script=script, java=theirs, ottla=ours, lines=differences(theirs, ours))
    reasons = (rule.reason for rule in RULES if found.lines and not ours.faults and rule.applies(found))
    return Comparison(script=script, lines=found.lines, reason=next(reasons, None), java=theirs, ottla=ours)


def _results(who: str, script: Script, peer: Peer) -> Results | str:
    """What became of the records, or a line that says why a run has not ended."""
    try:
        return ProgramRun(script, peer).results()
    except (AssertionError, queue.Empty) as error:
        return f"! {who} does not end: {type(error).__name__} {error}".splitlines()[0]


def _kind(compared: Comparison) -> str:
    """What differs first, without numbers."""
    return re.sub(r"\d+", "", " ".join(compared.lines[0].split()[:3])) if compared.lines else ""


def _overtaken_batches(requests: Sequence[str]) -> Set[tuple[str, int]]:
    """The batches that a broker refuses as out of order, because it has written a later one of the partition."""
    written: dict[str, int] = {}
    overtaken: set[tuple[str, int]] = set()
    for line in requests:
        for batch, number in re.findall(r" (\S+-\d+ p\d+/\d+) #(\d+)", line):
            if f"-> {ErrorCode.NONE.name}" in line:
                written[batch] = max(written.get(batch, -1), int(number))
            elif ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name in line and written.get(batch, -1) > int(number):
                overtaken.add((batch, int(number)))
    return overtaken


def _without_name(line: str) -> str:
    """A failure without the name of its error: for some, Java has only a KafkaException with a text."""
    return re.sub(r" error [A-Z_]+$", " error Kafka", line)
