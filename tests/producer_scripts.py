"""Scripts for a producer and a simulated cluster of three brokers, as lines that any producer can follow.

A line is a call of the producer (`new` with its settings, `send TOPIC PARTITION VALUE [SIZE]`, `flush`, `init`,
`begin`, `commit`, `abort`, `offsets GROUP TOPIC OFFSET`), or `settle`: wait for the outcome of all records. A line with
`*` is what the cluster does. Broker 1 leads the partitions 0, and coordinates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs


@attrs.frozen
class Script:
    """Its name, and its lines."""

    name: str
    lines: Sequence[str]


def _script(name: str, text: str, *, head: str = "") -> Script:
    return Script(name, [line.strip() for part in (head, text) for line in part.splitlines() if line.strip()])


IDEMPOTENT: Final = "* create t 1\nnew enable.idempotence=true"
PLAIN: Final = "* create t 1\nnew enable.idempotence=false"
TRANSACTIONAL: Final = "* create t 1\nnew transactional.id=x\ninit"
OLDER_TRANSACTIONAL: Final = "* transactions 1\n* create t 1\nnew transactional.id=x\ninit"
IMPATIENT: Final = "request.timeout.ms=500 delivery.timeout.ms=1000 retry.backoff.ms=400 retry.backoff.max.ms=400"
IGNORED: Final = "* ignored 1\n"
HEADS: Final = {"plain": PLAIN, "idempotent": IDEMPOTENT}

THREE_IN_FLIGHT: Final = """
    send t 0 a
    settle
    * hold 1
    send t 0 b
    * arrived 1 2
    send t 0 c
    * arrived 1 3
    send t 0 d
    * arrived 1 4
"""
"""Three batches on their way, after one that was acknowledged."""

AND_ANOTHER: Final = """
    abort
    begin
    send t 0 later
    commit
