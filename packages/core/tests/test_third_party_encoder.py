"""The encoder of the guide, installed as a package of another author, and a partitioner: both do what Ottla's own do.

They are written only from the public interfaces, and have every ability that spares calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pytest

from guide_encoder import NAMED, Install, code, install
from ottla import InvalidPluginError, InvalidRecordError
from ottla.interfaces import TopicView
from plugin_site import plugin_site
from simulated_producer import Calling, simulated

__all__ = ["install", "plugin_site"]

NOW: Final = 1_700_000_000_000
KEYS: Final = [None, *(b"k" * size for size in range(9)), b"another key", b"\xff\0" * 30]
ROWS: Final = pa.table(
    {
        "value": [None if number % 7 == 3 else b"%d" % number * (number % 50) for number in range(300)],
        "key": [KEYS[number % len(KEYS)] for number in range(300)],
        "headers": pa.array(
            [None if number % 3 else [("x", b"1"), ("\u00e9", None)] for number in range(300)],
            pa.map_(pa.string(), pa.binary()),
        ),
        "time": pa.array([None if number % 5 == 1 else NOW + number * 1_000 for number in range(300)], pa.int64()),
        "number": list(range(300)),
        "text": [None if number % 4 else f'"{number}"\n\u00e9' for number in range(300)],
        "list": [[None, number] for number in range(300)],
    }
)


def sent(encoder: str, send: Callable[[Any], object], **options: Any) -> dict[int, list[Any]]:
    """The records of each partition of a topic with four, as a broker got them."""
    with simulated(1, 1, 1, 1, config={"record.encoder": encoder}, **options) as simulation:
        send(simulation.producer)
        Calling(simulation, simulation.producer.flush).rounds()

        return {
            partition: [(each.key, each.value, tuple(each.headers), each.timestamp_ms) for each in records]
            for partition, records in simulation.cluster.topics["t"].log.items()
        }


def send_all(producer: Any) -> None:
    for number, key in enumerate(KEYS * 5):
        given = number % 4 if key is None else None
        producer.send("t", b"v" * number, key, headers=[("h", key)], timestamp_ms=NOW + number, partition=given)


def send_table(producer: Any) -> None:
    keyed = ROWS.filter(pa.compute.is_valid(ROWS["key"]))
    producer.send_table("t", keyed, headers="headers", timestamp="time")


def send_json(producer: Any) -> None:
    rows = ROWS.filter(pa.compute.is_valid(ROWS["key"]))
    producer.send_table("t", rows, value=["number", "text", "list"], value_format="json", timestamp="number")


def timeless(found: dict[int, list[Any]]) -> dict[int, list[Any]]:
    """The same records, with 0 for the time of those that were sent without one."""
    return {
        partition: [(*each, time if time < NOW * 1.01 else 0) for *each, time in records]
        for partition, records in found.items()
    }


@pytest.mark.parametrize("send", [send_all, send_table, send_json])
def test_it_writes_the_records_that_own_encoders_write(install: Install, send: Callable[[Any], object]) -> None:
    install()
    third, native, python = (timeless(sent(encoder, send)) for encoder in ("first", "native", "python"))

    assert len(third) == 4
    assert third == native == python


def test_its_abilities_for_tables_are_used(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("calls = []\nfor name in ('cut_rows', 'murmur2_partitions', 'json_rows'):\n"
            "    def counted(self, *arguments, method=getattr(TableEncoder, name), name=name, **options):\n"
            "        calls.append(name)\n"
            "        return method(self, *arguments, **options)\n"
            "    setattr(TableEncoder, name, counted)\n")  # fmt: skip
    with simulated(1, 1, config={"record.encoder": "first"}) as simulation:
        send_json(simulation.producer)
        encoder: Any = simulation.producer._engine.plugins.encoder

        assert {*encoder.cut_rows.__globals__["calls"]} == {"cut_rows", "murmur2_partitions", "json_rows"}


# Faults


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("memory", "memory: KeyError: 'boom'"),
        ("size_estimate", "size_estimate: KeyError: 'boom'"),
        ("allow", "allow: KeyError: 'boom'"),
    ],
)
def test_columns_that_fail_in_a_new_batch_are_named(install: Install, method: str, said: str) -> None:
    install(f"def failing(self, *_arguments): raise KeyError('boom')\nListColumns.{method} = failing")
    with (
        simulated(1, config={"record.encoder": "first"}) as simulation,
        pytest.raises(InvalidPluginError, match=rf"^{NAMED}failed in {said}; report it to the authors of acme"),
    ):
        simulation.producer.send("t", b"v", partition=0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("memory = lambda self: 'much'", "builtins.str in memory, not an int of at least 0"),
        ("memory = lambda self: -1", "builtins.int in memory, not an int of at least 0"),
        ("append = lambda self, *record: None", "builtins.NoneType in append; an index is an int, and an empty batch"),
        ("append = lambda self, *record: 'first'", "builtins.str in append; an index is an int, and an empty batch"),
        ("append = lambda self, *record: -1", "-1 in append, but the index of the record is 0"),
        ("append = lambda self, *record: 7", "7 in append, but the index of the record is 0"),
        ("size_estimate = lambda self: True", "builtins.bool in size_estimate, not an int of at least 0"),
    ],
)
def test_wrong_results_of_columns_are_named(install: Install, line: str, said: str) -> None:
    install(f"ListColumns.{line}")
    with (
        simulated(1, config={"record.encoder": "first"}) as simulation,
        pytest.raises(InvalidPluginError, match=rf"^{NAMED}returned {said}"),
    ):
        simulation.producer.send("t", b"v", partition=0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("keys = lambda self: None", "builtins.NoneType in keys, not a sequence with an entry for each of 1 record"),
        ("keys = lambda self: 'k'", "builtins.str in keys, not a sequence with an entry for each of 1 record"),
        ("keys = lambda self: []", "builtins.list in keys, not a sequence with an entry for each of 1 record"),
        ("extend = lambda self, other, indexes: 2**70", "1180591620717411303424 in extend, more than the 1 record"),
        ("extend = lambda self, other, indexes: 2", "2 in extend, more than the 1 record that it was given"),
    ],
)
def test_wrong_results_for_records_without_a_partition_are_named(install: Install, line: str, said: str) -> None:
    install(f"ListColumns.{line}")
    many = type("Many", (), {"partition": lambda *_: 0, "partition_column": lambda _self, _topic, keys, _view: [0]})()
    with simulated(1, config={"record.encoder": "first", "partitioner.class": many}) as simulation:
        failed = simulation.producer.send("t", b"v", b"k")
        simulation.run_until_idle()

        error = failed.exception(0)
    assert error is not None
    assert re.search(f"{NAMED}returned {re.escape(said)}", str(error))


def test_an_encoder_that_returns_the_same_columns_again_is_named(install: Install) -> None:
    install("same = ListColumns(2**20)\nTableEncoder.columns = lambda self, kind, limit: same")
    with simulated(1, 1, config={"record.encoder": "first"}) as simulation:
        simulation.producer.send("t", b"v", partition=0)
        with pytest.raises(InvalidPluginError, match=f"{NAMED}returned 1 in append, but the index of the record is 0"):
            simulation.producer.send("t", b"v", partition=1)


@pytest.mark.parametrize("cost", ["'much'", "[1]", "float('nan')", "-5", "True", "lambda: 1"])
def test_a_record_cost_that_is_no_number_of_bytes_is_refused(install: Install, cost: str) -> None:
    install(f"TableEncoder.record_cost = {cost}")
    with (
        pytest.raises(InvalidPluginError, match=f"{NAMED}has a record_cost .*, not an int of at least 0; report it"),
        simulated(1, config={"record.encoder": "first"}),
    ):
        raise AssertionError("the encoder was taken")


def test_an_encoder_that_takes_no_records_of_send_is_named(install: Install) -> None:
    install("TableEncoder.columns = lambda self, kind, limit: None")
    with (
        pytest.raises(InvalidPluginError, match=f"{NAMED}returned None in columns for records of send; report it"),
        simulated(1, config={"record.encoder": "first"}),
    ):
        raise AssertionError("the encoder was taken")


def test_an_encoder_without_columns_for_a_later_batch_is_named(install: Install) -> None:
    install("made = []\ncolumns = TableEncoder.columns\n"
            "def once(self, kind, limit):\n"
            "    made.append(kind)\n"
            "    return columns(self, kind, limit) if len(made) == 1 else None\n"
            "TableEncoder.columns = once\n")  # fmt: skip
    with (
        simulated(1, config={"record.encoder": "first"}) as simulation,
        pytest.raises(
            InvalidPluginError, match=r"^the encoder 'first' .* returned None in columns for records of send"
        ),
    ):
        simulation.producer.send("t", b"v", partition=0)


@pytest.mark.parametrize("fault", ["KeyError('boom')", "SystemExit(3)", "RuntimeError('a\\n\\x1b[2Jb')"])
def test_an_append_that_fails_refuses_its_record_and_is_named(install: Install, fault: str) -> None:
    install(
        f"""
        append = ListColumns.append
        def failing(self, key, *rest):
            if key == b"bad":
                raise {fault}
            return append(self, key, *rest)
        ListColumns.append = failing
        """
    )
    with simulated(1, config={"record.encoder": "first"}) as simulation:
        for _ in range(2):  # in a new batch, and in the open one
            with pytest.raises(InvalidPluginError, match=rf"^{NAMED}failed in append: {fault[:5]}\w+: .*; report it"):
                simulation.producer.send("t", b"v", b"bad", partition=0)
            good = simulation.producer.send("t", b"v", b"good", partition=0)
        simulation.run_until_idle()

        assert good.metadata is not None
        assert simulation.pool.free == simulation.pool.capacity


def test_an_encode_that_fails_costs_its_batch_and_is_named(install: Install) -> None:
    install("ListColumns.encode = lambda self, magic: {}[magic]")
    with simulated(1, config={"record.encoder": "first"}) as simulation:
        failed = simulation.producer.send("t", b"v")
        simulation.run_until_idle()

        error = failed.exception(0)
    with pytest.raises(InvalidPluginError, match=rf"{NAMED}failed in encode: KeyError: 2; report it"):
        raise error.__cause__ if error is not None and error.__cause__ is not None else AssertionError(error)


def test_an_error_of_ottla_that_append_raises_is_passed_on(install: Install) -> None:
    install()
    with (
        simulated(1, config={"record.encoder": "first"}) as simulation,
        pytest.raises(InvalidRecordError, match="a header's name cannot be written"),
    ):
        simulation.producer.send("t", b"v", headers=[("\ud800", None)])


@pytest.mark.parametrize(
    ("ability", "fault"),
    [
        ("cut_rows = lambda self, rows, partitions, *, max_bytes: {}[1]", "failed in cut_rows: KeyError: 1"),
        ("cut_rows = lambda self, rows, partitions, *, max_bytes: 5", "failed in cut_rows: TypeError: .*int.*iterable"),
        ("cut_rows = lambda self, rows, partitions, *, max_bytes: [(1, 2)]", "failed in cut_rows: ValueError: "),
        (
            "cut_rows = lambda self, rows, partitions, *, max_bytes: []",
            "returned batches with 0 rows in cut_rows, where",
        ),
        (
            "cut_rows = lambda self, *rest, cut=TableEncoder.cut_rows, **options: "
            "(each._replace(partition=7) for each in cut(self, *rest, **options))",
            "returned a batch for partition 7 in cut_rows, which no row has",
        ),
        (
            "cut_rows = lambda self, *rest, cut=TableEncoder.cut_rows, **options: "
            "(each._replace(rows=[0]) for each in cut(self, *rest, **options))",
            r"returned a batch with \d+ records for 1 row in cut_rows",
        ),
        ("murmur2_partitions = lambda self, keys, partitions: {}[1]", "failed in murmur2_partitions: KeyError: 1"),
        ("murmur2_partitions = lambda self, keys, partitions: None", "failed in murmur2_partitions: TypeError"),
        (
            "murmur2_partitions = lambda self, keys, partitions: bytes(len(keys))",
            r"returned 275 bytes in murmur2_partitions for 275 keys, not four for each",
        ),
        (
            "murmur2_partitions = lambda self, keys, partitions: array('i', [partitions] * len(keys))",
            "chose partitions from 2 to 2 in murmur2_partitions, where there are 2",
        ),
    ],
)
def test_an_ability_for_tables_that_fails_is_named(install: Install, ability: str, fault: str) -> None:
    install(f"TableEncoder.{ability}")
    with simulated(1, 1, config={"record.encoder": "first"}) as simulation:
        with pytest.raises(InvalidPluginError, match=rf"^{NAMED}{fault}.*; report it"):
            send_table(simulation.producer)
        simulation.run_until_idle()

        assert simulation.pool.free == simulation.pool.capacity


def test_methods_with_names_of_own_abilities_are_not_called(install: Install) -> None:
    install(
        """
        def refuse(self, *arguments, **options):
            raise AssertionError("it is the encoder's own")
        for name in ("put", "lock", "take_callbacks", "run_callbacks"):
            setattr(ListColumns, name, refuse)
        TableEncoder.quick_send = refuse
        """
    )
    called: list[Any] = []
    with simulated(1, config={"record.encoder": "first"}) as simulation:
        delivery = simulation.producer.send("t", b"v", on_delivery=called.append)
        simulation.run_until_idle()

        assert delivery.exception(0) is None
    assert len(called) == 1


# A partitioner


class KeyHash:
    """A partitioner with Java's hash, which knows nothing of Ottla's own."""

    hashes = "murmur2"

    def __init__(self) -> None:
        names: dict[str, Any] = {}
        exec("\n".join(code()), names)
        self._hash: Callable[[bytes], int] = names["murmur2"]
        self.calls: list[str] = []

    def partition(self, topic: str, key: bytes | None, view: TopicView) -> int:
        self.calls.append("partition")
        return 0 if key is None else (self._hash(key) & 0x7FFFFFFF) % view.partitions

    def partition_column(self, topic: str, keys: Sequence[bytes], view: TopicView) -> Sequence[int]:
        self.calls.append("partition_column")
        return [(self._hash(key) & 0x7FFFFFFF) % view.partitions for key in keys]


@pytest.mark.parametrize(
    ("encoder", "send", "calls"),
    [
        ("native", send_table, set()),
        ("python", send_table, set()),
        ("python", send_all, {"partition_column"}),
        ("first", send_table, set()),
        ("first", send_all, {"partition_column"}),
    ],
)
def test_a_partitioner_that_names_its_hash_is_spared_the_calls(
    install: Install, encoder: str, send: Callable[[Any], object], calls: set[str]
) -> None:
    install()
    partitioner = KeyHash()

    third = timeless(sent(encoder, send, plugins={"partitioner": partitioner}))

    assert third == timeless(sent(encoder, send))
    assert {*partitioner.calls} == calls
