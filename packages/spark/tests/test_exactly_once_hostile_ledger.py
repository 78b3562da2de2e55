"""Hostile batches in a ledger topic: which count, and that none of them stops a reader or fills its memory."""

from __future__ import annotations

import contextlib
import json
import random
import tracemalloc
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import CorruptBatchError, InvalidRecordError
from ottla.plugins.compressors.gzip import Gzip
from ottla.recordbatch.header_v2 import CHECKED, CHECKED_FROM, LENGTH_OFFSET, UNCHECKED, batch_header
from ottla.recordbatch.number_columns import Timestamps
from ottla.recordbatch.records_v2 import encode_records
from ottla.transactions import PreparedTransaction
from ottla_spark.errors import InvalidWriteError
from ottla_spark.exactly_once.errors import LedgerMismatchError
from ottla_spark.exactly_once.ledger.batches import GZIP, LARGEST_ENTRY, split
from ottla_spark.exactly_once.ledger.entry import FORGOTTEN, Entry, Ledger, Status, TaskTransaction, read_value
from ottla_spark.exactly_once.ledger.places import partition_of
from ottla_spark.exactly_once.ledger.scan import ForeignEntry, LedgerScan
from ottla_spark.exactly_once.ledger.topic import own_topic
from ottla_spark.exactly_once.settings import read_settings
from ottla_spark.exactly_once.transactional_ids import task_id
from ottla_spark.options.options import read_options

NAME = "orders"
LEASE, FOREIGN = 7, 8
ABORT, COMMIT = 0, 1


def entry(batch: int = 0, status: Status = Status.DONE, transactional_id: str | None = None) -> Entry:
    prepared = PreparedTransaction(
        transactional_id=transactional_id or task_id(NAME, process="a" * 32, number=1), producer_id=3, epoch=4, level=2
    )
    return Entry(
        query="q", batch=batch, status=status, listed=(TaskTransaction(prepared=prepared, partition=0, records=5),)
    )


def log(*batches: bytes) -> bytes:
    """Batches one after the other, with the offsets that a broker gives them."""
    found, offset = [], 0
    for batch in batches:
        changed = bytearray(batch)
        UNCHECKED.pack_into(changed, 0, offset, *UNCHECKED.unpack_from(batch)[1:])
        offset += CHECKED.unpack_from(batch, CHECKED_FROM)[1] + 1
        found.append(bytes(changed))
    return b"".join(found)


def written(
    *values: bytes | None,
    key: bytes = NAME.encode(),
    producer: int = LEASE,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = True,
    codec: int = GZIP,
    control: bool = False,
) -> bytes:
    section = encode_records(
        keys=[key] * len(values),
        values=list(values),
        headers=None,
        timestamps=Timestamps.of([0] * len(values)),
        key_sizes=[len(key)] * len(values),
        value_sizes=[-1 if value is None else len(value) for value in values],
        nulls=None in values,
    )
    packed = Gzip(-1).compress([section]) if codec == GZIP else bytes(section)
    header = batch_header(
        [packed],
        codec_id=codec | (0x20 if control else 0),
        first_timestamp=0,
        max_timestamp=0,
        count=len(values),
        producer_id=producer,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )
    return header + packed


def marker(kind: int = COMMIT, *, producer: int = LEASE, epoch: int = 1) -> bytes:
    """As brokers write it; from transaction.version 2 on with the epoch after the transaction's."""
    key = b"\0\0" + kind.to_bytes(2, "big")
    return written(b"\0" * 6, key=key, producer=producer, epoch=epoch, sequence=-1, codec=0, control=True)


def scanned(*batches: bytes, lease_ids: Sequence[int] | None = (LEASE,), name: str = NAME) -> LedgerScan:
    scan = LedgerScan(name, (lambda _id: True) if lease_ids is None else set(lease_ids).__contains__)
    for batch in split(log(*batches)):
        scan.take(batch)
    return scan


# What counts


