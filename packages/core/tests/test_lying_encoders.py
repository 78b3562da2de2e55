"""Encoders of other authors that lie: no record is acknowledged without being sent, and each one has an outcome.

The error names the encoder, the other batches of the producer are sent, and nothing stays in the buffer.
"""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa
import pytest

from guide_encoder import NAMED, Install, install
from ottla import DeliveryError, InvalidPluginError
from ottla.interfaces import TopicView
from plugin_site import plugin_site
from simulated_producer import Calling, simulated

__all__ = ["install", "plugin_site"]

RECORDS: Final = 5
EVOLVED: Final = """
import attrs
encode = ListColumns.encode
def encode_(self, magic):
    encoded = encode(self, magic)
    return attrs.evolve(encoded, {change})
ListColumns.encode = encode_
"""
OTHER_FACTS: Final = """
facts = ListColumns.facts
ListColumns.facts = lambda self: facts(self)._replace({change}) if self._facts else facts(self)
"""
DROPS: Final = """
encode = ListColumns.encode
def dropping(self, magic):
    self._records.pop()
    self._count = self._count - 1
    return encode(self, magic)
ListColumns.encode = dropping
"""
DOUBLES: Final = DROPS.replace("self._records.pop()", "self._records.append(self._records[-1])").replace("- 1", "+ 1")


class Many:
    """A partitioner for many keys in one call, so that records are moved from batch to batch."""

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        return 0

    def partition_column(self, topic: str, keys: Any, view: TopicView) -> list[int]:
        return [0] * len(keys)


def sent(*, keyed: bool, closing: bool = False) -> tuple[list[str | None], list[str | None], list[bytes | None]]:
    """The errors of some records, those that their callbacks got, and the values that a broker has got."""
    given: list[Any] = []
    with simulated(1, config={"record.encoder": "first"}, plugins={"partitioner": Many()}) as simulation:
        key = b"k" if keyed else None
        deliveries = [
            simulation.producer.send("t", b"v%d" % number, key, on_delivery=given.append) for number in range(RECORDS)
        ]
        if closing:
            Calling(simulation, lambda: simulation.producer.close(timeout=3)).rounds()
        else:
            simulation.run_until_idle()
            assert simulation.pool.free == simulation.pool.capacity
        written = [record.value for record in simulation.cluster.topics["t"].log.get(0, [])]
        return [told(each) for each in deliveries], [told(each) for each in given], written


def told(delivery: Any) -> str | None:
    error = delivery.exception(0)
    return None if error is None else str(error)


LIES: Final = {
    "a record left out": (DROPS, "returned count=4 in encode for 5 records"),
    "a record twice": (DOUBLES, "returned count=6 in encode for 5 records"),
    "count=0": (EVOLVED.format(change="count=0"), "returned count=0 in encode for 5 records"),
    "count='5'": (EVOLVED.format(change="count='5'"), "returned builtins.str as count in encode, not an int"),
    "a float": (EVOLVED.format(change="max_timestamp=1.5"), "returned builtins.float as max_timestamp in encode, not"),
    "a late time": (
        EVOLVED.format(change="max_timestamp=2**64"),
        "returned first_timestamp=.* and max_timestamp=18446744073709551616 in encode",
    ),
    "an early time": (EVOLVED.format(change="first_timestamp=-100"), "returned first_timestamp=-100 and max_timestamp"),
    "the first time last": (
        EVOLVED.format(change="max_timestamp=5"),
        "returned first_timestamp=.* and max_timestamp=5 in encode",
    ),
    "no chunks": (EVOLVED.format(change="chunks=None"), "returned builtins.NoneType as chunks in encode, not a list"),
    "a generator": (EVOLVED.format(change="chunks=iter(encoded.chunks)"), r"returned builtins.\w+ as chunks in encode"),
    "bytes": (EVOLVED.format(change="chunks=encoded.chunks[0]"), "returned builtins.bytes as chunks in encode, not a"),
    "texts": (EVOLVED.format(change="chunks=['abc']"), "returned chunks in encode that are not all bytes"),
    "wide memory": (
        EVOLVED.format(change="chunks=[memoryview(array('q', [0] * 9))]"),
        "returned chunks in encode that are not all",
    ),
    "empty chunks": (EVOLVED.format(change="chunks=[]"), "returned 0 bytes in encode for 5 records, which take"),
    "no facts": (
        "facts = ListColumns.facts\nListColumns.facts = lambda self: None if self._facts else facts(self)",
        "returned builtins.NoneType in facts, not an ottla",
    ),
    "no times": (OTHER_FACTS.format(change="timestamps_ms=None"), "returned timestamps_ms in facts that are no"),
    "few times": (OTHER_FACTS.format(change="timestamps_ms=[1, 2]"), "returned 2 timestamps_ms in facts for 5 records"),
    "many sizes": (
        OTHER_FACTS.format(change="value_sizes=__import__('itertools').repeat(1)"),
        "returned more value_sizes in facts for 5 records",
    ),
    "a list that fails": (
        EVOLVED.format(change="chunks=type('Fails', (list,), {'__iter__': lambda self: {}[1]})(encoded.chunks)"),
        "failed in the chunks of encode: KeyError: 1",
    ),
    "an Encoded of its own": (
        EVOLVED.replace("attrs.evolve(encoded, {change})", "vars").format(),
        r"returned builtins\.\w+ in encode, not an ottla",
    ),
    "sizes of texts": (OTHER_FACTS.format(change="key_sizes='abcde'"), "returned key_sizes in facts that are no"),
    "a close that fails": ("ListColumns.close = lambda self: {}[1]", "failed in close: KeyError: 1"),
}


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(("code", "said"), LIES.values(), ids=LIES)
def test_a_lie_about_the_records_of_a_batch_fails_the_batch(
    install: Install, code: str, said: str, *, keyed: bool
) -> None:
    install("from array import array\n" + code)
    errors, given, written = sent(keyed=keyed)

    assert written == []
    assert len(errors) == len(given) == RECORDS
    for error in (*errors, *given):
        assert error is not None
        assert re.search(f"{NAMED}{said}", error)


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ListColumns.extend = lambda self, other, indexes: 0", "returned 0 in extend, but an empty batch takes any"),
        ("ListColumns.extend = lambda self, other, indexes: {}[1]", "failed in extend: KeyError: 1"),
        (
            "made = []\nListColumns.__len__ = lambda self: made.append(1) or (0 if len(made) < 2 else 2**70)",
            "returned new columns that are not empty: 1180591620717411303424 in __len__",
        ),
        (
            "made = []\nListColumns.__len__ = lambda self: made.append(1) or len(made) - 1",
            "returned new columns that are not empty: 1 in __len__",
        ),
    ],
)
def test_columns_that_take_no_moved_records_fail_them(install: Install, code: str, said: str, *, closing: bool) -> None:
    install(code)
    errors, given, written = sent(keyed=True, closing=closing)

    assert written == []
    assert len(errors) == len(given) == RECORDS
    for error in (*errors, *given):
        assert error is not None
        assert re.search(f"{NAMED}{said}", error)