"""
"""What a program does whose transaction has failed."""

BEFORE: Final = (
    "UNKNOWN_SERVER_ERROR",
    "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "REPLICA_NOT_AVAILABLE",
    "MESSAGE_TOO_LARGE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "INVALID_TOPIC_EXCEPTION",
    "RECORD_LIST_TOO_LARGE",
    "NOT_ENOUGH_REPLICAS",
    "INVALID_REQUIRED_ACKS",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "INVALID_TIMESTAMP",
    "INVALID_REQUEST",
    "UNSUPPORTED_FOR_MESSAGE_FORMAT",
    "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "INVALID_PRODUCER_EPOCH",
    "INVALID_TXN_STATE",
    "INVALID_PRODUCER_ID_MAPPING",
    "CONCURRENT_TRANSACTIONS",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "KAFKA_STORAGE_ERROR",
    "UNKNOWN_PRODUCER_ID",
    "UNSUPPORTED_COMPRESSION_TYPE",
    "INVALID_RECORD",
    "PRODUCER_FENCED",
    "UNKNOWN_TOPIC_ID",
    "TRANSACTION_ABORTABLE",
)
"""Codes of Produce that come before the append."""

AFTER: Final = (
    "UNKNOWN_SERVER_ERROR",
    "CORRUPT_MESSAGE",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "NOT_LEADER_OR_FOLLOWER",
    "REQUEST_TIMED_OUT",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "KAFKA_STORAGE_ERROR",
    "DUPLICATE_SEQUENCE_NUMBER",
)
"""Codes that come after it."""


def _refusals() -> Iterator[Script]:
    for when, codes, command in (("before", BEFORE, "refuse"), ("after", AFTER, "refuse-after-append")):
        for code in codes:
            refusal = f"* {command} 1 {code}"
            for kind, head in HEADS.items():
                yield _script(
                    f"{kind}: {code} {when} the append", f"{refusal}\nsend t 0 a\nsettle\nsend t 0 b\nsettle", head=head
                )
            yield _script(
                f"transaction: {code} {when} the append",
                f"begin\nsend t 0 a\nsettle\n{refusal}\nsend t 0 b\nsettle\ncommit{AND_ANOTHER}",
                head=TRANSACTIONAL,
            )


def _in_flight() -> Iterator[Script]:
    for kind, head in HEADS.items():
        for fault in (
            "refuse 1 NOT_ENOUGH_REPLICAS",
            "refuse-after-append 1 REQUEST_TIMED_OUT",
            "unanswered 1",
            "lost 1",
        ):
            yield _script(
                f"{kind}: second of three in flight, {fault.split(' ', 1)[0]}",
                f"{THREE_IN_FLIGHT}* accept 1 1\n* {fault}\n* release 1\nsettle",
                head=head,
            )
    yield _script(
        "idempotent: second of three in flight, fatal",
        f"{THREE_IN_FLIGHT}* accept 1 1\n* refuse 1 INVALID_RECORD\n* release 1\nsettle\nsend t 0 e\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "idempotent: first of three in flight, fatal",
        f"{THREE_IN_FLIGHT}* refuse 1 INVALID_TIMESTAMP\n* release 1\nsettle\nsend t 0 e\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "transaction: second of three in flight, refused",
        f"begin{THREE_IN_FLIGHT}* accept 1 1\n* refuse 1 NOT_ENOUGH_REPLICAS\n* release 1\nsettle\ncommit",
        head=TRANSACTIONAL,
    )
    yield _script(
        "transaction: second of three in flight, fatal",
        f"begin{THREE_IN_FLIGHT}* accept 1 1\n* refuse 1 INVALID_RECORD\n* release 1\nsettle\ncommit{AND_ANOTHER}",
        head=TRANSACTIONAL,
    )


def _one_of_three() -> Iterator[Script]:
    codes = (
        "UNKNOWN_SERVER_ERROR",
        "NOT_LEADER_OR_FOLLOWER",
        "REQUEST_TIMED_OUT",
        "MESSAGE_TOO_LARGE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_TXN_STATE",
        "CONCURRENT_TRANSACTIONS",
        "KAFKA_STORAGE_ERROR",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_RECORD",
        "TRANSACTION_ABORTABLE",
    )
    kinds = {
        "plain": (PLAIN, "", "send t 0 e\nsettle"),
        "idempotent": (IDEMPOTENT, "", "send t 0 e\nsettle"),
        "v2": (TRANSACTIONAL, "begin", f"commit{AND_ANOTHER}"),
        "v1": (OLDER_TRANSACTIONAL, "begin", f"commit{AND_ANOTHER}"),
    }
    for kind, (head, begin, end) in kinds.items():
        for code in codes:
            if code == "UNKNOWN_PRODUCER_ID" and begin:
                continue  # Java repeats the batches behind it until delivery.timeout.ms
            for number, place in enumerate(("first", "second", "third")):
                before = f"* accept 1 {number}\n" if number else ""
                yield _script(
                    f"{kind}: {code} for the {place} of three",
                    f"{begin}{THREE_IN_FLIGHT}{before}* refuse 1 {code}\n* release 1\nsettle\n{end}",
                    head=head,
                )


def _connections() -> Iterator[Script]:
    for kind, head in HEADS.items():
        for fault in ("lost", "cut-inside", "unanswered", "torn"):
            yield _script(
                f"{kind}: connection {fault}", f"* {fault} 1\nsend t 0 a\nsettle\nsend t 0 b\nsettle", head=head
            )
    yield _script("transaction: connection lost", "begin\n* lost 1\nsend t 0 a\ncommit", head=TRANSACTIONAL)
    yield _script("transaction: connection unanswered", "begin\n* unanswered 1\nsend t 0 a\ncommit", head=TRANSACTIONAL)
    timeouts = "request.timeout.ms=1500 delivery.timeout.ms=4000"
    twice = "request.timeout.ms=1500 delivery.timeout.ms=2500"
    for kind, head in HEADS.items():
        yield _script(
            f"{kind}: a request is never answered", "* ignored 1\nsend t 0 a\nsettle", head=f"{head} {timeouts}"
        )
        yield _script(
            f"{kind}: no request is answered",
            f"{IGNORED * 9}send t 0 a\nsettle",
            head=f"{head} {twice}",
        )
        yield _script(
            f"{kind}: each is refused until time-out",
            "* refuse 1 NOT_ENOUGH_REPLICAS 500\nsend t 0 a\nsettle",
            head=f"{head} {IMPATIENT}",
        )
        yield _script(
            f"{kind}: retries are used up",
            "* refuse 1 NOT_ENOUGH_REPLICAS 3\nsend t 0 a\nsettle",
            head=f"{head} retries=2",
        )
        yield _script(
            f"{kind}: a retry after the append times out",
            "* unanswered 1\n* refuse 1 NOT_ENOUGH_REPLICAS 500\nsend t 0 a\nsettle",
            head=f"{head} {IMPATIENT}",
        )
    yield _script(
        "idempotent: a time-out, then another record",
        f"{IGNORED * 2}send t 0 a\nsettle\nsend t 0 b\nsettle",
        head=f"{IDEMPOTENT} request.timeout.ms=1500 delivery.timeout.ms=2500",
    )
    yield _script(
        "transaction: a time-out of a record",
        f"begin\n{IGNORED * 2}send t 0 a\nsettle\ncommit{AND_ANOTHER}",
        head=TRANSACTIONAL.replace("=x", "=x request.timeout.ms=1500 delivery.timeout.ms=2500"),
    )
    yield _script("idempotent: a slow response", "* delayed 1 0.3\nsend t 0 a\nsettle", head=IDEMPOTENT)
    yield _script("idempotent: throttled", "* throttle 1 300\nsend t 0 a\nsettle\nsend t 0 b\nsettle", head=IDEMPOTENT)


def _acks() -> Iterator[Script]:
    for acks in ("0", "1"):
        head = f"{PLAIN} acks={acks}"
        # Without acknowledgements, a record has its outcome before its broker has the request.
        yield _script(f"acks={acks}: accepted", "send t 0 a\nsettle\nsend t 0 b\nsettle\n* seen [b]", head=head)
        yield _script(
            f"acks={acks}: refused", "* refuse 1 NOT_ENOUGH_REPLICAS\nsend t 0 a\nsettle\n* seen [a]", head=head
        )
        yield _script(f"acks={acks}: lost", "* lost 1\nsend t 0 a\nsettle\n* seen lost", head=head)


def _leaders() -> Iterator[Script]:
    for hint in ("", "* hint\n"):
        name = "with hints" if hint else "without hints"
        for kind, head in HEADS.items():
            yield _script(
                f"{kind}: a leader moves {name}",
                f"send t 0 a\nsettle\n{hint}* lead t 0 2\nsend t 0 b\nsettle",
                head=head,
            )
        yield _script(
            f"idempotent: a leader moves with three in flight, {name}",
            f"{THREE_IN_FLIGHT}{hint}* lead t 0 2\n* release 1\nsettle",
            head=IDEMPOTENT,
        )
        yield _script(
            f"transaction: a leader moves {name}",
            f"begin\nsend t 0 a\nsettle\n{hint}* lead t 0 2\nsend t 0 b\ncommit",
            head=TRANSACTIONAL,
        )
    yield _script(
        "idempotent: the leader stops",
        "send t 0 a\nsettle\n* lead t 0 2\n* stop 1\nsend t 0 b\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "idempotent: a hint that is older than metadata",
        "send t 0 a\nsettle\n* hint\n* lead t 0 2\nsend t 0 b\nsettle\n* lead t 0 3\nsend t 0 c\nsettle",
        head=IDEMPOTENT,
    )
    replicated = IDEMPOTENT.replace("create t", "create-replicated t")
    yield _script("idempotent: replicated", "send t 0 a\nsettle\nsend t 0 b\nsettle", head=replicated)


def _topics() -> Iterator[Script]:
    for kind, head in HEADS.items():
        batched = "\n".join(f"send t 0 {value} 1000" for value in "abcd")
        head = f"{head} linger.ms=20000 delivery.timeout.ms=60000"
        yield _script(f"{kind}: too large, split", f"* limit t 2500\n{batched}\nflush", head=head)
        yield _script(f"{kind}: too large alone", "* limit t 500\nsend t 0 a 1000\nflush\nsend t 0 b\nflush", head=head)
        yield _script(
            f"{kind}: a part is too large",
            "* limit t 2500\nsend t 0 a 1000\nsend t 0 b 3000\nsend t 0 c 1000\nflush",
            head=head,
        )
    yield _script(
        "transaction: too large alone",
        f"* limit t 500\nbegin\nsend t 0 a 1000\nsettle\ncommit{AND_ANOTHER}",
        head=TRANSACTIONAL,
    )
    again = "* delete t\n* create t 1\n"
    for kind, head in HEADS.items():
        yield _script(
            f"{kind}: a topic is made again",
            f"send t 0 a\nsettle\n{again}send t 0 b\nsettle\nsend t 0 c\nsettle",
            head=head,
        )
        yield _script(
            f"{kind}: a topic is deleted",
            "send t 0 a\nsettle\n* delete t\nsend t 0 b\nsettle",
            head=f"{head} request.timeout.ms=500 delivery.timeout.ms=1500 max.block.ms=1000",
        )
    yield _script(
        "transaction: a topic is made again",
        f"begin\nsend t 0 a\ncommit\n{again}begin\nsend t 0 b\ncommit",
        head=TRANSACTIONAL,
    )
    yield _script(
        "idempotent: partitions are added",
        "send t 0 a\nsettle\n* grow t 2\nsend t 1 b\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "idempotent: a partition that is not there",
        "send t 0 z\nsettle\nsend t 5 a\nsettle",
        head=f"{IDEMPOTENT} max.block.ms=500",
    )
    yield _script(
        "idempotent: a topic that is not there",
        "send t 0 z\nsettle\nsend other 0 a\nsettle",
        head=f"{IDEMPOTENT} max.block.ms=500",
    )
    yield _script(
        "idempotent: a topic that is not allowed",
        "* create u 1\n* deny-topic t\nsend u 0 z\nsettle\nsend t 0 a\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "idempotent: a topic is forbidden later",
        "send t 0 a\nsettle\n* deny-topic t\nsend t 0 b\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "transaction: a topic is forbidden",
        f"* deny-topic t\nbegin\nsend t 0 a\nsettle\ncommit{AND_ANOTHER}",
        head=TRANSACTIONAL,
    )
    yield _script(
        "transaction: a topic is forbidden later",
        f"begin\nsend t 0 a\nsettle\n* deny-topic t\nsend t 0 b\nsettle\ncommit{AND_ANOTHER}",
        head=TRANSACTIONAL,
    )


def _idempotence() -> Iterator[Script]:
    yield _script(
        "idempotent: the leader has a later epoch",
        "send t 0 a\nsettle\n* outdate t\nsend t 0 b\nsettle\nsend t 0 c\nsettle\nsend t 0 d\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "transaction: the leader has a later epoch",
        f"begin\nsend t 0 a\nsettle\n* outdate t\nsend t 0 b\nsettle\ncommit{AND_ANOTHER}",
        head=TRANSACTIONAL,
    )
    yield _script(
        "idempotent: lost state",
        "send t 0 a\nsettle\n* forget t\nsend t 0 b\nsettle\nsend t 0 c\nsettle",
        head=IDEMPOTENT,
    )
    yield _script(
        "idempotent: lost state with three in flight",
        f"{THREE_IN_FLIGHT}* forget t\n* accept 1 1\n* refuse 1 NOT_ENOUGH_REPLICAS\n* release 1\nsettle",
        head=IDEMPOTENT,
    )
    for code in ("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "INVALID_PRODUCER_EPOCH"):
        yield _script(
            f"idempotent: {code} with three in flight",
            f"{THREE_IN_FLIGHT}* refuse 1 {code}\n* release 1\nsettle\nsend t 0 e\nsettle",
            head=IDEMPOTENT,
        )
        yield _script(
            f"idempotent: {code} after a record",
            f"send t 0 a\nsettle\n* refuse 1 {code}\nsend t 0 b\nsettle\nsend t 0 c\nsettle",
            head=IDEMPOTENT,
        )
    yield _script(
        "idempotent: two partitions, one refused for good",
        "send t 0 a\nsettle\n* grow t 2\nsend t 1 b\nsettle\n* refuse 1 INVALID_RECORD\n"
        "send t 0 c\nsettle\nsend t 1 d\nsettle\nsend t 0 e\nsettle",
        head=IDEMPOTENT,
    )
    for code in ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "REQUEST_TIMED_OUT"):
        yield _script(
            f"idempotent: InitProducerId {code}",
            f"* answer-once InitProducerId {code}\nnew enable.idempotence=true\n* seen InitProducerId\n"
            "send t 0 a\nsettle\nsend t 0 b\nsettle",
            head="* create t 1",
        )


def _transactions() -> Iterator[Script]:
    for version, head in (("v2", TRANSACTIONAL), ("v1", OLDER_TRANSACTIONAL)):

        def script(name: str, text: str, *, head: str = head, version: str = version) -> Script:
            return _script(f"{version}: {name}", text, head=head)

        yield script("two transactions", "begin\nsend t 0 a\ncommit\nbegin\nsend t 0 b\ncommit")
        yield script("an abort", "begin\nsend t 0 a\nsettle\nabort\nbegin\nsend t 0 b\ncommit")
        yield script("an empty commit", "begin\ncommit\nbegin\nsend t 0 b\ncommit")
        yield script("an empty abort", "begin\nabort\nbegin\nsend t 0 b\ncommit")
        yield script(
            "an abort of queued records", "begin\n* hold 1\nsend t 0 a\n* arrived 1 1\n* later 0.3 release 1\nabort"
        )
        yield script("closed in a transaction", "begin\nsend t 0 a\nsettle")
        yield script("offsets", "* source s\nbegin\nsend t 0 a\nsettle\noffsets g s 5\ncommit")
        yield script("offsets alone", "* source s\nbegin\noffsets g s 5\ncommit")
        yield script("offsets, aborted", "* source s\nbegin\noffsets g s 5\nabort\nbegin\noffsets g s 6\ncommit")
        yield script("two partitions", "* grow t 2\nbegin\nsend t 0 a\nsettle\nsend t 1 b\ncommit")
        yield script("slow markers", "* markers 0.3\nbegin\nsend t 0 a\ncommit\nbegin\nsend t 0 b\ncommit")
        yield script(
            "slow markers, aborted", "* markers 0.3\nbegin\nsend t 0 a\nsettle\nabort\nbegin\nsend t 0 b\ncommit"
        )
        yield script(
            "fenced before a record",
            "begin\nsend t 0 a\ncommit\n* take-over x\nbegin\nsend t 0 b\nsettle\ncommit\nabort",
        )
        yield script("fenced before the commit", "begin\nsend t 0 a\nsettle\n* take-over x\ncommit\nabort")
        yield script("fenced before the abort", "begin\nsend t 0 a\nsettle\n* take-over x\nabort\nbegin")
        yield script("timed out before the commit", "begin\nsend t 0 a\nsettle\n* time-out x\ncommit" + AND_ANOTHER)
        yield script("timed out before the abort", "begin\nsend t 0 a\nsettle\n* time-out x" + AND_ANOTHER)
        yield script(
            "timed out before a record",
            "begin\nsend t 0 a\nsettle\n* time-out x\nsend t 0 b\nsettle\ncommit" + AND_ANOTHER,
        )
        yield script(
            "the coordinator moves before a commit",
            "begin\nsend t 0 a\nsettle\n* coordinator 2\ncommit\nbegin\nsend t 0 b\ncommit",
        )
        yield script(
            "the coordinator loads before a commit", "begin\nsend t 0 a\nsettle\n* load\n* later 0.3 loaded\ncommit"
        )
        yield script(
            "the coordinator loads before a record",
            "begin\nsend t 0 a\ncommit\n* load\n* later 0.3 loaded\nbegin\nsend t 0 b\ncommit",
        )
        yield script(
            "the coordinator stops", "begin\nsend t 0 a\nsettle\n* lead t 0 2\n* coordinator 2\n* stop 1\ncommit"
        )
        for code in (
            "NOT_COORDINATOR",
            "COORDINATOR_NOT_AVAILABLE",
            "COORDINATOR_LOAD_IN_PROGRESS",
            "CONCURRENT_TRANSACTIONS",
            "INVALID_TXN_STATE",
            "INVALID_PRODUCER_EPOCH",
            "INVALID_PRODUCER_ID_MAPPING",
            "PRODUCER_FENCED",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "TRANSACTION_ABORTABLE",
            "UNKNOWN_SERVER_ERROR",
            "REQUEST_TIMED_OUT",
            "UNKNOWN_PRODUCER_ID",
        ):
            yield script(f"EndTxn {code}", f"begin\nsend t 0 a\nsettle\n* answer 1 EndTxn {code}\ncommit{AND_ANOTHER}")
        for code in (
            "COORDINATOR_LOAD_IN_PROGRESS",
            "CONCURRENT_TRANSACTIONS",
            "NOT_COORDINATOR",
            "INVALID_PRODUCER_EPOCH",
            "INVALID_TXN_STATE",
            "GROUP_AUTHORIZATION_FAILED",
            "ILLEGAL_GENERATION",
            "FENCED_INSTANCE_ID",
            "UNKNOWN_MEMBER_ID",
            "TRANSACTION_ABORTABLE",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_SERVER_ERROR",
        ):
            yield script(
                f"TxnOffsetCommit {code}",
                f"* source s\n* answer 1 TxnOffsetCommit {code}\nbegin\noffsets g s 5\ncommit{AND_ANOTHER}",
            )
    for code in (
        "NOT_COORDINATOR",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_TXN_STATE",
        "INVALID_PRODUCER_ID_MAPPING",
        "PRODUCER_FENCED",
        "TOPIC_AUTHORIZATION_FAILED",
        "TRANSACTION_ABORTABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OPERATION_NOT_ATTEMPTED",
    ):
        yield _script(
            f"v1: AddPartitionsToTxn {code}",
            f"* answer 1 AddPartitionsToTxn {code}\nbegin\nsend t 0 a\nsettle\ncommit{AND_ANOTHER}",
            head=OLDER_TRANSACTIONAL,
        )
        yield _script(
            f"v1: AddOffsetsToTxn {code}",
            f"* source s\n* answer 1 AddOffsetsToTxn {code}\nbegin\noffsets g s 5\ncommit{AND_ANOTHER}",
            head=OLDER_TRANSACTIONAL,
        )
    for code in (
        "NOT_COORDINATOR",
        "COORDINATOR_NOT_AVAILABLE",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "CONCURRENT_TRANSACTIONS",
        "INVALID_PRODUCER_EPOCH",
        "PRODUCER_FENCED",
        "INVALID_TRANSACTION_TIMEOUT",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "UNKNOWN_SERVER_ERROR",
    ):
        yield _script(
            f"init: InitProducerId {code}",
            f"* create t 1\n* answer 1 InitProducerId {code}\nnew transactional.id=x\ninit\nbegin\nsend t 0 a\ncommit",
        )
    for code in (
        "COORDINATOR_NOT_AVAILABLE",
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "TRANSACTION_ABORTABLE",
        "UNKNOWN_SERVER_ERROR",
    ):
        yield _script(
            f"init: FindCoordinator {code}",
            f"* create t 1\n* answer-once FindCoordinator {code}\n"
            "new transactional.id=x\ninit\nbegin\nsend t 0 a\ncommit",
        )
    for code in ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "TRANSACTION_ABORTABLE"):
        yield _script(
            f"init: again after FindCoordinator {code}",
            f"* create t 1\n* answer-once FindCoordinator {code}\n"
            "new transactional.id=x\ninit\ninit\nbegin\nsend t 0 a\ncommit",
        )
    yield _script(
        "init: again after InitProducerId INVALID_TRANSACTION_TIMEOUT",
        "* create t 1\n* answer 1 InitProducerId INVALID_TRANSACTION_TIMEOUT\n"
        "new transactional.id=x\ninit\ninit\nbegin\nsend t 0 a\ncommit",
    )
    yield _script("init: a time-out that is too long", "new transactional.id=x transaction.timeout.ms=1000000\ninit")
    yield _script("init: not called", "* create t 1\nnew transactional.id=x\nbegin")
    yield _script("init: called twice", "init", head=TRANSACTIONAL)
    yield _script("init: begin twice", "begin\nbegin", head=TRANSACTIONAL)
    yield _script("init: commit without begin", "commit", head=TRANSACTIONAL)
    yield _script("init: send without begin", "send t 0 a", head=TRANSACTIONAL)


def _all() -> Iterator[Script]:
    for part in (
        _refusals,
        _in_flight,
        _one_of_three,
        _connections,
        _acks,
        _leaders,
        _topics,
        _idempotence,
        _transactions,
    ):
        yield from part()


SCRIPTS: Final[Mapping[str, Script]] = {script.name: script for script in _all()}