def test_an_entry_counts_once_its_transaction_is_committed() -> None:
    value = entry().to_bytes()
    before, aborted = scanned(written(value)), scanned(written(value), marker(ABORT))
    committed = scanned(written(value), marker(COMMIT))

    assert (before.last, before.answered, before.has_open_entry) == (None, False, True)
    assert (aborted.last, aborted.answered, aborted.has_open_entry) == (None, False, False)
    assert (committed.last, committed.answered, committed.written_by) == (entry(), True, LEASE)


def test_the_newest_committed_entry_is_the_last() -> None:
    first, second = entry(0), entry(1)
    scan = scanned(
        written(first.to_bytes()),
        marker(),
        written(second.to_bytes(), epoch=1),
        marker(epoch=2),
        written(entry(2).to_bytes(), epoch=2),
        marker(ABORT, epoch=3),
        written(entry(3).to_bytes(), epoch=3),
    )

    assert scan.last == second


def test_before_transaction_v2_entries_count_by_their_markers() -> None:
    """With transaction.version 0 and 1 an epoch has many transactions, and their markers have that epoch."""
    scan = scanned(
        written(entry(0).to_bytes(), sequence=0),
        marker(epoch=0),
        written(entry(1).to_bytes(), sequence=1),
        marker(epoch=0),
    )

    assert scan.last == entry(1)


@pytest.mark.parametrize("codec", [0, GZIP])
def test_an_entry_without_a_transaction_never_counts(codec: int) -> None:
    plain = written(entry().to_bytes(), transactional=False, codec=codec)
    scans = [scanned(plain, marker(), lease_ids=ids) for ids in (None, [LEASE])]

    assert [(scan.last, scan.answered, scan.foreign_entry) for scan in scans] == [(None, False, None)] * 2
    assert "belongs to no transaction" in scans[0].skipped.take()[1]


def test_an_entry_of_another_producer_id_counts_only_in_an_own_topic() -> None:
    theirs = written(entry().to_bytes(), producer=FOREIGN), marker(producer=FOREIGN)
    own, shared = scanned(*theirs, lease_ids=None), scanned(*theirs)
    aborted = scanned(written(entry().to_bytes(), producer=FOREIGN), marker(ABORT, producer=FOREIGN))

    assert own.last == entry()
    assert (shared.last, shared.answered) == (None, False)
    assert shared.foreign_entry == ForeignEntry(producer_id=FOREIGN, offset=0)
    assert aborted.foreign_entry is None


def test_a_second_batch_of_a_transaction_does_not_count() -> None:
    mine, forged = written(entry(1).to_bytes()), written(entry(9).to_bytes(), sequence=1)
    both = scanned(mine, forged, marker())
    compacted = scanned(forged, marker())

    assert both.last == entry(1)
    assert (compacted.last, compacted.answered) == (None, True)
    assert "has replaced it" in compacted.problem


def test_a_forgotten_entry_is_recognised() -> None:
    for value in (None, FORGOTTEN):
        scan = scanned(written(entry().to_bytes()), marker(), written(value, epoch=1), marker(epoch=2))

        assert (scan.last, scan.answered, scan.problem) == (None, True, "")


def test_an_unreadable_entry_of_the_lease_is_a_problem_until_the_next_one() -> None:
    broken = scanned(written(b"{not json"), marker())
    mended = scanned(written(b"{not json"), marker(), written(entry().to_bytes(), epoch=1), marker(epoch=2))
    too_many = scanned(written(entry(0).to_bytes(), entry(1).to_bytes()), marker())
    recompressed = scanned(written(entry().to_bytes(), codec=3), marker())

    assert "not an entry of an exactly-once ledger" in broken.problem
    assert (mended.last, mended.problem) == (entry(), "")
    assert "2 records" in too_many.problem
    assert "codec 3" in recompressed.problem
    with pytest.raises(LedgerMismatchError, match="why"):
        Ledger(last=entry(), end=1, doubt="why").certain()


# What entries may say