@pytest.mark.parametrize("count", [1, 2**70])
def test_new_columns_with_records_are_refused_in_send(install: Install, count: int) -> None:
    install(f"ListColumns.__len__ = lambda self: {count}")
    with (
        simulated(1, config={"record.encoder": "first"}) as simulation,
        pytest.raises(InvalidPluginError, match=f"{NAMED}returned new columns that are not empty: {count} in __len__"),
    ):
        simulation.producer.send("t", b"v", partition=0)


def test_records_that_were_never_moved_are_not_possibly_persisted(install: Install) -> None:
    install("ListColumns.extend = lambda self, other, indexes: {}[1]")
    with simulated(1, config={"record.encoder": "first"}, plugins={"partitioner": Many()}) as simulation:
        delivery = simulation.producer.send("t", b"v", b"k")
        simulation.run_until_idle()
        error = delivery.exception(0)

    assert isinstance(error, DeliveryError)
    assert not error.possibly_persisted


@pytest.mark.parametrize(
    "chunks", ["deque(encoded.chunks)", "(memoryview(encoded.chunks[0]),)", "Again(encoded.chunks)"]
)
def test_chunks_may_be_any_sequence_of_bytes(install: Install, chunks: str) -> None:
    install(
        "from collections import UserList, deque\n"
        "class Again(UserList):\n    __iter__ = lambda self: iter([self.data.pop()] if self.data else [])\n"
        + EVOLVED.format(change=f"chunks={chunks}")
    )
    errors, given, written = sent(keyed=False)

    assert errors == given == [None] * RECORDS
    assert written == [b"v0", b"v1", b"v2", b"v3", b"v4"]


@pytest.mark.parametrize("error", ["MemoryError()", "UnsupportedVersionError('of its own')"])
def test_a_lack_of_memory_in_facts_is_no_fault_of_the_encoder(install: Install, error: str) -> None:
    install(
        f"def fails():\n    yield 1\n    raise {error}\n" + OTHER_FACTS.format(change="timestamps_ms=fails()"),
    )
    errors, given, written = sent(keyed=False)

    assert written == []
    assert len(given) == RECORDS
    for each in errors:
        assert each is not None
        assert error.partition("(")[0] in each or "of its own" in each
        assert "the encoder" not in each


def test_facts_are_asked_for_once_and_before_the_records_are_sent(install: Install) -> None:
    """A failure afterwards would leave written records without metadata; and the guide's encoder makes lists in it."""
    install(
        """
        facts = ListColumns.facts
        def once(self):
            if not self._records and self._facts is None or getattr(self, "asked", False):
                raise KeyError("facts")
            self.asked = self._records == []
            return facts(self)
        ListColumns.facts = once
        """
    )
    with simulated(1, config={"record.encoder": "first"}) as simulation:
        deliveries = [simulation.producer.send("t", b"v" * number, partition=0) for number in range(RECORDS)]
        simulation.run_until_idle()
        found = [each.result(0) for each in deliveries]

    assert [each.serialized_value_size for each in found] == [0, 1, 2, 3, 4]
    assert [each.offset for each in found] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize(
    ("code", "said"),
    [LIES["a record left out"], LIES["few times"], LIES["no chunks"]],
    ids=["count", "facts", "chunks"],
)
def test_a_lie_about_the_rows_of_a_table_is_named(install: Install, code: str, said: str, compression: str) -> None:
    install(code)
    table = pa.table({"value": [b"%d" % number for number in range(RECORDS)]})
    config = {"record.encoder": "first", "compression.type": compression}
    with simulated(1, config=config) as simulation:
        try:
            delivery = simulation.producer.send_table("t", table)
            simulation.run_until_idle()
            error: Any = delivery.exception(0)
        except InvalidPluginError as refused:  # compressed, the rows are encoded in send_table
            error = refused

        assert re.search(f"{NAMED}{said}", str(error))
        assert not simulation.cluster.topics["t"].log.get(0)
        simulation.run_until_idle()
        assert simulation.pool.free == simulation.pool.capacity
