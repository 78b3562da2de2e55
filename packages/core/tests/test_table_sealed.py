"""Batches that are made of a table in one place and sent from another bring the records that `send_table` would."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla import (
    DeliveryError,
    ErrorCode,
    InvalidRecordError,
    RecordTooLargeError,
    TableDeliveryError,
    TopicUnavailableError,
)
from ottla.config import ConfigDraft
from ottla.errors import IllegalStateError
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose
from ottla.protocol import PRODUCE
from ottla.recordbatch.parse import parse_batches
from ottla.recordbatch.sealed_records import SealedBatch
from ottla.tables import sealed
from ottla.tables.sealed import TableSealer
from ottla_testkit.simulation import SimulatedCluster, batch_checks
from simulated_producer import BrokenCodec, Simulated, choosing, simulated

NOW = 1_700_000_000_000
ENCODERS = ["python", "native"]
SEED = {"bootstrap.servers": "127.0.0.1:1"}
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def sealer(partitions: Mapping[str, int] | None = None, **more: Any) -> TableSealer:
    options = {name.replace("_", "."): value for name, value in more.items() if name != "max_bytes"}
    bounds = {"max_bytes": more["max_bytes"]} if "max_bytes" in more else {}
    return TableSealer({**SEED, **options}, partitions or {"t": 3}, **bounds)


def log(simulation: Simulated, partition: int, topic: str = "t") -> list[Any]:
    return list(simulation.cluster.topics[topic].log.get(partition, []))


def parts(simulation: Simulated) -> list[list[tuple[Any, ...]]]:
    found = (log(simulation, partition) for partition in range(3))
    return [[(r.key, r.value, tuple(r.headers), r.timestamp_ms) for r in records] for records in found]


@pytest.fixture(autouse=True, scope="module")
def brokers_that_know_codecs() -> Iterator[None]:
    """Simulated brokers read only batches without compression, unless they get a compressor."""
    codecs: dict[int, Any] = {}
    for name in CODECS[1:]:
        _config, plugins = choose(ConfigDraft.read({**SEED, "compression.type": name}, {}), Registry())
        assert plugins.compressor is not None
        codecs[plugins.compressor.codec_id] = plugins.compressor
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_checks, "parse_batches", lambda data, **_: parse_batches(data, compressors=codecs))
        yield


part = st.none() | st.binary(max_size=9)


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.tuples(part, part, st.none() | st.integers(0, 2), st.integers(0, NOW)), min_size=1, max_size=60),
    max_bytes=st.integers(1, 2_000),
    codec=st.sampled_from(CODECS),
    encoder=st.sampled_from(ENCODERS),
)
def test_sealed_rows_equal_those_that_the_producer_would_send(
    rows: list[tuple[bytes | None, bytes | None, int | None, int]], max_bytes: int, codec: str, encoder: str
) -> None:
    keys, contents, partitions, times = zip(*rows, strict=True)
    table = pa.table(
        {
            "value": pa.array(contents, pa.binary()),
            "key": pa.array([key or b"k" for key in keys], pa.binary()),
            "to": pa.array(partitions, pa.int8()),
            "at": pa.array(times, pa.int64()),
        }
    )
    columns: dict[str, Any] = {"partition": "to", "timestamp": "at"}
    made = sealer(record_encoder=encoder, compression_type=codec, max_bytes=max_bytes).seal("t", table, **columns)
    with simulated(1, 2, 1, compression_type=codec) as ours, simulated(1, 2, 1) as theirs:
        deliveries = [ours.producer.send_sealed(batch) for batch in made.batches]
        theirs.producer.send_table("t", table, **columns)
        ours.run_until_idle()
        theirs.run_until_idle()

        assert parts(ours) == parts(theirs)
        assert sum(delivery.result(0).acknowledged for delivery in deliveries) == len(rows)
    assert made.refused == {}
    assert all(batch.sealed.count == 1 or batch.sealed.plain_size <= max_bytes for batch in made.batches)


def test_the_delivery_has_the_offset_of_each_record_but_not_its_size() -> None:
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [b"a", b"b", b"c"]})).batches
    with simulated(1) as simulation:
        simulation.producer.send("t", b"before")
        delivery = simulation.producer.send_sealed(batch)
        simulation.run_until_idle()

        assert [record.value for record in log(simulation, 0)] == [b"before", b"a", b"b", b"c"]
        assert delivery.result(0).partitions[0].first_offset == 1
        assert delivery.metadata(2) == ("t", 0, 3, -1, -1, -1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_batch_can_be_passed_to_another_process(codec: str, encoder: str) -> None:
    made = sealer({"t": 1}, compression_type=codec, record_encoder=encoder)
    [batch] = made.seal("t", pa.table({"value": [b"a", b"b"], "key": [b"k", None]})).batches
    arrived = pickle.loads(pickle.dumps(batch))
    with simulated(1, compression_type=codec) as simulation:
        simulation.producer.send_sealed(arrived)
        simulation.run_until_idle()

        assert [(record.key, record.value) for record in log(simulation, 0)] == [(b"k", b"a"), (None, b"b")]


def test_later_records_stay_behind_a_batch_sealed_elsewhere() -> None:
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [b"sealed"]})).batches
    with simulated(1, linger_ms=50) as simulation:
        simulation.producer.send("t", b"before")
        simulation.producer.send_sealed(batch)
        simulation.producer.send("t", b"behind")
        simulation.run_until_idle()

        assert [record.value for record in log(simulation, 0)] == [b"before", b"sealed", b"behind"]


def test_a_sealed_batch_needs_and_joins_the_open_transaction() -> None:
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [b"a", b"b"]})).batches
    with simulated(config={"transactional.id": "mine"}, cluster=cluster) as simulation:
        simulation.producer.init_transactions()
        with pytest.raises(IllegalStateError):
            simulation.producer.send_sealed(batch)
        with simulation.producer.transaction():
            simulation.producer.send_sealed(batch)

        assert cluster.topics["t"].committed(0) == [b"a", b"b"]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_batch_that_the_topic_finds_too_large_is_split(codec: str) -> None:
    table = pa.table({"value": [b"%d" % number * 20 for number in range(100)]})
    [batch] = sealer({"t": 1}, compression_type=codec).seal("t", table).batches
    with simulated(1, compression_type=codec, batch_size=500) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.MESSAGE_TOO_LARGE)
        delivery = simulation.producer.send_sealed(batch)
        simulation.run_until_idle()

        assert [record.value for record in log(simulation, 0)] == table["value"].to_pylist()
        assert delivery.result(0).acknowledged == 100


def test_a_batch_that_the_broker_refuses_fails_with_all_its_records() -> None:
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [b"a", b"b"]})).batches
    with simulated(1) as simulation:
        simulation.cluster.brokers[1].codes.append(ErrorCode.INVALID_RECORD)
        delivery = simulation.producer.send_sealed(batch)
        simulation.run_until_idle()

        assert list(delivery.failed_rows()) == [0, 1]
        with pytest.raises(TableDeliveryError):
            delivery.result(0)


# What cannot be


def test_rows_that_cannot_be_records_are_reported_and_the_others_sealed() -> None:
    table = pa.table({"value": [b"good", bytes(3_000), b"too"], "to": pa.array([0, 0, 9])})
    made = sealer(max_request_size=2_000).seal("t", table, partition="to")

    assert [batch.sealed.count for batch in made.batches] == [1]
    assert {row: type(error.__cause__) for row, error in made.refused.items()} == {
        1: RecordTooLargeError,
        2: InvalidRecordError,
    }
    assert "partition 9 of topic 't', which has 3" in str(made.refused[2].__cause__)


LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "times", "refused"),
    [
        (pa.int64(), [0, None, LAST], set()),
        (pa.int64(), [None, None], set()),
        (pa.int64(), [-1, None, LAST], {0}),
        (pa.uint64(), [0, LAST, LAST + 1], {2}),
        (pa.timestamp("ms"), [0, -1, None], {1}),
        (pa.timestamp("us"), [1_000, -1_000, LAST], {1}),
        (pa.timestamp("s"), [0, LAST // 1_000], set()),
        (pa.timestamp("s"), [0, None, LAST // 1_000 + 1], {2}),
        (pa.timestamp("s"), [LAST // 1_000 + 1, -1, 0], {0, 1}),
    ],
)
def test_rows_with_impossible_timestamps_are_refused(kind: Any, times: list[int | None], refused: set[int]) -> None:
    table = pa.table({"value": pa.array(["v"] * len(times)), "time": pa.array(times, kind)})

    made = sealer().seal("t", table, timestamp="time")

    assert set(made.refused) == refused
    assert sum(batch.sealed.count for batch in made.batches) == len(times) - len(refused)


def test_a_codec_error_is_reported_for_all_rows_of_its_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "choose_plugins", choosing({"compressor": BrokenCodec()}))
    made = sealer().seal("t", pa.table({"value": [b"a", b"b"]}))

    assert not made.batches
    assert list(made.refused) == [0, 1]
    assert all("BrokenCodec failed in compress: RuntimeError: no" in str(e.__cause__) for e in made.refused.values())
    assert all(isinstance(error, DeliveryError) for error in made.refused.values())


def test_a_topic_that_was_not_declared_has_no_batches() -> None:
    with pytest.raises(TopicUnavailableError, match="topic 'u' is not in the given topics: t"):
        sealer().seal("u", pa.table({"value": [b"a"]}))


def test_rows_of_a_failed_table_are_not_in_the_batches_of_the_next() -> None:
    def broken() -> Iterator[Any]:
        yield pa.record_batch({"value": [b"old"] * 100})
        raise OSError("gone")

    schema = pa.schema([("value", pa.binary())])
    made = sealer(max_bytes=50)
    with pytest.raises(Exception, match="gone"):
        made.seal("t", pa.RecordBatchReader.from_batches(schema, broken()))
    [batch] = made.seal("t", pa.table({"value": [b"new"]})).batches

    assert batch.sealed.count == 1


def test_a_batch_larger_than_any_request_is_refused_with_the_remedy() -> None:
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [bytes(5_000)]})).batches
    with (
        simulated(1, max_request_size=2_000) as simulation,
        pytest.raises(
            RecordTooLargeError, match=r"above max.request.size: 2000; seal with the settings of the producer"
        ),
    ):
        simulation.producer.send_sealed(batch)


def test_the_largest_record_is_sent_although_its_codec_enlarges_it() -> None:
    value = random.Random(3).randbytes(1_500)
    options: dict[str, Any] = {"compression_type": "snappy", "max_request_size": len(value) + 82}
    [batch] = sealer({"t": 1}, **options).seal("t", pa.table({"value": [value]})).batches
    assert batch.sealed.size > batch.sealed.plain_size, "the test tests nothing"
    with simulated(1, **options) as simulation:
        simulation.producer.send_sealed(batch)
        simulation.run_until_idle()

        assert [record.value for record in log(simulation, 0)] == [value]


def test_a_missing_partition_is_waited_for_and_then_refused() -> None:
    [batch] = sealer({"t": 9}).seal("t", pa.table({"value": [b"a"], "to": [8]}), partition="to").batches
    with simulated(1, max_block_ms=0) as simulation, pytest.raises(TopicUnavailableError):
        simulation.producer.send_sealed(batch)


def test_a_batch_without_a_partition_or_of_another_codec_is_refused() -> None:
    table = pa.table({"value": [b"a"]})
    [packed] = sealer({"t": 1}, compression_type="lz4").seal("t", table).batches
    [plain] = sealer({"t": 1}).seal("t", table).batches
    with simulated(1, compression_type="zstd") as simulation:
        with pytest.raises(InvalidRecordError, match=r"compressed with codec 3, and compression.type is codec 4"):
            simulation.producer.send_sealed(packed)
        with pytest.raises(InvalidRecordError, match="is for partition -1"):
            simulation.producer.send_sealed(attrs.evolve(plain, partition=-1))
        delivery = simulation.producer.send_sealed(plain)
        simulation.run_until_idle()

        assert delivery.result(0).acknowledged == 1


@pytest.mark.parametrize(
    ("options", "largest"),
    [
        ({"batch_size": 500, "batch_growth_enable": "false"}, 500 - 61),
        ({"max_request_size": 700}, 700 - 61),
        ({"buffer_memory": 2_000, "max_request_size": 2_000}, 500),
        ({"max_bytes": 300}, 300),
    ],
)
def test_batches_are_as_large_as_the_settings_allow(options: Mapping[str, Any], largest: int) -> None:
    made = sealer({"t": 1}, **options).seal("t", pa.table({"value": [bytes(20)] * 1_000}))
    sizes = [batch.sealed.plain_size for batch in made.batches]

    assert all(largest * 0.4 < size <= largest for size in sizes[:-1])
    assert len(sizes) > 30


def test_batches_without_a_key_go_to_all_partitions() -> None:
    made = sealer(max_bytes=1_000).seal("t", pa.table({"value": [bytes(200)] * 2_000}))

    assert {batch.partition for batch in made.batches} == {0, 1, 2}


def test_topics_without_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="these topics have no partition, but need at least one: u"):
        sealer({"t": 1, "u": 0})


def test_sealing_with_interceptors_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "choose_plugins", choosing({"interceptors": {"one": object()}}))
    with pytest.raises(IllegalStateError, match=r"leave interceptor\.classes out"):
        sealer()


def test_sending_sealed_batches_with_interceptors_is_refused() -> None:
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [b"a"]})).batches
    with (
        simulated(1, plugins={"interceptors": {"one": object()}}) as simulation,
        pytest.raises(IllegalStateError, match="rows of a sealed batch would go past the one: use send_table"),
    ):
        simulation.producer.send_sealed(batch)


def test_an_older_broker_takes_it_in_its_own_format() -> None:
    made = sealer({"t": 3}, compression_type="gzip").seal(
        "t", pa.table({"value": [b"a", b"b"], "to": [0, 0]}), partition="to"
    )
    cluster = SimulatedCluster.of(1)
    cluster.create("t", 1)
    cluster.brokers[1].versions[PRODUCE.key] = (0, 2)
    with simulated(cluster=cluster, compression_type="gzip", enable_idempotence="false") as simulation:
        delivery = simulation.producer.send_sealed(made.batches[0])
        simulation.run_until_idle()

        assert delivery.result(0).acknowledged == 2
        assert simulation.cluster.brokers[1].magics == [1]
        assert [record.value for record in log(simulation, 0)] == [b"a", b"b"]


def test_the_repr_of_a_sealed_batch_shows_no_records() -> None:
    [batch] = sealer({"t": 1}).seal("t", pa.table({"value": [b"secret"]})).batches

    assert isinstance(batch, SealedBatch)
    assert "secret" not in repr(batch)