@pytest.mark.parametrize(
    "foreign",
    [
        "payments-of-another-team",
        "orders/lease",
        task_id("payments", process="a" * 32, number=1),
        task_id("orders/eu", process="a" * 32, number=1),
        task_id("orders", process="z" * 32, number=1),
        "orders/" + "a" * 32 + "/lease",
        task_id("orders/" + "a" * 32, process="b" * 32, number=1),
    ],
)
def test_an_entry_may_list_only_transactions_of_its_own_name(foreign: str) -> None:
    with pytest.raises(InvalidRecordError, match="is not a transactional id of a task of 'orders'"):
        Entry.from_bytes(entry(transactional_id=foreign).to_bytes(), name=NAME)


@pytest.mark.parametrize(
    ("field", "value"),
    [(1, -1), (1, 1 << 63), (2, -1), (2, 1 << 15), (4, 1 << 31), (5, -1), (5, True), (3, 1.0), (0, None)],
)
def test_impossible_numbers_are_refused(field: int, value: object) -> None:
    fields = json.loads(entry().to_bytes())
    fields["transactions"][0][field] = value

    with pytest.raises(InvalidRecordError):
        Entry.from_bytes(json.dumps(fields).encode(), name=NAME)


@given(st.binary(max_size=300))
def test_any_bytes_are_parsed_as_an_entry_or_refused(data: bytes) -> None:
    _read(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["form", "query", "batch", "status", "x"]), inner)
        ),
    )
)
def test_any_json_is_parsed_as_an_entry_or_refused(value: object) -> None:
    _read(json.dumps(value).encode())
    fields = json.loads(entry().to_bytes())
    for key in fields:
        _read(json.dumps({**fields, key: value}).encode())


@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"form":' * 50_000, b"1" * 10_000, b'{"form":1e999}', b"\xff"])
def test_json_that_would_exhaust_its_parser_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRecordError) as refused:
        read_value(data, name=NAME)

    assert len(str(refused.value)) < 500


def _read(data: bytes) -> None:
    with contextlib.suppress(InvalidRecordError):
        read_value(data, name=NAME)


# What batches may hold


def test_a_decompression_bomb_is_not_decompressed_to_find_its_owner() -> None:
    bomb = written(bytes(100_000_000), key=b"another client's"), written(bytes(100_000_000), transactional=False)
    mine = written(entry().to_bytes(), epoch=3)
    took = memory_of(lambda: scanned(*bomb, mine, marker(epoch=4)))

    assert took < 2_000_000


def test_an_own_entry_is_decompressed_to_a_few_megabytes_at_most() -> None:
    bomb = written(bytes(100_000_000)), marker()
    scan = scanned(*bomb)
    took = memory_of(lambda: scanned(*bomb))

    assert scan.problem != ""
    assert took < 3 * LARGEST_ENTRY


@given(st.lists(st.binary(max_size=80), max_size=4), st.randoms(use_true_random=False))
def test_damaged_batches_hide_no_later_entry(rubbish: list[bytes], rng: random.Random) -> None:
    """Batches of other clients have a valid header, which brokers check, and any content."""
    honest = [written(entry(1).to_bytes()), marker()]
    hostile = [damaged(written(each, producer=FOREIGN, transactional=rng.random() < 0.5), rng) for each in rubbish]
    last = scanned(*hostile[:2], *honest, *hostile[2:])

    assert last.last == entry(1)
    assert not last.problem


@given(st.binary(max_size=400))
def test_any_bytes_in_a_response_are_split_or_refused(data: bytes) -> None:
    scan = LedgerScan(NAME, lambda _id: True)
    with contextlib.suppress(CorruptBatchError):
        for batch in split(data):
            scan.take(batch)


def test_messages_of_old_formats_are_skipped() -> None:
    old = b"\0" * 8 + (20).to_bytes(4, "big") + b"\0" * 4 + b"\1" + b"\0" * 15
    batches = list(split(old + log(written(entry().to_bytes()))))

    assert [batch.transactional for batch in batches] == [False, True]


