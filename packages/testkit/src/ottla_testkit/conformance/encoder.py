"""All requirements for a `RecordEncoder` and its columns.

```python
class TestMine(RecordEncoderConformance):
    @pytest.fixture
    def encoder(self):
        return MyEncoder()
```

The suite appends random records to its columns and to those of the core's own encoder, and compares the bytes. If the
encoder has abilities for tables, their results are compared in the same way, which needs pyarrow.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from typing import ClassVar, Final

import pytest

from ottla.errors import InvalidRecordError, UnsupportedVersionError
from ottla.interfaces import Columns, ColumnsKind, RecordEncoder
from ottla.recordbatch.record_limits import TIMESTAMP_MAX
from ottla_testkit.conformance.encoder_sizes import SizeRequirements
from ottla_testkit.conformance.encoder_tables import TableRequirements
from ottla_testkit.conformance.harness.bounded_suite import check_contract
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.columns import (
    ENOUGH_BYTES,
    append,
    check_bytes,
    check_facts,
    columns_of,
    encode,
    filled,
)
from ottla_testkit.conformance.harness.concurrent_calls import together
from ottla_testkit.conformance.harness.rows import NOW, Row, drawn
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

_ROUNDS: Final = 60
_WHOLE_COLLECTIONS: Final = 3
"""Rounds that also end in a collection where it has no generations, as on PyPy, and takes a second."""
_WIRE_COST: Final = 20
_THREADS: Final = 6
_NAMELESS: Final = "\ud800"


class RecordEncoderConformance(SizeRequirements, TableRequirements):
    """Tests of a record encoder: derive a class `Test...` from it, and override the fixture `encoder`."""

    subject: ClassVar[str] = "encoder"
    contract: ClassVar[type] = RecordEncoder
    timeout: ClassVar[float] = 10.0
    """Seconds after which threads fail as stuck."""

    @pytest.fixture
    def encoder(self) -> RecordEncoder:
        """The encoder under test; a new one for each test."""
        raise NotImplementedError("give a fixture `encoder` that returns your RecordEncoder")

    def test_it_has_all_attributes_of_the_contract(self, encoder: RecordEncoder) -> None:
        check_contract(encoder, RecordEncoder)
        for name in ("priority", "record_cost"):
            number: object = getattr(encoder, name)
            check(type(number) is int, f"{name} is {number!r}, and must be an int")
        check(encoder.record_cost >= 0, f"record_cost is {encoder.record_cost}; a record costs memory")
        made: object = encoder.columns(ColumnsKind.OBJECTS, 1000)
        check(made is not None, "columns(OBJECTS) returned None: no producer asks for any other kind")
        check_contract(made, Columns, made_by="columns()")

    def test_every_call_makes_its_own_columns(self, encoder: RecordEncoder) -> None:
        one, other = columns_of(encoder), columns_of(encoder)
        append(one, Row(b"of one", b"1"))
        check(len(other) == 0, "a record that was appended to one batch's columns is in another's as well")
        append(other, Row(b"of the other", b"2"))
        check_bytes(one, [Row(b"of one", b"1")])
        check_bytes(other, [Row(b"of the other", b"2")])

    # Bytes

    def test_the_bytes_are_those_of_the_encoder_of_the_core(
        self, encoder: RecordEncoder, chance: random.Random
    ) -> None:
        for _ in range(_ROUNDS):
            rows = drawn(chance)
            check_bytes(filled(encoder, rows), rows)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_older_formats_make_the_same_bytes(self, encoder: RecordEncoder, chance: random.Random, magic: int) -> None:
        for _ in range(_ROUNDS // 3):
            rows = [row._replace(headers=()) for row in drawn(chance)]
            check_bytes(filled(encoder, rows), rows, magic=magic)

    def test_offsets_and_sizes_grow_over_their_varint_bounds(self, encoder: RecordEncoder) -> None:
        for count in (63, 64, 65, 8191, 8192, 8193):
            rows = [Row(None, b"v", (), NOW + index) for index in range(count)]
            check_bytes(filled(encoder, rows), rows)
        rows = [Row(bytes(size), bytes(size)) for size in (0, 62, 63, 64, 8189, 8190, 8191, 8192, 2_000_000)]
        check_bytes(filled(encoder, rows), rows)

    def test_keys_headers_and_nulls_may_come_late(self, encoder: RecordEncoder) -> None:
        late = [Row(None, b"0"), Row(b"k", None), Row(None, None, (("h", None), ("", b""))), Row(b"", b"")]
        for start in range(len(late)):
            rows = [*late[start:], *late[:start]]
            check_bytes(filled(encoder, rows), rows)

    def test_an_older_format_refuses_headers_and_the_records_remain(self, encoder: RecordEncoder) -> None:
        rows = [Row(None, b"a"), Row(b"k", b"b", (("name", None),))]
        columns = filled(encoder, rows)
        for magic in (0, 1):
            try:
                columns.encode(magic)
            except UnsupportedVersionError:
                continue
            except Exception as error:
                fail(f"encode({magic}) of headers raised {error!r}; it must be UnsupportedVersionError", error)
            fail(f"encode({magic}) did not refuse headers, for which the format has no place")
        check_bytes(columns, rows)

    def test_the_bytes_outlive_the_columns(self, encoder: RecordEncoder) -> None:
        rows = [Row(b"key", bytes([number]) * 500) for number in range(50)]
        columns = filled(encoder, rows)
        chunks = encode(columns, 2).chunks
        before = b"".join(chunks)
        del columns
        gc.collect(1)  # what this test made; the other generation may be a large program's
        for number in range(20):
            encode(filled(encoder, [Row(b"other", bytes([number]) * 500)] * 60), 2)
        check(b"".join(chunks) == before, "the encoded bytes changed after the columns were released")

    # Limits and refused records

    def test_an_empty_batch_takes_any_record(self, encoder: RecordEncoder) -> None:
        for limit in (0, 1, 100):
            columns = columns_of(encoder, limit)
            append(columns, Row(bytes(50_000), bytes(50_000)), why="the first one has room, whatever the limit")
            check(len(columns) == 1, f"one record was appended, and len() is {len(columns)}")

    def test_further_records_are_taken_while_they_fit(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for _ in range(_ROUNDS):
            rows, limit = drawn(chance), chance.randrange(5000)
            columns, taken = columns_of(encoder, limit), []
            for row in rows:
                before = len(columns), columns.memory(), columns.size_estimate()
                index = columns.append(*row)
                if index is not None:
                    taken.append(row)
                    check(index == len(taken) - 1, f"append() returned index {index} for record {len(taken) - 1}")
                    check(
                        len(taken) == 1 or columns.memory() <= limit,
                        f"append() took a record, and memory() is {columns.memory()} with {limit} allowed",
                    )
                    continue
                after = len(columns), columns.memory(), columns.size_estimate()
                check(after == before, "append() returned None, and the columns have changed")
            check_bytes(columns, taken)

    def test_a_larger_limit_allows_more_records(self, encoder: RecordEncoder) -> None:
        row = Row(b"key", bytes(100))
        columns = columns_of(encoder, 0)
        append(columns, row)
        check(columns.append(*row) is None, "append() took a second record, with 0 bytes allowed")
        columns.allow(columns.memory() * 2 + 8)
        append(columns, row, why="allow() has made room for two of them")
        check(columns.append(*row) is None, "append() took a third record, with room for two")
        columns.allow(0)
        check_bytes(columns, [row, row])

    def test_a_lower_limit_allows_no_more_records(self, encoder: RecordEncoder) -> None:
        row = Row(b"key", bytes(100))
        columns = filled(encoder, [row, row])
        columns.allow(columns.memory())
        check(columns.append(*row) is None, "append() took a record, although allow() has set a limit without room")
        check_bytes(columns, [row, row])

    def test_a_record_may_fill_the_limit_exactly(self, encoder: RecordEncoder) -> None:
        row = Row(b"key", bytes(100))
        columns = columns_of(encoder, filled(encoder, [row, row]).memory())
        for _ in range(2):
            append(columns, row, why="memory() is then the limit, and not above it")

    def test_closed_columns_take_nothing_whatever_the_limit(self, encoder: RecordEncoder) -> None:
        for how in ("close", "encode", "release"):
            columns = filled(encoder, [Row(None, b"a")])
            columns.close()
            if how != "close":
                columns.encode(2) if how == "encode" else columns.release()
            columns.allow(ENOUGH_BYTES)
            for row in (Row(None, b"b"), Row(None, b"b", (), NOW + (1 << 40))):
                check(columns.append(*row) is None, "append() took a record after close() and allow()")
            check(len(columns) == 1, f"after {how}(), one record is {len(columns)} by len()")

    @pytest.mark.parametrize("earlier", [0, 1, 5])
    def test_a_record_that_the_format_cannot_hold_is_refused_alone(self, encoder: RecordEncoder, earlier: int) -> None:
        good = [Row(b"k", b"good", (("h", b"x"),))] * earlier
        columns = filled(encoder, good)
        for bad in (
            Row(None, b"bad", (), -2),
            Row(None, b"bad", (), TIMESTAMP_MAX + 1),
            Row(None, b"bad", ((_NAMELESS, b"x"),)),
            Row(b"bad", None, (("fine", b"x"), (_NAMELESS, None))),
        ):
            what = f"timestamp {bad.timestamp_ms} and headers {bad.headers!r}"
            try:
                columns.append(*bad)
            except InvalidRecordError:
                continue
            except Exception as error:
                fail(f"append() of {what} raised {error!r}; it must be InvalidRecordError", error)
            fail(f"append() took {what}, which no format can hold")
        good = [*good, Row(b"k", b"after")]
        append(columns, good[-1])
        check_bytes(columns, good)

    def test_every_timestamp_of_the_format_is_accepted(self, encoder: RecordEncoder) -> None:
        for first in (0, NOW, TIMESTAMP_MAX):
            moments = [first, -1, 0, 1, TIMESTAMP_MAX - 1, TIMESTAMP_MAX]
            rows = [Row(None, b"v", (), moment) for moment in moments]
            check_bytes(filled(encoder, rows), rows)

    def test_a_delta_above_64_bits_needs_another_batch(self, encoder: RecordEncoder) -> None:
        first, just = Row(None, b"no time", (), -1), Row(None, b"just before", (), TIMESTAMP_MAX - 1)
        columns = filled(encoder, [first])
        check(
            columns.append(None, b"the end of time", (), TIMESTAMP_MAX) is None,
            f"append() took timestamp {TIMESTAMP_MAX} behind one of -1, from which it is 2**63 away: more than fits",
        )
        append(columns, just)
        check_bytes(columns, [first, just])

    # Reports about records

    def test_facts_and_count_remain_after_encoding(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for how in ("encode", "release"):
            for _ in range(_ROUNDS // 4):
                rows = drawn(chance)
                columns = filled(encoder, rows)
                columns.close()
                check_facts(columns, rows, "before")
                columns.encode(2) if how == "encode" else columns.release()
                if how == "encode":
                    check_facts(columns, rows, "after encode()")
                check(len(columns) == len(rows), f"after {how}(), {len(rows)} records are {len(columns)} by len()")

    def test_keys_are_those_that_were_appended(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for _ in range(_ROUNDS // 4):
            rows = drawn(chance)
            keys, appended = list(filled(encoder, rows).keys()), [row.key for row in rows]
            check(keys == appended, f"keys() of {len(rows)} records gave other keys than were appended")

    # Records that move to other columns

    def test_records_move_to_other_columns_unchanged(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for number in range(_ROUNDS):
            before, rows = drawn(chance)[: chance.choice((0, 3))], drawn(chance)
            chosen = sorted(chance.sample(range(len(rows)), chance.randrange(1, len(rows) + 1)))
            source, target = filled(encoder, rows), filled(encoder, before)
            taken = target.extend(source, chosen)
            check(taken == len(chosen), f"extend() with {len(chosen)} records and all the room took {taken!r}")
            moved = [*before, *(rows[index] for index in chosen)]
            check_facts(target, moved, "after extend()")
            if chance.random() < 0.5:
                check_bytes(source, rows)
            else:
                source.release()
                del source
                if number < _WHOLE_COLLECTIONS or sys.implementation.name == "cpython":
                    gc.collect(1)  # what this round made; the other generation may be a large program's
            check_bytes(target, moved)

    def test_records_move_only_while_they_fit(self, encoder: RecordEncoder, chance: random.Random) -> None:
        for _ in range(_ROUNDS):
            rows, limit = drawn(chance), chance.randrange(3000)
            source, target = filled(encoder, rows), columns_of(encoder, limit)
            taken = target.extend(source, range(len(rows)))
            check(
                isinstance(taken, int) and 1 <= taken <= len(rows),
                f"extend() of empty columns with {len(rows)} records took {taken!r}; the first one always has room",
            )
            check(
                taken == 1 or target.memory() <= limit,
                f"extend() took {taken} records, and memory() is {target.memory()} with {limit} allowed",
            )
            check(len(target) == taken, f"extend() took {taken} records, and len() is {len(target)}")
            check_bytes(target, rows[:taken])

    def test_full_columns_take_no_moved_records(self, encoder: RecordEncoder) -> None:
        source, target = filled(encoder, [Row(b"k", bytes(100))] * 3), columns_of(encoder, 0)
        append(target, Row(None, b"first"))
        taken = target.extend(source, [0, 1, 2])
        check(taken == 0, f"extend() took {taken!r} records, with no room for any")
        check_bytes(target, [Row(None, b"first")])

    # Threads

    def test_batches_are_filled_by_many_threads_at_once(self, encoder: RecordEncoder, chance: random.Random) -> None:
        seeds = [chance.randrange(1 << 32) for _ in range(_THREADS)]

        def work(seed: int) -> None:
            mine = random.Random(seed)
            for _ in range(10):
                rows = drawn(mine)
                check_bytes(filled(encoder, rows), rows)

        works: list[Callable[[], object]] = [lambda seed=seed: work(seed) for seed in seeds]  # type: ignore[misc]
        together(self.timeout * 3, works, call="filling and encoding")

    # The end

    def test_close_ends_background_work(
        self, started_threads: StartedThreads, encoder: RecordEncoder, chance: random.Random
    ) -> None:
        with self._closed_after(encoder, started_threads):
            rows = drawn(chance)
            check_bytes(filled(encoder, rows), rows)