def test_a_batch_never_ends_before_it_begins() -> None:
    """A reader goes on behind the end of a batch, and would read the same one for ever."""
    batch = bytearray(written(entry().to_bytes()))
    batch[CHECKED_FROM + 2 : CHECKED_FROM + 6] = (-5).to_bytes(4, "big", signed=True)
    [found] = split(batch)

    assert found.last_offset == found.first_offset


def test_a_truncated_batch_waits_for_the_next_response() -> None:
    whole = log(written(entry().to_bytes()), marker())
    sizes = {len(list(split(whole[:size]))) for size in range(len(whole))}

    assert sizes == {0, 1}
    assert len(list(split(whole))) == 2


def damaged(batch: bytes, rng: random.Random) -> bytes:
    """The same header, with other bytes behind it."""
    rest = bytearray(batch[CHECKED_FROM + CHECKED.size :])
    for _ in range(rng.randrange(4)):
        rest[rng.randrange(len(rest))] = rng.randrange(256)
    del rest[rng.randrange(1, len(rest) + 1) :]
    changed = bytearray(batch[: CHECKED_FROM + CHECKED.size]) + rest
    changed[LENGTH_OFFSET : LENGTH_OFFSET + 4] = (len(changed) - 12).to_bytes(4, "big")
    return bytes(changed)


def memory_of(work: Callable[[], object]) -> int:
    """The most that it has at one time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Which topic


@pytest.mark.parametrize(
    ("prefix", "topic"),
    [("orders-by-day", "ottla-exactly-once-orders-by-day"), ("A_1", "ottla-exactly-once-A_1")],
)
def test_each_prefix_has_its_own_ledger_topic(prefix: str, topic: str) -> None:
    assert own_topic(prefix) == topic


def test_prefixes_that_are_no_topic_names_get_distinct_topic_names() -> None:
    prefixes = ["a.b", "a_b", "a/b", "a b", "ä", "日本", "x" * 300, "x" * 301, "a.b.c", "a..b"]
    topics = [own_topic(prefix) for prefix in prefixes]

    assert len(set(topics)) == len(prefixes)
    assert all(len(topic) <= 249 and topic.isascii() and "." not in topic and "/" not in topic for topic in topics)


def options(**own: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": "localhost:9092", "guarantee": "exactly-once"}
    return {
        **given,
        "transactional.id.prefix": "orders",
        **{key.replace("_", "."): value for key, value in own.items()},
    }


def test_a_named_ledger_topic_counts_as_shared_unless_set_otherwise() -> None:
    own = read_settings(read_options(options(), problems=[]))
    named = read_settings(read_options(options(ledger_topic="ledgers"), problems=[]))
    mine = read_settings(read_options(options(ledger_topic="ledgers", ledger_shared="false"), problems=[]))

    assert (own.topic.name, own.topic.partitions, own.shared, own.earlier) == (
        "ottla-exactly-once-orders",
        1,
        False,
        "ottla-exactly-once",
    )
    assert (named.topic.name, named.topic.partitions, named.shared, named.earlier) == ("ledgers", 8, True, "")
    assert (mine.topic.name, mine.shared) == ("ledgers", False)
    same = read_settings(read_options(options(ledger_topic="ledgers", ledger_earlier_topic="ledgers"), problems=[]))
    assert same.earlier == ""
    with pytest.raises(InvalidWriteError, match=r"ledger\.shared=true needs the option ledger\.topic"):
        read_settings(read_options(options(ledger_shared="true"), problems=[]))


def test_jobs_of_a_prefix_share_its_topic() -> None:
    found = read_options(options(), problems=[])
    topics = {read_settings(found, job=job).topic.name for job in ("monday", "tuesday")}

    assert topics == {"ottla-exactly-once-orders"}
    assert {partition_of(f"orders/job/{job}", 8) for job in range(100)} == set(range(8))
